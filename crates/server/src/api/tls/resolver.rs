//! The serving certificate for each handshake.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rubelet_engine::chain::Chain;
use rubelet_engine::ports::ServingCert;
use tokio::sync::watch;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::warn;

/// Resolves to the newest serving certificate.
pub(super) struct CertificateResolver {
    news: watch::Receiver<Option<Arc<ServingCert>>>,
    /// The last certificate, converted once: any client can trigger a conversion.
    converted: Mutex<Option<Converted>>,
}

/// A certificate in rustls' form; `None` if it is unusable.
struct Converted {
    of: Arc<ServingCert>,
    key: Option<Arc<CertifiedKey>>,
}

impl CertificateResolver {
    pub(super) fn new(news: watch::Receiver<Option<Arc<ServingCert>>>) -> Self {
        Self { news, converted: Mutex::default() }
    }
}

impl fmt::Debug for CertificateResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateResolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let newest = self.news.borrow().clone()?;
        let mut converted = self.converted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(converted) = converted.as_ref().filter(|converted| Arc::ptr_eq(&converted.of, &newest)) {
            return converted.key.clone();
        }
        let key = match certified(&newest) {
            Ok(key) => Some(Arc::new(key)),
            Err(err) => {
                warn!(err = %Chain(&err), "The serving certificate is not usable: no client can connect");
                None
            }
        };
        *converted = Some(Converted { of: newest, key: key.clone() });
        key
    }
}

fn certified(cert: &ServingCert) -> Result<CertifiedKey, rustls::Error> {
    let chain = cert.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let key = PrivateKeyDer::try_from(cert.key.clone()).map_err(|why| rustls::Error::General(why.to_owned()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
}
