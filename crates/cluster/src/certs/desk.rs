//! Certificate requests at the API server.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, Chance};
use rubelet_engine::task::TaskGroup;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::keeper::{Desk, Standing};
use super::request::Requests;
use crate::api::{Client, Credentials, Endpoint, Kubeconfig, Options, Reflector, Set, Watched};

/// A request is looked at this often, whatever the watch says.
const LOOK: Duration = Duration::from_secs(30);
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Where a client certificate is asked for: at the API server, as ourselves or as the bootstrap kubeconfig has it.
pub(super) struct ClientDesk {
    pub(super) endpoint: Endpoint,
    pub(super) credentials: Credentials,
    pub(super) bootstrap: Option<PathBuf>,
    pub(super) clock: Clock,
    pub(super) chance: Arc<dyn Chance>,
    pub(super) cancel: CancellationToken,
}

#[async_trait]
impl Desk for ClientDesk {
    async fn open(&self, standing: Standing) -> Result<Box<dyn Requests>, Arc<dyn Error + Send + Sync>> {
        let (endpoint, credentials) = match (standing, self.bootstrap.clone()) {
            (Standing::Bootstrap, Some(path)) => {
                // Read anew each time: a token in it lives for a day or so, and somebody may have put a new one there.
                let loaded = tokio::task::spawn_blocking(move || Kubeconfig::load(&path)).await;
                let loaded = loaded.map_err(|error| Arc::new(error) as Arc<dyn Error + Send + Sync>)?;
                let kubeconfig = loaded.map_err(|error| Arc::new(error) as Arc<dyn Error + Send + Sync>)?;
                (kubeconfig.endpoint, Credentials::new(kubeconfig.user))
            }
            _ => (self.endpoint.clone(), self.credentials.clone()),
        };
        let mut tasks = TaskGroup::new(&self.cancel);
        let client = Client::new(endpoint, credentials, &Options::default(), self.clock.clone(), &mut tasks);
        Ok(Box::new(Window { client, chance: Arc::clone(&self.chance), _tasks: Some(tasks) }))
    }

    fn has_bootstrap(&self) -> bool {
        self.bootstrap.is_some()
    }
}

/// Where a serving certificate is asked for.
pub(super) struct ServingDesk {
    pub(super) client: Client,
    pub(super) chance: Arc<dyn Chance>,
}

#[async_trait]
impl Desk for ServingDesk {
    async fn open(&self, _standing: Standing) -> Result<Box<dyn Requests>, Arc<dyn Error + Send + Sync>> {
        Ok(Box::new(Window { client: self.client.clone(), chance: Arc::clone(&self.chance), _tasks: None }))
    }

    fn has_bootstrap(&self) -> bool {
        false
    }
}

struct Window {
    client: Client,
    chance: Arc<dyn Chance>,
    /// The connection lives as long as this.
    _tasks: Option<TaskGroup>,
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
            Watched { path: PATH.into(), field_selector: Some(format!("metadata.name={name}")), label_selector: None };
        let (tell, mut told) = watch::channel(false);
        let sink = |set: &Set<CertificateSigningRequest>| {
            let newest = set.items().values().next().and_then(|request| request.metadata.resource_version.clone());
            // Gone is a change too.
            tell.send_replace(newest.as_deref() != Some(version));
        };
        let cancel = CancellationToken::new();
        let reflector = Reflector::new(self.client.clone(), watched, Arc::clone(&self.chance));
        tokio::select! {
            biased;
            _ = told.wait_for(|changed| *changed) => Ok(()),
            () = reflector.run(sink, cancel) => Ok(()),
            // Should the watch be refused or be of no use, the request is looked at now and then all the same.
            () = tokio::time::sleep(LOOK) => Ok(()),
        }
    }
}
