//! The node's client certificate: from kubeconfig and bootstrap kubeconfig to rotated credentials.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::certs::{Phase, Purpose, Wish};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::Rng;
use rubelet_engine::task::TaskGroup;
use tracing::{info, warn};

use super::csr_api::ClientCsrApi;
use super::keeper::{Keeper, Parts, Publish, Rotate};
use super::pair::{Pair, PairError, validities};
use super::store::{self, Store, StoreError};
use super::wishes::Wishes;
use super::written::{self, WriteError};
use crate::api::{BadServer, Credentials, Endpoint, Kubeconfig, KubeconfigError, Login, Pem, ProxyEnvironment, User};
use crate::decode::explain;
use crate::metrics::ClusterMetrics;

/// The private key of the first CSR, stored until its certificate is issued.
const KEPT_KEY: &str = "kubelet-client.key.tmp";

/// How long start-up waits for the first certificate.
const FIRST: Duration = Duration::from_secs(3);

/// Settings of the client certificate.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`.
    pub bootstrap: Option<PathBuf>,
    /// `--cert-dir`.
    pub dir: PathBuf,
    /// Name of the node.
    pub node: String,
    /// `rotateCertificates`.
    pub rotate: bool,
    /// The proxy for the API server, if the kubeconfig names none.
    pub proxy: ProxyEnvironment,
    /// Counts requests and failures.
    pub metrics: Arc<ClusterMetrics>,
}

