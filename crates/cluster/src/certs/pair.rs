//! A certificate with its matching key.

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

/// A certificate, its intermediates, and its key. Its `Debug` hides the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) leaf: Leaf,
    chain: Vec<Vec<u8>>,
    key: Vec<u8>,
}

/// Why a text is not a certificate with its key.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// It is not PEM.
    #[error("the certificate is not PEM")]
    Pem(#[source] PemError),
    /// It has no certificate.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// A certificate is not X.509.
    #[error("the certificate cannot be read")]
    Certificate(#[source] x509_parser::nom::Err<X509Error>),
    /// A time is out of range.
    #[error("the certificate has an invalid time")]
    Time,
    /// It has no key.
    #[error("there is no private key in it")]
    Key(#[source] PemError),
    /// The key is of a kind that is not supported.
    #[error("the private key is of an unsupported kind")]
    BadKey(#[source] rustls::Error),
    /// The key is another certificate's.
    #[error("the certificate and the private key do not belong together")]
    Mismatch,
}

impl Pair {
    /// Parses PEM. Both texts may be the same.
    pub(super) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = chain(certificate)?;
        let (leaf, spki) = leaf(chain.first().ok_or(PairError::NoCertificate)?)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let secret = key.secret_der().to_vec();
        // Not `with_single_cert` of rustls, which rejects version 1 certificates: openssl makes them, and Go accepts them.
        let key = ring::default_provider().key_provider.load_private_key(key).map_err(PairError::BadKey)?;
        if key.public_key().is_some_and(|public| public.as_ref() != spki) {
            return Err(PairError::Mismatch);
        }
        Ok(Self { leaf, chain: chain.iter().map(|der| der.to_vec()).collect(), key: secret })
    }

    /// The form that the node's API server takes.
    pub(super) fn serving(&self, renewal: Option<Timestamp>) -> ServingCert {
        ServingCert { chain: self.chain.clone(), key: self.key.clone(), renewal }
    }

    /// The form that the API client takes.
    pub(super) fn identity(&self, renewal: Option<Timestamp>) -> Option<Identity> {
        let chain = self.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let mut identity = Identity::new(chain, PrivateKeyDer::try_from(self.key.clone()).ok()?);
        identity.renewal = renewal;
        Some(identity)
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("leaf", &self.leaf).finish_non_exhaustive()
    }
}

/// The certificates of a PEM text, without keys.
pub(super) fn certificates_only(text: &[u8]) -> Result<String, PairError> {
    Ok(chain(text)?.iter().map(|der| pem::encode(pem::CERTIFICATE, der)).collect())
}

/// The validity of each certificate of `text`, which is PEM.
///
/// # Errors
/// If it is not PEM, or a certificate in it cannot be read.
pub fn validities(text: &[u8]) -> Result<Vec<Validity>, PairError> {
    chain(text)?.iter().map(|der| leaf(der).map(|(leaf, _)| leaf.validity)).collect()
}

/// The content of the first certificate of a chain in DER.
pub(super) fn first_leaf(chain: &[impl AsRef<[u8]>]) -> Option<Leaf> {
    leaf(chain.first()?.as_ref()).ok().map(|(leaf, _)| leaf)
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PairError> {
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(PairError::Pem)
}

/// The content of a certificate, and its public key in DER.
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
