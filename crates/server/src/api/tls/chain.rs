//! The certificate chain that a client presents.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{self, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Limits of a client's chain, in certificates and in bytes. Real chains have one to three certificates.
pub(in crate::api) const MOST_CERTIFICATES: usize = 8;
pub(in crate::api) const LARGEST_CHAIN: usize = 32 * 1024;

/// The chain that a client presented, and the result of its verification.
#[derive(Default)]
pub(in crate::api) struct PresentedChain {
    pub(super) chain: Arc<Vec<CertificateDer<'static>>>,
    verification: Mutex<Option<Verification>>,
}

#[derive(Clone)]
pub(super) struct Verification {
    /// Version of the authorities that it was verified against.
    pub(super) authorities: u64,
    /// Expiry of the result, in seconds since 1970.
    pub(super) until: u64,
    pub(super) outcome: Result<(), rustls::Error>,
}

impl PresentedChain {
    pub(in crate::api) fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain: Arc::new(chain), verification: Mutex::default() }
    }

    /// The client's own certificate.
    pub(in crate::api) fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }

    pub(super) fn verification(&self) -> MutexGuard<'_, Option<Verification>> {
        self.verification.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests a client certificate and accepts any: see the module. Only a chain that is too large is rejected at once.
#[derive(Debug)]
pub(super) struct AcceptAnyChain(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AcceptAnyChain {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let size: usize = rest.iter().map(|der| der.len()).sum::<usize>().saturating_add(leaf.len());
        if rest.len() >= MOST_CERTIFICATES || size > LARGEST_CHAIN {
            return Err(rustls::Error::General("the client presents too many certificates".to_owned()));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// When the first certificate of a chain expires, in seconds since 1970. Roots in the file of authorities do not expire.
pub(super) fn expiry(chain: &[CertificateDer<'static>]) -> u64 {
    let end = |der: &CertificateDer<'static>| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // The certificate is still valid in its last second.
        u64::try_from(certificate.validity().not_after.timestamp()).ok().map(|last| last.saturating_add(1))
    };
    chain.iter().map(|der| end(der).unwrap_or_default()).min().unwrap_or_default()
}
