//! Who the node is to the API server: from kubeconfig and bootstrap kubeconfig to credentials that stay good.

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

use super::desk::ClientDesk;
use super::keeper::{Keeper, Parts, Publish, Rotate, Wishes};
use super::pair::{Pair, PairError, validities};
use super::store::{self, Store, StoreError};
use super::written::{self, WriteError};
use crate::api::{BadServer, Credentials, Endpoint, Kubeconfig, KubeconfigError, Login, Pem, ProxyEnvironment, User};
use crate::decode::explain;

/// Where the private key of a first request waits for its certificate.
const KEPT_KEY: &str = "kubelet-client.key.tmp";

/// How long the start is held up for a first certificate.
const FIRST: Duration = Duration::from_secs(3);

/// How the node says who it is.
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
    /// Which proxy leads to the server, where the kubeconfig does not say.
    pub proxy: ProxyEnvironment,
}

/// Why the node cannot say who it is.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The kubeconfig is there, but nobody knows what is in it.
    #[error("look at kubeconfig {}", path.display())]
    Look {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The environment names a proxy that cannot be used.
    #[error("the way to the API server")]
    Proxy(#[source] BadServer),
    /// A new kubeconfig could not be written.
    #[error("write kubeconfig {} after {}", kubeconfig.display(), bootstrap.display())]
    Write {
        /// Which.
        kubeconfig: PathBuf,
        /// After which.
        bootstrap: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something in here broke.
    #[error("a task of ours panicked")]
    Panicked,
}

/// Why a kubeconfig is of no use any more.
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

/// Where the API server is, and credentials for it that stay good: the task that keeps them so runs in `tasks`.
///
/// As upstream has it: without a bootstrap kubeconfig the kubeconfig is all there is. With one, a kubeconfig that is missing
/// or whose certificate cannot be used is written anew, and a certificate is asked for by the bootstrap credentials. With
/// rotation, a certificate in the kubeconfig itself is put into the store and replaced at once (kubeadm counts on it).
///
/// A first certificate is waited for a moment, not for ever: what needs one fails until it is there.
///
/// # Errors
/// If the kubeconfig that is needed cannot be used.
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
    // Without rotation there is something to keep only where a certificate is missing, or is in a file and may expire.
    let kept = options.rotate || (options.bootstrap.is_some() && (fresh || files.is_some()));
    if kept {
        let parts = Parts {
            purpose: Purpose::Client,
            rotate: if options.rotate { Rotate::Yes } else { Rotate::No },
            store: Store::new(&options.dir, Purpose::Client, files),
            kept_key: Some(options.dir.join(KEPT_KEY)),
            wishes: Wishes::Fixed(Wish::client(&options.node)),
            desk: Box::new(ClientDesk::new(
                (endpoint.clone(), credentials.clone()),
                options.bootstrap.map(|path| (path, options.proxy)),
                clock.clone(),
                Arc::clone(&rng),
                tasks.cancel_token(),
            )),
            publish: publish(credentials.clone()),
            refusals: Some(credentials.refusals()),
            clock,
            rng,
        };
        let keeper = Keeper::new(parts, first).await;
        let mut changes = credentials.changes();
        tasks.start("client-certificate", keeper.run(tasks.cancel_token()));
        if fresh {
            // Nothing else can be done without it, and an approving controller takes a tenth of a second.
            let _ = tokio::time::timeout(FIRST, changes.wait_for(|count| *count > 0)).await;
        }
    }
    Ok((endpoint, credentials))
}

fn publish(credentials: Credentials) -> Publish {
    Box::new(move |pair| match pair.identity() {
        Some(identity) => credentials.set_identity(identity),
        None => warn!("The key of the client certificate is of a kind that cannot be used"),
    })
}

/// The kubeconfig to use, and whether it was written just now.
pub(super) fn load(options: &ClientCertificate, now: Timestamp) -> Result<(Kubeconfig, bool), ClientError> {
    let path = &options.kubeconfig;
    let Some(bootstrap) = &options.bootstrap else { return Ok((Kubeconfig::load(path)?, false)) };
    let there = path.try_exists().map_err(|source| ClientError::Look { path: path.clone(), source })?;
    if there {
        match still_valid(path, now) {
            Ok(kubeconfig) => return Ok((kubeconfig, false)),
            Err(error) => warn!(kubeconfig = %path.display(), err = explain(&error),
                "The kubeconfig is of no use any more; going by the bootstrap kubeconfig"),
        }
    }
    let mut kubeconfig = Kubeconfig::load(bootstrap)?;
    let current = Store::new(&options.dir, Purpose::Client, None).current_path();
    written::write(path, bootstrap, &current).map_err(|source: WriteError| ClientError::Write {
        kubeconfig: path.clone(),
        bootstrap: bootstrap.clone(),
        source: Box::new(source),
    })?;
    info!(kubeconfig = %path.display(), bootstrap = %bootstrap.display(), "Wrote a kubeconfig; asking for its certificate");
    let certificate = Some((Pem::File(current.clone()), Pem::File(current)));
    kubeconfig.user = User { certificate, login: Login::None };
    Ok((kubeconfig, true))
}

/// The kubeconfig, if its user has a certificate and key that belong together and no certificate in it has expired.
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
