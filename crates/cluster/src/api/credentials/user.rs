//! The user of a kubeconfig: client certificate, and the credentials sent with each request.

use std::path::PathBuf;

use jiff::Timestamp;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{CredentialsError, read};
use crate::api::exec::Exec;

/// A client certificate and its key. Its `Debug` hides the key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// When it will be rotated; `None` if others replace it, or nobody.
    pub(crate) renewal: Option<Timestamp>,
}

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadIdentity {
    /// The certificate is not PEM.
    #[error("the client certificate is not PEM")]
    Certificate(#[source] pem::Error),
    /// The PEM text has no certificate.
    #[error("no certificate was found")]
    NoCertificate,
    /// The PEM text has no usable key.
    #[error("the client key cannot be read")]
    Key(#[source] pem::Error),
}

impl Identity {
    /// From PEM text; both may be the same text, as in `kubelet-client-current.pem`.
    ///
    /// # Errors
    /// If the text has no certificate or no key.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, BadIdentity> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(BadIdentity::Certificate)?;
        if chain.is_empty() {
            return Err(BadIdentity::NoCertificate);
        }
        Ok(Self { chain, key: PrivateKeyDer::from_pem_slice(key).map_err(BadIdentity::Key)?, renewal: None })
    }

    /// When the certificate expires, if that can be read.
    pub(in crate::api) fn expires(&self) -> Option<Timestamp> {
        let (_, certificate) = X509Certificate::from_der(self.chain.first()?).ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    }

    /// From DER: the certificate, its intermediates, and the key.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self { chain, key, renewal: None }
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    pub(in crate::api) fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// PEM text, or the file that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// A file, read again at each new connection.
    File(PathBuf),
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("…"),
            Self::File(path) => path.fmt(f),
        }
    }
}

impl Pem {
    pub(super) async fn text(&self) -> Result<Vec<u8>, CredentialsError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                read(path).await.map_err(|source| CredentialsError::Read { path: path.clone(), source })
            }
        }
    }

    pub(super) fn origin(&self) -> String {
        match self {
            Self::Text(_) => "the kubeconfig".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// A `user` of a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// The client certificate and its key.
    pub certificate: Option<(Pem, Pem)>,
    /// The credentials sent with each request.
    pub login: Login,
}

/// The credentials sent with each request.
#[derive(Clone, Default)]
pub enum Login {
    /// None: the client certificate suffices.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A file with a bearer token, renewed by another program.
    TokenFile(PathBuf),
    /// User name and password.
    Basic(String, String),
    /// A credential plugin, which prints a token, a certificate, or both.
    Exec(Box<Exec>),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(…)"),
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
            Self::Basic(name, _) => write!(f, "Basic({name:?}, …)"),
            Self::Exec(exec) => exec.fmt(f),
        }
    }
}
