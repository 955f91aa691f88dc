//! A certificate with its key, read and known to belong together.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use rubelet_core::certs::{Leaf, Validity};
use rubelet_engine::ports::ServingCert;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate, X509Error};

use super::pem;
use crate::api::Identity;

/// A certificate, those that lead to its issuer, and its key. Its `Debug` hides the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) leaf: Leaf,
    chain: Vec<Vec<u8>>,
    key: Vec<u8>,
}

/// Why text is no certificate with its key.
#[derive(Debug, thiserror::Error)]
pub(super) enum PairError {
    #[error("the certificate is not PEM")]
    Pem(#[source] PemError),
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("the certificate cannot be read")]
    Certificate(#[source] x509_parser::nom::Err<X509Error>),
    #[error("the certificate has a time that no clock shows")]
    Time,
    #[error("there is no private key in it")]
    Key(#[source] PemError),
    #[error("the private key is of a kind that cannot be used")]
    BadKey(#[source] rustls::Error),
    #[error("the certificate and the private key do not belong together")]
    Mismatch,
}

impl Pair {
    /// From PEM text. Both may be the same text.
    pub(super) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = chain(certificate)?;
        let (leaf, spki) = leaf(chain.first().ok_or(PairError::NoCertificate)?)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let secret = key.secret_der().to_vec();
        // Not by rustls, which refuses certificates of version 1 here: people make them with openssl, and Go takes them.
        let key = ring::default_provider().key_provider.load_private_key(key).map_err(PairError::BadKey)?;
        if key.public_key().is_some_and(|public| public.as_ref() != spki) {
            return Err(PairError::Mismatch);
        }
        Ok(Self { leaf, chain: chain.iter().map(|der| der.to_vec()).collect(), key: secret })
    }

    /// As the node's own server takes it.
    pub(super) fn serving(&self) -> ServingCert {
        ServingCert { chain: self.chain.clone(), key: self.key.clone() }
    }

    /// As a connection to the API server takes it.
    pub(super) fn identity(&self) -> Option<Identity> {
        let chain = self.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
        Some(Identity::new(chain, PrivateKeyDer::try_from(self.key.clone()).ok()?))
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("leaf", &self.leaf).finish_non_exhaustive()
    }
}

/// The certificates of PEM text, as PEM text of nothing else.
pub(super) fn certificates_only(text: &[u8]) -> Result<String, PairError> {
    Ok(chain(text)?.iter().map(|der| pem::encode(pem::CERTIFICATE, der)).collect())
}

/// When each certificate of `text` is good.
pub(super) fn validities(text: &[u8]) -> Result<Vec<Validity>, PairError> {
    chain(text)?.iter().map(|der| leaf(der).map(|(leaf, _)| leaf.validity)).collect()
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairError> {
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(PairError::Pem)
}

/// What it says, and its public key in DER.
fn leaf(der: &[u8]) -> Result<(Leaf, Vec<u8>), PairError> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(PairError::Certificate)?;
    let time = |secs: i64| Timestamp::from_second(secs).map_err(|_| PairError::Time);
    let validity = certificate.validity();
    let validity = Validity {
        not_before: time(validity.not_before.timestamp())?,
        not_after: time(validity.not_after.timestamp())?,
    };
    let subject = certificate.subject();
    let common_name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).last().unwrap_or_default();
    let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
    let (mut dns_names, mut ips) = (BTreeSet::new(), BTreeSet::new());
    for extension in certificate.extensions() {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else { continue };
        for name in &names.general_names {
            match name {
                GeneralName::DNSName(name) => {
                    dns_names.insert((*name).to_owned());
                }
                GeneralName::IPAddress(bytes) => ips.extend(ip(bytes)),
                _ => {}
            }
        }
    }
    let spki = certificate.public_key().raw.to_vec();
    Ok((Leaf { validity, common_name: common_name.to_owned(), organizations, dns_names, ips }, spki))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
