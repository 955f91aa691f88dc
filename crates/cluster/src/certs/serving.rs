//! Where the node's own server has its certificate from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeAddress;
use rubelet_core::certs::{DnsOnly, Purpose};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Rng, ServingCert};
use rubelet_engine::task::TaskGroup;
use tokio::sync::watch;

use super::desk::ServingDesk;
use super::files::Files;
use super::keeper::{Keeper, Parts, Rotate, Wishes};
use super::self_signed::{self, SelfSignError};
use super::store::{Store, StoreError};
use crate::api::Client;

/// Where the serving certificate comes from. The first that applies, as upstream has it: `serverTLSBootstrap`, then
/// `tlsCertFile` and `tlsPrivateKeyFile`, then self-signed.
pub enum ServingSource {
    /// Requested from the cluster (`serverTLSBootstrap`).
    Cluster(ClusterServing),
    /// Kept by somebody else (`tlsCertFile`, `tlsPrivateKeyFile`).
    Files {
        /// The certificate and those that lead to its issuer.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// Whether a change on disk is seen (gate `ReloadKubeletServerCertificateFile`).
        reload: Reload,
    },
    /// `kubelet.crt` and `kubelet.key` in this directory, made once for this host name or address.
    SelfSigned {
        /// `--cert-dir`.
        dir: PathBuf,
        /// What the node calls itself.
        host: String,
    },
}

/// A serving certificate that the cluster signs.
pub struct ClusterServing {
    /// `--cert-dir`.
    pub dir: PathBuf,
    /// Name of the node.
    pub node: String,
    /// Its addresses, as the node object has them; a change of them is a new certificate.
    pub addresses: watch::Receiver<Vec<NodeAddress>>,
    /// The gate `AllowDNSOnlyNodeCSR`.
    pub dns_only: DnsOnly,
    /// Whom to ask.
    pub client: Client,
    /// `tlsCertFile` and `tlsPrivateKeyFile`: used until the first one is issued.
    pub files: Option<(PathBuf, PathBuf)>,
}

/// Whether files are read again when they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They are.
    Yes,
    /// They are read once.
    No,
}

/// Why there can be no serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The files do not hold one.
    #[error("the serving certificate of {} and {}", certificate.display(), key.display())]
    Files {
        /// The certificate's.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// None could be made.
    #[error("make a serving certificate in {}", dir.display())]
    SelfSigned {
        /// Where.
        dir: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The serving certificate as it is now and will be; `None` until there is one. The task that keeps it runs in `tasks`.
///
/// # Errors
/// If files that were named hold none, or none can be made. What the cluster does not sign is waited for instead.
#[doc(alias = "InitializeTLS")]
#[doc(alias = "NewKubeletServerCertificateManager")]
pub async fn serving(
    source: ServingSource,
    clock: Clock,
    rng: Arc<dyn Rng>,
    tasks: &mut TaskGroup,
) -> Result<watch::Receiver<Option<Arc<ServingCert>>>, ServingError> {
    let (out, certificate) = watch::channel(None);
    match source {
        ServingSource::Cluster(cluster) => {
            let keeper = Keeper::new(parts(cluster, out, clock, rng), None).await;
            tasks.start("serving-certificate", keeper.run(tasks.cancel_token()));
        }
        ServingSource::Files { certificate, key, reload } => {
            follow(Files { certificate, key }, reload, out, clock, tasks).await?;
        }
        ServingSource::SelfSigned { dir, host } => {
            let files = made(&dir, host, &clock).await;
            let files = files.map_err(|source| ServingError::SelfSigned { dir, source: Box::new(source) })?;
            follow(files, Reload::Yes, out, clock, tasks).await?;
        }
    }
    Ok(certificate)
}

fn parts(
    cluster: ClusterServing,
    out: watch::Sender<Option<Arc<ServingCert>>>,
    clock: Clock,
    rng: Arc<dyn Rng>,
) -> Parts {
    let ClusterServing { dir, node, addresses, dns_only, client, files } = cluster;
    Parts {
        purpose: Purpose::Serving,
        rotate: Rotate::Yes,
        store: Store::new(&dir, Purpose::Serving, files),
        kept_key: None,
        wishes: Wishes::Addresses { node, addresses, dns_only },
        desk: Box::new(ServingDesk { client, rng: Arc::clone(&rng) }),
        publish: Box::new(move |pair| drop(out.send_replace(Some(Arc::new(pair.serving()))))),
        refusals: None,
        clock,
        rng,
    }
}

async fn made(dir: &Path, host: String, clock: &Clock) -> Result<Files, SelfSignError> {
    let (dir, now) = (dir.to_owned(), clock.wall());
    let work = rubelet_engine::blocking::CREDENTIALS
        .spawn("serving certificate", move || self_signed::ensure(&dir, &host, now));
    let (certificate, key) = work.await.unwrap_or(Err(SelfSignError::Panicked))?;
    Ok(Files { certificate, key })
}

/// Reads the files, which must be good at the start, and follows them.
async fn follow(
    files: Files,
    reload: Reload,
    out: watch::Sender<Option<Arc<ServingCert>>>,
    clock: Clock,
    tasks: &mut TaskGroup,
) -> Result<(), ServingError> {
    let first = files.clone();
    let loaded = rubelet_engine::blocking::CREDENTIALS.spawn("serving certificate", move || first.load()).await;
    let pair = loaded.unwrap_or(Err(StoreError::Panicked)).map_err(|source| ServingError::Files {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source: Box::new(source),
    })?;
    out.send_replace(Some(Arc::new(pair.serving())));
    match reload {
        Reload::Yes => tasks.start("serving-certificate", files.run(out, clock, tasks.cancel_token())),
        Reload::No => {}
    }
    Ok(())
}
