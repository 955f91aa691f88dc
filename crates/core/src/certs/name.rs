//! The name of a certificate request that a restart finds again.

use std::fmt::Write as _;

/// Bytes of a SHA-512/256.
pub const DIGEST_LEN: usize = 32;

/// The name of a request for a first client certificate: a digest of whose key it is and what is asked for. After a
/// restart with the same key the name is the same, and the request that waits for approval is found instead of being
/// made again.
///
/// `spki` is the public key in DER (SubjectPublicKeyInfo); `digest` is SHA-512/256, which is not ours to compute.
/// upstream: kubelet/certificate/bootstrap/bootstrap.go digestedName (v1.36)
#[doc(alias = "digestedName")]
pub fn csr_name(
    spki: &[u8],
    common_name: &str,
    organizations: &[String],
    usages: &[&str],
    digest: impl FnOnce(&[u8]) -> [u8; DIGEST_LEN],
) -> String {
    let mut text = String::new();
    let parts = std::iter::once(spki)
        .chain(std::iter::once(common_name.as_bytes()))
        .chain(organizations.iter().map(String::as_bytes))
        .chain(usages.iter().map(|usage| usage.as_bytes()));
    for part in parts {
        // The bar is no letter of the alphabet: two different lists never give the same text.
        let _ = write!(text, "{}|", base64_url(part));
    }
    format!("node-csr-{}", base64_url(&digest(text.as_bytes())))
}

/// Base 64 with the alphabet of URLs and no padding.
pub fn base64_url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |bits: u32| char::from(*ALPHABET.get((bits & 63) as usize).unwrap_or(&b'A'));
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=chunk.len() {
            text.push(letter(bits >> (18 - 6 * at)));
        }
    }
    text
}
