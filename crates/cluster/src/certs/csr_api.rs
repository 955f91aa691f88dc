//! Access to the API server for certificate signing requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, Rng};
use rubelet_engine::task::TaskGroup;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::request::Requests;
use crate::api::{
    Client, Credentials, Endpoint, Kubeconfig, KubeconfigError, Options, ProxyEnvironment, Reflector, Set, Watched,
};
use crate::metrics::ClusterMetrics;

/// A CSR is read this often, independent of the watch.
const LOOK: Duration = Duration::from_secs(30);
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Why there is no connection to the API server.
pub(super) type Problem = Arc<dyn std::error::Error + Send + Sync>;

/// Connects to the API server to send certificate signing requests.
#[async_trait]
pub(super) trait CsrApi: Send + Sync {
    /// A connection with these credentials.
    async fn open(&self, signed_in_as: SignedInAs) -> Result<Box<dyn Requests>, Problem>;
    /// Whether there are bootstrap credentials.
    fn has_bootstrap(&self) -> bool;
    /// Closes the connection: it is not needed for a long time.
    fn close(&self) {}
}

/// The credentials with which a CSR is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignedInAs {
    /// The node's certificate.
    Node,
    /// The bootstrap credentials.
    Bootstrap,
}

/// Requests client certificates, with the node's credentials or those of the bootstrap kubeconfig.
///
/// The bootstrap connection stays open while attempts fail, so that its problems are logged once; it is closed on success.
pub(super) struct ClientCsrApi {
    endpoint: Endpoint,
    credentials: Credentials,
    /// The bootstrap kubeconfig, and the proxy for its server.
    bootstrap: Option<(PathBuf, ProxyEnvironment)>,
    clock: Clock,
    rng: Arc<dyn Rng>,
    cancel: CancellationToken,
    metrics: Arc<ClusterMetrics>,
    open: Mutex<Option<Open>>,
}

struct Open {
    signed_in_as: SignedInAs,
    /// The content of the bootstrap kubeconfig.
    content: Vec<u8>,
    client: Client,
    tasks: Arc<TaskGroup>,
}

impl ClientCsrApi {
    pub(super) fn new(
        (endpoint, credentials): (Endpoint, Credentials),
        bootstrap: Option<(PathBuf, ProxyEnvironment)>,
        clock: Clock,
        rng: Arc<dyn Rng>,
        cancel: CancellationToken,
        metrics: Arc<ClusterMetrics>,
    ) -> Self {
        Self { endpoint, credentials, bootstrap, clock, rng, cancel, metrics, open: Mutex::default() }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn csr_client(&self, client: &Client, tasks: &Arc<TaskGroup>) -> Box<dyn Requests> {
        let (rng, tasks) = (Arc::clone(&self.rng), Some(Arc::clone(tasks)));
        Box::new(CsrClient { client: client.clone(), rng, _tasks: tasks })
    }
}

#[async_trait]
impl CsrApi for ClientCsrApi {
    async fn open(&self, signed_in_as: SignedInAs) -> Result<Box<dyn Requests>, Problem> {
        // Read each time: its token expires after about a day, and an administrator may have replaced it.
        let bootstrap = match (signed_in_as, self.bootstrap.clone()) {
            (SignedInAs::Bootstrap, Some((path, proxy))) => Some(read(path, proxy).await?),
            _ => None,
        };
        let (content, (endpoint, credentials)) = match bootstrap {
            Some((content, kubeconfig)) => (content, (kubeconfig.endpoint, Credentials::new(kubeconfig.user))),
            None => (Vec::new(), (self.endpoint.clone(), self.credentials.clone())),
        };
        if let Some(open) = &*self.slot()
            && open.signed_in_as == signed_in_as
            && open.content == content
        {
            return Ok(self.csr_client(&open.client, &open.tasks));
        }
        let mut tasks = TaskGroup::new(&self.cancel);
        let options = Options { metrics: Arc::clone(&self.metrics), ..Options::default() };
        let client = Client::new(endpoint, credentials, &options, self.clock.clone(), &mut tasks);
        let open = Open { signed_in_as, content, client, tasks: Arc::new(tasks) };
        let csr_client = self.csr_client(&open.client, &open.tasks);
        *self.slot() = Some(open);
        Ok(csr_client)
    }

    fn has_bootstrap(&self) -> bool {
        self.bootstrap.is_some()
    }

    fn close(&self) {
        *self.slot() = None;
    }
}

/// The text of a kubeconfig, and its parsed form.
async fn read(path: PathBuf, proxy: ProxyEnvironment) -> Result<(Vec<u8>, Kubeconfig), Problem> {
    let work = move || {
        let kubeconfig = Kubeconfig::load(&path)?;
        Ok::<_, KubeconfigError>((std::fs::read(&path).unwrap_or_default(), kubeconfig))
    };
    let read = rubelet_engine::blocking::CREDENTIALS
        .spawn("kubeconfig", work)
        .await
        .map_err(|error| Arc::new(error) as Problem)?;
    let (content, mut kubeconfig) = read.map_err(|error| Arc::new(error) as Problem)?;
    let endpoint = kubeconfig.endpoint.with_environment(&proxy);
    kubeconfig.endpoint = endpoint.map_err(|error| Arc::new(error) as Problem)?;
    Ok((content, kubeconfig))
}

/// Requests serving certificates.
pub(super) struct ServingCsrApi {
    pub(super) client: Client,
    pub(super) rng: Arc<dyn Rng>,
}

#[async_trait]
impl CsrApi for ServingCsrApi {
    async fn open(&self, _standing: SignedInAs) -> Result<Box<dyn Requests>, Problem> {
        Ok(Box::new(CsrClient { client: self.client.clone(), rng: Arc::clone(&self.rng), _tasks: None }))
    }

    fn has_bootstrap(&self) -> bool {
        false
    }
}

struct CsrClient {
    client: Client,
    rng: Arc<dyn Rng>,
    /// The tasks of the bootstrap connection, which closes when this is dropped.
    _tasks: Option<Arc<TaskGroup>>,
}

#[async_trait]
impl Requests for CsrClient {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError> {
        self.client.create(PATH, request).await
    }

    async fn get(&self, name: &str) -> Result<CertificateSigningRequest, ApiError> {
        self.client.get(&format!("{PATH}/{name}")).await
    }

    async fn changed(&self, name: &str, version: &str) -> Result<(), ApiError> {
        let watched =
            Watched { path: PATH.into(), field_selector: Some(format!("metadata.name={name}")), ..Watched::default() };
        let (changed, mut change) = watch::channel(false);
        let sink = |set: &Set<CertificateSigningRequest>| {
            let newest = set.objects().next().and_then(|request| request.metadata.resource_version.clone());
            // A deletion is a change, too.
            changed.send_replace(newest.as_deref() != Some(version));
        };
        let cancel = CancellationToken::new();
        let reflector = Reflector::new(self.client.clone(), watched, Arc::clone(&self.rng));
        tokio::select! {
            biased;
            _ = change.wait_for(|changed| *changed) => Ok(()),
            () = reflector.run(sink, cancel) => Ok(()),
            // If the watch is rejected or stuck, the CSR is still read periodically.
            () = tokio::time::sleep(LOOK) => Ok(()),
        }
    }
}
