//! Objects that are watched as a whole: services, the node, RuntimeClasses (BOOT-17, ENV-03, RTC-01).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::node::v1::RuntimeClass;
use rubelet_engine::ports::{ApiError, ApiErrorKind, ClusterView};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::api::{Extent, encode};
use crate::requests::{Collection, Follow, Followed, Requests};

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
/// How long a pod with a RuntimeClass waits for the first list of RuntimeClasses.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runtime handlers by the name of their RuntimeClass.
type Handlers = BTreeMap<String, String>;

/// The watched objects, for readers. Clones share them.
pub struct WatchedCluster<R> {
    api: R,
    services: watch::Receiver<Option<Arc<Vec<Service>>>>,
    node: watch::Receiver<Option<Arc<Node>>>,
    classes: watch::Receiver<Option<Arc<Handlers>>>,
    /// RuntimeClasses are watched once a pod needs one: most nodes never do.
    first_question: Arc<Notify>,
}

/// The task that runs the watches.
pub struct ClusterFollower<R> {
    api: R,
    node_name: String,
    services: watch::Sender<Option<Arc<Vec<Service>>>>,
    node: watch::Sender<Option<Arc<Node>>>,
    classes: watch::Sender<Option<Arc<Handlers>>>,
    first_question: Arc<Notify>,
}

impl<R: Requests + Follow> WatchedCluster<R> {
    /// An empty view, and the task that fills it.
    pub fn new(api: R, node_name: &str) -> (Self, ClusterFollower<R>) {
        let (services_sender, services) = watch::channel(None);
        let (node_sender, node) = watch::channel(None);
        let (classes_sender, classes) = watch::channel(None);
        let first_question = Arc::new(Notify::new());
        let follower = ClusterFollower {
            api: api.clone(),
            node_name: node_name.to_owned(),
            services: services_sender,
            node: node_sender,
            classes: classes_sender,
            first_question: Arc::clone(&first_question),
        };
        (Self { api, services, node, classes, first_question }, follower)
    }
}

impl<R: Requests + Follow> ClusterFollower<R> {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { api, node_name, services, node, classes, first_question } = self;
        // Headless services have no environment variables.
        let with_address = Collection {
            path: "/api/v1/services".into(),
            field_selector: "spec.clusterIP!=None".into(),
            extent: Extent::Many,
        };
        let services = api.follow(
            with_address,
            move |all: Vec<Arc<Service>>| {
                let all = all.into_iter().map(Arc::unwrap_or_clone).collect();
                services.send_replace(Some(Arc::new(all)));
            },
            cancel.clone(),
        );
        let this = Collection {
            path: "/api/v1/nodes".into(),
            field_selector: format!("metadata.name={node_name}"),
            extent: Extent::Many,
        };
        let node = api.follow(
            this,
            move |mut all: Vec<Arc<Node>>| {
                node.send_replace(all.pop());
            },
            cancel.clone(),
        );
        let classes = async {
            if cancel.run_until_cancelled(first_question.notified()).await.is_none() {
                return;
            }
            let all = Collection { path: CLASSES.into(), field_selector: String::new(), extent: Extent::Many };
            let publish = move |all: Vec<Arc<RuntimeClass>>| {
                let handlers = all.iter().map(|c| (c.metadata.name.clone().unwrap_or_default(), c.handler.clone()));
                classes.send_replace(Some(Arc::new(handlers.collect())));
            };
            api.follow(all, publish, cancel.clone()).await;
        };
        tokio::join!(services, node, classes);
    }
}

#[async_trait]
impl<R: Requests + Follow> ClusterView for WatchedCluster<R> {
    fn services(&self) -> Option<Arc<Vec<Service>>> {
        self.services.borrow().clone()
    }

    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.node.clone()
    }

    async fn runtime_handler(&self, class: &str) -> Result<String, ApiError> {
        self.first_question.notify_one();
        let mut classes = self.classes.clone();
        let known = async { classes.wait_for(Option::is_some).await.ok().and_then(|known| known.clone()) };
        let Ok(known) = tokio::time::timeout(PATIENCE, known).await else {
            let detail = "runtime classes have not been read yet".to_owned();
            return Err(ApiError { kind: ApiErrorKind::Timeout, detail });
        };
        match known.and_then(|known| known.get(class).cloned()) {
            Some(handler) => Ok(handler),
            // The class may have been created just before the pod.
            None => Ok(self.api.get::<RuntimeClass>(&format!("{CLASSES}/{}", encode(class))).await?.handler),
        }
    }
}

impl Followed for Service {
    /// Keeps what a pod's environment needs: address and ports.
    fn trim(&mut self) {
        self.status = None;
        let meta = std::mem::take(&mut self.metadata);
        self.metadata.name = meta.name;
        self.metadata.namespace = meta.namespace;
        self.metadata.resource_version = meta.resource_version;
        self.metadata.uid = meta.uid;
        if let Some(spec) = &mut self.spec {
            let whole = std::mem::take(spec);
            spec.cluster_ip = whole.cluster_ip;
            spec.ports = whole.ports;
        }
    }
}

impl Followed for Node {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
    }
}

impl Followed for RuntimeClass {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
    }
}
