//! The serving certificate of the node's API.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeAddress;
use rubelet_core::certs::{DnsOnly, Purpose};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Rng, ServingCert};
use rubelet_engine::task::TaskGroup;
use tokio::sync::watch;

use super::csr_api::ServingCsrApi;
use super::files::Files;
use super::keeper::{Keeper, Parts, Rotate};
use super::self_signed::{self, SelfSignError};
use super::store::{Store, StoreError};
use super::wishes::Wishes;
use crate::api::Client;

/// The origin of the serving certificate. As upstream, the first that is configured counts: `serverTLSBootstrap`, then
/// `tlsCertFile` and `tlsPrivateKeyFile`, then self-signed.
pub enum ServingSource {
    /// Requested from the cluster (`serverTLSBootstrap`).
    Cluster(ClusterServing),
    /// Files maintained outside of rubelet (`tlsCertFile`, `tlsPrivateKeyFile`).
    Files {
        /// The certificate and its intermediates.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// Whether the files are read again when they change (gate `ReloadKubeletServerCertificateFile`).
        reload: Reload,
    },
    /// `kubelet.crt` and `kubelet.key` in this directory, generated once for this host name or address.
    SelfSigned {
        /// `--cert-dir`.
        dir: PathBuf,
        /// The node's host name or address.
        host: String,
    },
}

/// A serving certificate that the cluster signs.
pub struct ClusterServing {
    /// `--cert-dir`.
    pub dir: PathBuf,
    /// Name of the node.
    pub node: String,
    /// The addresses of the Node object; a change of them leads to a new certificate.
    pub addresses: watch::Receiver<Vec<NodeAddress>>,
    /// The gate `AllowDNSOnlyNodeCSR`.
    pub dns_only: DnsOnly,
    /// Sends the certificate requests.
    pub client: Client,
    /// `tlsCertFile` and `tlsPrivateKeyFile`: used until the first certificate is issued.
    pub files: Option<(PathBuf, PathBuf)>,
}

/// Whether files are read again when they change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Yes.
    Yes,
    /// Only at start-up.
    No,
}

/// Why there is no serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The files have no usable certificate.
    #[error("the serving certificate of {} and {}", certificate.display(), key.display())]
    Files {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A self-signed certificate cannot be generated.
    #[error("generate a serving certificate in {}", dir.display())]
    SelfSigned {
        /// `--cert-dir`.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The current serving certificate, followed through rotations; `None` until there is one. Its task runs in `tasks`.
///
/// # Errors
/// If the configured files have no usable certificate, or none can be generated. A CSR that is not signed is no error.
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
    let metrics = Arc::clone(client.metrics());
    Parts {
        purpose: Purpose::Serving,
        rotate: Rotate::Yes,
        store: Store::new(&dir, Purpose::Serving, files),
        kept_key: None,
        wishes: Wishes::Addresses { node, addresses, dns_only },
        csr_api: Box::new(ServingCsrApi { client, rng: Arc::clone(&rng) }),
        publish: Box::new(move |pair, renewal| drop(out.send_replace(Some(Arc::new(pair.serving(renewal)))))),
        refusals: None,
        clock,
        rng,
        metrics,
    }
}

async fn made(dir: &Path, host: String, clock: &Clock) -> Result<Files, SelfSignError> {
    let (dir, now) = (dir.to_owned(), clock.wall());
    let work = rubelet_engine::blocking::CREDENTIALS
        .spawn("serving certificate", move || self_signed::ensure(&dir, &host, now));
    let (certificate, key) = work.await.unwrap_or(Err(SelfSignError::Panicked))?;
    Ok(Files { certificate, key })
}

/// Reads the files, which must be valid at start-up, and follows their changes.
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
    out.send_replace(Some(Arc::new(pair.serving(None))));
    match reload {
        Reload::Yes => tasks.start("serving-certificate", files.run(out, clock, tasks.cancel_token())),
        Reload::No => {}
    }
    Ok(())
}
