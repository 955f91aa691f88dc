//! A serving certificate from files that are maintained outside of rubelet (TLS-06), read again when they change.
//!
//! upstream: kubelet/certificate/kubelet.go kubeletServerCertificateDynamicFileManager (v1.36)

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::certs::Phase;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::ServingCert;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::pair::Pair;
use super::store::{StoreError, read};
use crate::decode::explain;

/// Interval between checks. Each costs two `stat` calls; a replaced link, a rename or a mount is noticed.
const LOOK: Duration = Duration::from_secs(10);

/// The paths of a certificate and its key.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Identifies the content of a file without reading it: inode, size and times.
type Stamp = (u64, u64, i64, i64, u64);

impl Files {
    pub(super) fn load(&self) -> Result<Pair, StoreError> {
        let missing = |path: &Path| StoreError::Read {
            path: path.into(),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        };
        let chain = read(&self.certificate)?.ok_or_else(|| missing(&self.certificate))?;
        let key = read(&self.key)?.ok_or_else(|| missing(&self.key))?;
        Pair::from_pem(&chain, &key).map_err(|source| StoreError::Bad { path: self.certificate.clone(), source })
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        use std::os::unix::fs::MetadataExt as _;
        [&self.certificate, &self.key].map(|path| {
            let meta = fs::metadata(path).ok()?;
            Some((meta.dev(), meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
        })
    }

    /// Publishes each new certificate until cancelled. An unusable one leaves the old one in use.
    pub(super) async fn run(
        self,
        out: watch::Sender<Option<Arc<ServingCert>>>,
        clock: Clock,
        cancel: CancellationToken,
    ) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.follow(&out, &clock) => {}
        }
    }

    async fn follow(&self, out: &watch::Sender<Option<Arc<ServingCert>>>, clock: &Clock) {
        let mut seen = None;
        loop {
            let (files, known) = (self.clone(), seen);
            let look = rubelet_engine::blocking::CREDENTIALS.spawn("serving certificate", move || {
                let stamps = files.stamps();
                (Some(stamps) != known).then(|| (stamps, files.load()))
            });
            if let Ok(Some((stamps, loaded))) = look.await {
                seen = Some(stamps);
                self.take(loaded, out, clock.wall());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn take(&self, loaded: Result<Pair, StoreError>, out: &watch::Sender<Option<Arc<ServingCert>>>, now: Timestamp) {
        let path = self.certificate.display();
        match loaded {
            Ok(pair) => {
                let until = pair.leaf.validity.not_after;
                if pair.leaf.validity.at(now) == Phase::Expired {
                    warn!(%path, expired = %until, clock = %now, "The serving certificate has expired");
                }
                let new = Some(Arc::new(pair.serving(None)));
                let changed = out.send_if_modified(|old| {
                    let other = *old != new;
                    *old = new.clone();
                    other
                });
                if changed {
                    info!(%path, %until, "Using a serving certificate");
                }
            }
            // The certificate is written before its key: the next check finds both.
            Err(error) => warn!(err = explain(&error), "The serving certificate is not usable; keeping the last one"),
        }
    }
}
