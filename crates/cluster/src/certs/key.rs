//! The node's private keys: ECDSA P-256, as upstream generates them.
//!
//! On disk they are in SEC 1 (`EC PRIVATE KEY`), as upstream writes them, so that the kubelet and other readers of
//! `kubelet-client-current.pem` can read them. ring supports only PKCS #8; for one curve both formats are a few fixed bytes
//! around the same two numbers.

use std::fmt;

use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA512_256, digest};
use rubelet_core::certs::{DIGEST_LEN, Purpose, Wish, csr_name};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::pem;

/// A P-256 PKCS #8 key up to its SEC 1 part: version, algorithm, curve, and the head of an octet string without its length.
const PKCS8_BODY: [u8; 24] = [
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// A SEC 1 key up to its secret number: sequence, version 1, octet string of 32.
const SEC1_HEAD: [u8; 7] = [0x30, 0x77, 0x02, 0x01, 0x01, 0x04, 0x20];
/// Between the secret number and the public point: the curve, and the head of a bit string of 65 bytes.
const SEC1_MIDDLE: [u8; 17] =
    [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0xa1, 0x44, 0x03, 0x42, 0x00];
/// Position of the secret number in ring's P-256 PKCS #8.
const SECRET_AT: std::ops::Range<usize> = 36..68;
/// Bytes of an uncompressed point.
const POINT: usize = 65;
/// Bytes of ring's P-256 PKCS #8.
const PKCS8_LEN: usize = 138;

/// A private key of the node. Its `Debug` hides the key.
pub(super) struct NodeKey {
    pair: KeyPair,
}

/// Why a key cannot be generated, read or used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("generate a private key")]
    Make(#[source] rcgen::Error),
    #[error("there is no private key in PEM")]
    Pem(#[source] tokio_rustls::rustls::pki_types::pem::Error),
    #[error("the private key is not an elliptic one of curve P-256")]
    Kind,
    #[error("the private key cannot be read")]
    Read(#[source] rcgen::Error),
    #[error("build a certificate request")]
    Request(#[source] rcgen::Error),
}

impl NodeKey {
    /// Generates a key.
    pub(super) fn generate() -> Result<Self, KeyError> {
        Ok(Self { pair: KeyPair::generate().map_err(KeyError::Make)? })
    }

    /// Reads a stored key.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let pkcs8 = match PrivateKeyDer::from_pem_slice(text).map_err(KeyError::Pem)? {
            PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der().to_vec(),
            PrivateKeyDer::Sec1(key) => to_pkcs8(key.secret_sec1_der()).ok_or(KeyError::Kind)?,
            _ => return Err(KeyError::Kind),
        };
        let pair =
            KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &rcgen::PKCS_ECDSA_P256_SHA256);
        Ok(Self { pair: pair.map_err(KeyError::Read)? })
    }

    /// The text to store.
    pub(super) fn to_pem(&self) -> String {
        match to_sec1(self.pair.serialized_der()) {
            Some(sec1) => pem::encode(pem::EC_KEY, &sec1),
            // Generated elsewhere, in a format that ring reads but does not write.
            None => pem::encode("PRIVATE KEY", self.pair.serialized_der()),
        }
    }

    /// A certificate signing request for `wish`, in PEM.
    pub(super) fn request(&self, wish: &Wish) -> Result<String, KeyError> {
        let params = params(wish).map_err(KeyError::Request)?;
        let request = params.serialize_request(&self.pair).map_err(KeyError::Request)?;
        Ok(pem::encode(pem::REQUEST, request.der()))
    }

    /// The name of the CSR object, derived from the key so that a restart finds the request again.
    pub(super) fn request_name(&self, wish: &Wish, purpose: Purpose) -> String {
        let spki = self.pair.subject_public_key_info();
        csr_name(&spki, &wish.common_name, &wish.organizations, &purpose.usages(), sha512_256)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").finish_non_exhaustive()
    }
}

fn sha512_256(text: &[u8]) -> [u8; DIGEST_LEN] {
    digest(&SHA512_256, text).as_ref().try_into().expect("the digest has its length")
}

fn params(wish: &Wish) -> Result<rcgen::CertificateParams, rcgen::Error> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for organization in &wish.organizations {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(rcgen::DnType::CommonName, &wish.common_name);
    for name in &wish.dns_names {
        params.subject_alt_names.push(rcgen::SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(wish.ips.iter().map(|ip| rcgen::SanType::IpAddress(*ip)));
    Ok(params)
}

fn to_sec1(pkcs8: &[u8]) -> Option<Vec<u8>> {
    if pkcs8.len() != PKCS8_LEN {
        return None;
    }
    let secret = pkcs8.get(SECRET_AT)?;
    let point = pkcs8.get(PKCS8_LEN - POINT..)?;
    Some([&SEC1_HEAD, secret, &SEC1_MIDDLE, point].concat())
}

fn to_pkcs8(sec1: &[u8]) -> Option<Vec<u8>> {
    let known = sec1.len() == SEC1_HEAD.len() + 32 + SEC1_MIDDLE.len() + POINT && sec1.starts_with(&SEC1_HEAD);
    let inner = u8::try_from(sec1.len()).ok().filter(|len| known && *len < 0x80)?;
    // The octet string and the fields before it are longer than 127 bytes, so the sequence's length takes two bytes.
    let body = [&PKCS8_BODY[..], &[0x04, inner], sec1].concat();
    Some([&[0x30, 0x81, u8::try_from(body.len()).ok()?], &body[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_04_the_name_of_a_first_request_is_upstreams() {
        // Computed independently with another program.
        let spki: Vec<u8> = (0..91).collect();
        let wish = Wish::client("n1");
        let name = csr_name(&spki, &wish.common_name, &wish.organizations, &Purpose::Client.usages(), sha512_256);
        assert_eq!(name, "node-csr-fnRg0ly5vdvbveJNuOEQosMFulskc4SUu0vVt3298iI");
    }

    #[test]
    fn tls_04_a_stored_key_has_the_same_request_name_again() {
        let key = NodeKey::generate().expect("a key");
        let text = key.to_pem();
        assert!(text.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "as upstream writes it");
        let again = NodeKey::from_pem(text.as_bytes()).expect("its own text");
        let wish = Wish::client("n1");
        assert_eq!(key.request_name(&wish, Purpose::Client), again.request_name(&wish, Purpose::Client));
        assert_eq!(again.to_pem().len(), NodeKey::from_pem(again.to_pem().as_bytes()).expect("a key").to_pem().len());
    }

    #[test]
    fn keys_of_other_kinds_are_rejected() {
        let check = |text: &str| NodeKey::from_pem(text.as_bytes()).expect_err("no key of ours").to_string();
        assert_eq!(check(""), "there is no private key in PEM");
        assert_eq!(
            check(&pem::encode("RSA PRIVATE KEY", &[1])),
            "the private key is not an elliptic one of curve P-256"
        );
        assert_eq!(check(&pem::encode(pem::EC_KEY, &[1; 50])), "the private key is not an elliptic one of curve P-256");
        assert_eq!(check(&pem::encode("PRIVATE KEY", &[1; 50])), "the private key cannot be read");
    }
}
