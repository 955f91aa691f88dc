//! Certificate requests at the API server.

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

use super::keeper::{Desk, Problem, Standing};
use super::request::Requests;
use crate::api::{
    Client, Credentials, Endpoint, Kubeconfig, KubeconfigError, Options, ProxyEnvironment, Reflector, Set, Watched,
};

/// A request is looked at this often, whatever the watch says.
const LOOK: Duration = Duration::from_secs(30);
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Where a client certificate is asked for: at the API server, as ourselves or as the bootstrap kubeconfig has it.
///
/// The connection stays while attempts fail, so that what is wrong with it is logged once; it ends with success.
pub(super) struct ClientDesk {
    endpoint: Endpoint,
    credentials: Credentials,
    /// The bootstrap kubeconfig, and which proxy leads to its server.
    bootstrap: Option<(PathBuf, ProxyEnvironment)>,
    clock: Clock,
    rng: Arc<dyn Rng>,
    cancel: CancellationToken,
    open: Mutex<Option<Open>>,
}

struct Open {
    standing: Standing,
    /// What the bootstrap kubeconfig says.
    content: Vec<u8>,
    client: Client,
    tasks: Arc<TaskGroup>,
}

impl ClientDesk {
    pub(super) fn new(
        (endpoint, credentials): (Endpoint, Credentials),
        bootstrap: Option<(PathBuf, ProxyEnvironment)>,
        clock: Clock,
        rng: Arc<dyn Rng>,
        cancel: CancellationToken,
    ) -> Self {
        Self { endpoint, credentials, bootstrap, clock, rng, cancel, open: Mutex::default() }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self, client: &Client, tasks: &Arc<TaskGroup>) -> Box<dyn Requests> {
        let (rng, tasks) = (Arc::clone(&self.rng), Some(Arc::clone(tasks)));
        Box::new(Window { client: client.clone(), rng, _tasks: tasks })
    }
}

#[async_trait]
impl Desk for ClientDesk {
    async fn open(&self, standing: Standing) -> Result<Box<dyn Requests>, Problem> {
        // Read anew each time: a token in it lives for a day or so, and somebody may have put a new one there.
        let bootstrap = match (standing, self.bootstrap.clone()) {
            (Standing::Bootstrap, Some((path, proxy))) => Some(read(path, proxy).await?),
            _ => None,
        };
        let (content, (endpoint, credentials)) = match bootstrap {
            Some((content, kubeconfig)) => (content, (kubeconfig.endpoint, Credentials::new(kubeconfig.user))),
            None => (Vec::new(), (self.endpoint.clone(), self.credentials.clone())),
        };
        if let Some(open) = &*self.slot()
            && open.standing == standing
            && open.content == content
        {
            return Ok(self.window(&open.client, &open.tasks));
        }
        let mut tasks = TaskGroup::new(&self.cancel);
        let client = Client::new(endpoint, credentials, &Options::default(), self.clock.clone(), &mut tasks);
        let open = Open { standing, content, client, tasks: Arc::new(tasks) };
        let window = self.window(&open.client, &open.tasks);
        *self.slot() = Some(open);
        Ok(window)
    }

    fn has_bootstrap(&self) -> bool {
        self.bootstrap.is_some()
    }

    fn close(&self) {
        *self.slot() = None;
    }
}

/// The text of a kubeconfig, and what it says.
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

/// Where a serving certificate is asked for.
pub(super) struct ServingDesk {
    pub(super) client: Client,
    pub(super) rng: Arc<dyn Rng>,
}

#[async_trait]
impl Desk for ServingDesk {
    async fn open(&self, _standing: Standing) -> Result<Box<dyn Requests>, Problem> {
        Ok(Box::new(Window { client: self.client.clone(), rng: Arc::clone(&self.rng), _tasks: None }))
    }

    fn has_bootstrap(&self) -> bool {
        false
    }
}

struct Window {
    client: Client,
    rng: Arc<dyn Rng>,
    /// The connection lives as long as this.
    _tasks: Option<Arc<TaskGroup>>,
}

#[async_trait]
impl Requests for Window {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError> {
        self.client.create(PATH, request).await
    }

    async fn get(&self, name: &str) -> Result<CertificateSigningRequest, ApiError> {
        self.client.get(&format!("{PATH}/{name}")).await
    }

    async fn changed(&self, name: &str, version: &str) -> Result<(), ApiError> {
        let watched =
            Watched { path: PATH.into(), field_selector: Some(format!("metadata.name={name}")), ..Watched::default() };
        let (tell, mut told) = watch::channel(false);
        let sink = |set: &Set<CertificateSigningRequest>| {
            let newest = set.objects().next().and_then(|request| request.metadata.resource_version.clone());
            // Gone is a change too.
            tell.send_replace(newest.as_deref() != Some(version));
        };
        let cancel = CancellationToken::new();
        let reflector = Reflector::new(self.client.clone(), watched, Arc::clone(&self.rng));
        tokio::select! {
            biased;
            _ = told.wait_for(|changed| *changed) => Ok(()),
            () = reflector.run(sink, cancel) => Ok(()),
            // Should the watch be refused or be of no use, the request is looked at now and then all the same.
            () = tokio::time::sleep(LOOK) => Ok(()),
        }
    }
}