/// Why there are no usable credentials for the API server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig is invalid.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The kubeconfig cannot be accessed.
    #[error("access kubeconfig {}", path.display())]
    Look {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The environment names an unusable proxy.
    #[error("the proxy for the API server")]
    Proxy(#[source] BadServer),
    /// The new kubeconfig cannot be written.
    #[error("write kubeconfig {} from {}", kubeconfig.display(), bootstrap.display())]
    Write {
        /// The file to write.
        kubeconfig: PathBuf,
        /// The bootstrap kubeconfig.
        bootstrap: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A blocking task panicked.
    #[error("an internal task panicked")]
    Panicked,
}

/// Why the kubeconfig is no longer valid.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("its user has no client certificate")]
    NoCertificate,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("its client certificate cannot be used")]
    Pair(#[from] PairError),
    #[error("its client certificate expired at {at}")]
    Expired { at: Timestamp },
}

/// The API server's endpoint, and credentials for it. The task that rotates them runs in `tasks`.
///
/// As upstream: without a bootstrap kubeconfig, the kubeconfig is used as it is. With one, a kubeconfig that is missing or has
/// no valid certificate is written again, and a certificate is requested with the bootstrap credentials. With rotation, a
/// certificate embedded in the kubeconfig is moved to the store and replaced at once (kubeadm relies on it).
///
/// Start-up waits briefly for a first certificate; after that, requests to the API server fail until there is one.
///
/// # Errors
/// If the kubeconfig in use is invalid.
#[doc(alias = "buildKubeletClientConfig")]
#[doc(alias = "LoadClientConfig")]
pub async fn client(
    options: ClientCertificate,
    clock: Clock,
    rng: Arc<dyn Rng>,
    tasks: &mut TaskGroup,
) -> Result<(Endpoint, Credentials), ClientError> {
    let (plan, now) = (options.clone(), clock.wall());
    let loaded = rubelet_engine::blocking::CREDENTIALS.spawn("client certificate", move || load(&plan, now)).await;
    let (kubeconfig, fresh) = loaded.map_err(|_| ClientError::Panicked)??;
    let Kubeconfig { endpoint, user, .. } = kubeconfig;
    let endpoint = endpoint.with_environment(&options.proxy).map_err(ClientError::Proxy)?;
    let (first, files) = match &user.certificate {
        Some((Pem::Text(certificate), Pem::Text(key))) => (Some((certificate.clone(), key.clone())), None),
        Some((Pem::File(certificate), Pem::File(key))) => (None, Some((certificate.clone(), key.clone()))),
        _ => (None, None),
    };
    let credentials = Credentials::new(user);
    // Without rotation a keeper is needed only if a certificate is missing, or is in a file and may expire.
    let kept = options.rotate || (options.bootstrap.is_some() && (fresh || files.is_some()));
    if kept {
        let parts = Parts {
            purpose: Purpose::Client,
            rotate: if options.rotate { Rotate::Yes } else { Rotate::No },
            store: Store::new(&options.dir, Purpose::Client, files),
            kept_key: Some(options.dir.join(KEPT_KEY)),
            wishes: Wishes::Fixed(Wish::client(&options.node)),
            csr_api: Box::new(ClientCsrApi::new(
                (endpoint.clone(), credentials.clone()),
                options.bootstrap.map(|path| (path, options.proxy)),
                clock.clone(),
                Arc::clone(&rng),
                tasks.cancel_token(),
                Arc::clone(&options.metrics),
            )),
            publish: publish(credentials.clone()),
            refusals: Some(credentials.refusals()),
            clock,
            rng,
            metrics: options.metrics,
        };
        let keeper = Keeper::new(parts, first).await;
        let mut changes = credentials.changes();
        tasks.start("client-certificate", keeper.run(tasks.cancel_token()));
        if fresh {
            // Start-up needs the certificate, and an approving controller takes about 100 ms.
            let _ = tokio::time::timeout(FIRST, changes.wait_for(|count| *count > 0)).await;
        }
    }
    Ok((endpoint, credentials))
}

fn publish(credentials: Credentials) -> Publish {
    Box::new(move |pair, renewal| match pair.identity(renewal) {
        Some(identity) => credentials.set_identity(identity),
        None => warn!("The key of the client certificate is of an unsupported kind"),
    })
}

/// The kubeconfig to use, and whether it has just been written.
pub(super) fn load(options: &ClientCertificate, now: Timestamp) -> Result<(Kubeconfig, bool), ClientError> {
    let path = &options.kubeconfig;
    let Some(bootstrap) = &options.bootstrap else { return Ok((Kubeconfig::load(path)?, false)) };
    let there = path.try_exists().map_err(|source| ClientError::Look { path: path.clone(), source })?;
    if there {
        match still_valid(path, now) {
            Ok(kubeconfig) => return Ok((kubeconfig, false)),
            Err(error) => warn!(kubeconfig = %path.display(), err = explain(&error),
                "The kubeconfig is no longer valid; using the bootstrap kubeconfig"),
        }
    }
    let mut kubeconfig = Kubeconfig::load(bootstrap)?;
    let current = Store::new(&options.dir, Purpose::Client, None).current_path();
    written::write(path, bootstrap, &current).map_err(|source: WriteError| ClientError::Write {
        kubeconfig: path.clone(),
        bootstrap: bootstrap.clone(),
        source: Box::new(source),
    })?;
    info!(kubeconfig = %path.display(), bootstrap = %bootstrap.display(), "Wrote a kubeconfig; requesting its certificate");
    let certificate = Some((Pem::File(current.clone()), Pem::File(current)));
    kubeconfig.user = User { certificate, login: Login::None };
    Ok((kubeconfig, true))
}

/// The kubeconfig, if its user has a matching certificate and key and none of its certificates has expired.
///
/// upstream: bootstrap.go isClientConfigStillValid (v1.36)
#[doc(alias = "isClientConfigStillValid")]
fn still_valid(path: &Path, now: Timestamp) -> Result<Kubeconfig, Invalid> {
    let kubeconfig = Kubeconfig::load(path)?;
    let (certificate, key) = kubeconfig.user.certificate.as_ref().ok_or(Invalid::NoCertificate)?;
    let (certificate, key) = (text(certificate)?, text(key)?);
    Pair::from_pem(&certificate, &key)?;
    let expired = validities(&certificate)?.into_iter().find(|validity| validity.at(now) == Phase::Expired);
    match expired {
        Some(validity) => Err(Invalid::Expired { at: validity.not_after }),
        None => Ok(kubeconfig),
    }
}

fn text(pem: &Pem) -> Result<Vec<u8>, Invalid> {
    match pem {
        Pem::Text(text) => Ok(text.clone()),
        Pem::File(path) => store::read(path)?.ok_or_else(|| Invalid::Missing { path: path.clone() }),
    }
}
