//! One attempt to obtain a certificate.

use std::path::PathBuf;

use rubelet_core::certs::{Phase, Wish};
use tracing::warn;

use super::Keeper;
use crate::certs::csr_api::{Problem, SignedInAs};
use crate::certs::key::{KeyError, NodeKey};
use crate::certs::pair::Pair;
use crate::certs::request::{Asked, RequestError, obtain};
use crate::certs::store::{self, StoreError};
use crate::certs::wishes::changed_wish;
use crate::decode::explain;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error("connect to the API server")]
    CsrApi(#[source] Problem),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the issued certificate has expired already: check this machine's clock")]
    Stale,
    #[error("an internal task panicked")]
    Panicked,
}

impl Keeper {
    /// Requests a certificate for `wish`. `None` if the required content changes meanwhile.
    pub(super) async fn attempt(&mut self, wish: &Wish) -> Result<Option<Pair>, AttemptError> {
        let signed_in_as = self.signed_in_as();
        let kept = self.parts.kept_key.clone().filter(|_| signed_in_as == SignedInAs::Bootstrap);
        let key = match &kept {
            Some(path) => kept_key(path.clone()).await?,
            None => NodeKey::generate()?,
        };
        let purpose = self.parts.purpose;
        let name = kept.is_some().then(|| key.request_name(wish, purpose));
        let asked = Asked { purpose, pem: key.request(wish)?, name };
        let requests = self.parts.csr_api.open(signed_in_as).await.map_err(AttemptError::CsrApi)?;
        let wishes = &mut self.parts.wishes;
        let answer = tokio::select! {
            biased;
            () = changed_wish(wishes, wish) => return Ok(None),
            answer = obtain(requests.as_ref(), &asked) => answer,
        };
        let result = match answer {
            Ok(certificate) => self.take(certificate, &key).await,
            Err(error) => Err(AttemptError::Request(error)),
        };
        if let Some(path) = kept
            && result.as_ref().err().is_none_or(AttemptError::needs_a_new_key)
        {
            // If the file stays, the next first CSR is found again with this certificate.
            let _ = blocking(move || std::fs::remove_file(path)).await;
        }
        result.map(Some)
    }

    async fn take(&self, certificate: Vec<u8>, key: &NodeKey) -> Result<Pair, AttemptError> {
        let now = self.parts.clock.wall();
        let pair = Pair::from_pem(&certificate, key.to_pem().as_bytes()).map_err(StoreError::Issued)?;
        if pair.leaf.validity.at(now) == Phase::Expired {
            return Err(AttemptError::Stale);
        }
        self.store(certificate, key.to_pem()).await
    }

    pub(super) async fn store(&self, certificate: Vec<u8>, key: String) -> Result<Pair, AttemptError> {
        let (store, now) = (self.parts.store.clone(), self.parts.clock.wall());
        blocking(move || store.update(&certificate, &key, now)).await?.map_err(AttemptError::Store)
    }
}

impl AttemptError {
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_unauthorized())
    }

    fn needs_a_new_key(&self) -> bool {
        match self {
            Self::Request(error) => error.needs_a_new_key(),
            Self::Stale | Self::Store(StoreError::Issued(_)) => true,
            Self::CsrApi(_) | Self::Key(_) | Self::Store(_) | Self::Panicked => false,
        }
    }
}

/// The key that an earlier run stored, or a new one, stored for the next run.
///
/// upstream: bootstrap.go LoadClientCert, tmpPrivateKeyFile (v1.36)
async fn kept_key(path: PathBuf) -> Result<NodeKey, AttemptError> {
    let work = move || {
        if let Some(text) = store::read(&path)? {
            match NodeKey::from_pem(&text) {
                Ok(key) => return Ok(key),
                Err(error) => warn!(path = %path.display(), err = explain(&error), "The stored key is replaced"),
            }
        }
        let key = NodeKey::generate()?;
        if let Some(dir) = path.parent() {
            store::make_dir(dir)?;
        }
        store::write(&path, key.to_pem().as_bytes(), 0o600)?;
        Ok(key)
    };
    blocking(work).await?
}

/// Runs blocking file operations off the async thread: a disk may hang.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AttemptError> {
    rubelet_engine::blocking::CREDENTIALS.spawn("certificate store", work).await.map_err(|_| AttemptError::Panicked)
}
