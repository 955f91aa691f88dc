//! Query strings.

use std::fmt::Write as _;

/// `text`, percent-encoded for a path segment or a query value.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// `path` with these query parameters; parameters without a value are omitted.
pub(super) fn with(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut all = path.to_owned();
    let mut sign = if path.contains('?') { '&' } else { '?' };
    for (name, value) in parameters {
        let Some(value) = value else { continue };
        all.push(sign);
        all += name;
        all.push('=');
        all += &encode(value);
        sign = '&';
    }
    all
}
