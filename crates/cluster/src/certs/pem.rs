//! Writes PEM. `rustls-pki-types` reads it.

use k8s_openapi::ByteString;

/// Characters per line.
const LINE: usize = 64;

pub(super) const CERTIFICATE: &str = "CERTIFICATE";
pub(super) const REQUEST: &str = "CERTIFICATE REQUEST";
pub(super) const EC_KEY: &str = "EC PRIVATE KEY";

pub(super) fn encode(label: &str, der: &[u8]) -> String {
    // ByteString serializes as base64 in quotes.
    let quoted = serde_json::to_string(&ByteString(der.to_vec())).unwrap_or_default();
    let letters = quoted.trim_matches('"');
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = letters;
    while !rest.is_empty() {
        let (line, more) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
