//! A node in a cluster: the connections to the API server, and the ports that they serve.
//!
//! Nothing here waits for the API server. A node whose API server cannot be reached still starts, and keeps the pods that
//! run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use rubelet_cluster::api::{
    ApiSource, Client, Credentials, Endpoint, Options, ProxyEnvironment, Rate, Resolver, user_agent,
};
use rubelet_cluster::certs::{self, ClientCertificate, ClusterServing, Reload, ServingSource};
use rubelet_cluster::events::ApiEvents;
use rubelet_cluster::node_api::ApiNode;
use rubelet_cluster::objects::{Strategy, WatchedObjects};
use rubelet_cluster::pod_api::ApiPods;
use rubelet_cluster::requests::Server;
use rubelet_cluster::reviews::{ApiReviews, ReviewTimes};
use rubelet_cluster::tokens::ApiTokens;
use rubelet_cluster::view::WatchedCluster;
use rubelet_cluster::{CachedSource, ClusterMetrics};
use rubelet_core::certs::DnsOnly;
use rubelet_core::config::{ChangeDetection, Gate, KubeletConfiguration};
use rubelet_core::id::PodUid;
use rubelet_core::node::NodeSetup;
use rubelet_engine::clock::Clock;
use rubelet_engine::node_reporter::NodeParts;
use rubelet_engine::ports::{ClusterPorts, ClusterView, Events, NodeFacts, PodSource, Reviews, Rng, ServingCert};
use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::Tracer;
use tokio::sync::{mpsc, watch};

use crate::config_load::Loaded;
use crate::flags::KUBERNETES_VERSION;
use crate::run::into_anyhow;
use crate::settings::NodeSettings;

/// What a node in a cluster gets from the API server.
pub(crate) struct Cluster {
    /// For the engine.
    pub(crate) ports: ClusterPorts,
    /// Where events go.
    pub(crate) events: Arc<dyn Events>,
    /// Reviews callers of the node's own server.
    pub(crate) reviews: Arc<dyn Reviews>,
    /// The pods that are bound to this node.
    pub(crate) source: Arc<dyn PodSource>,
    /// The node's object and lease.
    pub(crate) node: NodeParts,
    /// Pods that use an object which has changed.
    pub(crate) object_changes: mpsc::Receiver<PodUid>,
    client: Client,
    /// Its URL, and the credentials that it is shown.
    pub(crate) identity: (String, Credentials),
}

/// Makes connections to the API server that the kubeconfig names.
struct Connector {
    endpoint: Endpoint,
    credentials: Credentials,
    clock: Clock,
    rate: Rate,
    names: Resolver,
    metrics: Arc<ClusterMetrics>,
    tracer: Tracer,
}

impl Connector {
    fn options(&self) -> Options {
        let program = concat!("rubelet-", env!("CARGO_PKG_VERSION"));
        Options {
            user_agent: user_agent(KUBERNETES_VERSION, program),
            rate: Some(self.rate),
            resolver: self.names.clone(),
            metrics: Arc::clone(&self.metrics),
            tracer: self.tracer.clone(),
            ..Options::default()
        }
    }

    /// A connection of its own.
    fn connect(&self, deadline: Option<Duration>, tasks: &mut TaskGroup) -> Client {
        let mut options = self.options();
        options.deadline = deadline.unwrap_or(options.deadline);
        Client::new(self.endpoint.clone(), self.credentials.clone(), &options, self.clock.clone(), tasks)
    }
}

/// Joins the cluster that `--kubeconfig` names; `None` for a standalone node (BOOT-02). The tasks for it run in `tasks`.
pub(crate) async fn join(
    loaded: &Loaded,
    setup: &NodeSetup,
    clock: &Clock,
    (rng, metrics, tracer): (&Arc<dyn Rng>, &Arc<ClusterMetrics>, &Tracer),
    tasks: &mut TaskGroup,
) -> anyhow::Result<Option<Cluster>> {
    let config = &loaded.config;
    if loaded.flags.kubeconfig.is_empty() {
        return Ok(None);
    }
    let identity = identity(loaded, &setup.name, metrics);
    let client = certs::client(identity, clock.clone(), Arc::clone(rng), tasks);
    let (endpoint, credentials) = client.await.map_err(into_anyhow)?;
    let connector = Connector {
        endpoint,
        credentials,
        clock: clock.clone(),
        rate: rate(config.kube_api_qps, config.kube_api_burst),
        names: Resolver::default(),
        metrics: Arc::clone(metrics),
        tracer: tracer.clone(),
    };
    let client = connector.connect(None, tasks);
    let server = Server::new(client.clone(), Arc::clone(rng));

    let (view, follower) = WatchedCluster::new(server.clone(), &setup.name);
    tasks.start("cluster-view", follower.run(tasks.cancel_token()));
    let watched = view.node_changes();
    let view = Arc::new(view);

    let event_rate = rate(config.event_record_qps, config.event_burst);
    let events = Server::new(client.with_rate(Some(event_rate)), Arc::clone(rng));
    let (events, sender) = ApiEvents::new(events, &setup.name, clock.clone(), Arc::clone(rng));
    tasks.start("events", sender.run(tasks.cancel_token()));

    let node_settings = NodeSettings::new(loaded, setup.clone());
    let deadline = node_settings.deadline();
    let node = ApiNode::new(client.with_deadline(deadline).with_rate(None));
    // The lease has a connection of its own: a heartbeat must not wait behind other requests.
    let lease = ApiNode::new(connector.connect(Some(deadline), tasks).with_rate(None));
    let node = node_settings.parts(Arc::new(node), Arc::new(lease), watched.clone());

    let identity = (connector.endpoint.clone(), connector.credentials.clone());
    let shown = (connector.endpoint.url(), connector.credentials.clone());
    let time = (clock.clone(), Arc::clone(rng));
    let reviews = ApiReviews::connect(identity, &connector.options(), review_times(config), time, tasks);

    let more = Arc::clone(rng);
    let connect = Box::new(move |tasks: &mut TaskGroup| Server::new(connector.connect(None, tasks), Arc::clone(&more)));
    let (objects, watcher, object_changes) =
        WatchedObjects::new(server.clone(), connect, strategy(config), view.clone(), clock.clone());
    tasks.start("objects", watcher.run(tasks.cancel_token()));

    let source = ApiSource::new(client.clone(), &setup.name, Arc::clone(rng), once_seen(watched, tasks));
    let (source, view) = with_copy((Arc::new(source), view), loaded, setup);
    Ok(Some(Cluster {
        ports: ClusterPorts {
            pods: Arc::new(ApiPods::new(&client)),
            objects: Arc::new(objects),
            view,
            tokens: Arc::new(ApiTokens::new(server, clock.clone(), Arc::clone(rng))),
        },
        events: Arc::new(events),
        reviews: Arc::new(reviews),
        source,
        node,
        object_changes,
        client,
        identity: shown,
    }))
}

/// The source and the view, with a local copy before them if one is wanted (`--api-pod-cache`).
fn with_copy(
    (source, view): (Arc<dyn PodSource>, Arc<dyn ClusterView>),
    loaded: &Loaded,
    setup: &NodeSetup,
) -> (Arc<dyn PodSource>, Arc<dyn ClusterView>) {
    if !loaded.flags.api_pod_cache {
        return (source, view);
    }
    let dir = Path::new(&loaded.flags.root_dir).join("api-pods");
    // Without a boot id every start counts as one of the same boot, and the copy is used only where it is whole.
    let source = CachedSource::new(source, view, dir, &setup.name, &setup.machine.boot_id);
    let view = source.view();
    (Arc::new(source), view)
}

/// The node's credentials for the API server.
fn identity(loaded: &Loaded, node: &str, metrics: &Arc<ClusterMetrics>) -> ClientCertificate {
    ClientCertificate {
        kubeconfig: (&loaded.flags.kubeconfig).into(),
        bootstrap: Some(&loaded.flags.bootstrap_kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from),
        dir: (&loaded.flags.cert_dir).into(),
        node: node.to_owned(),
        rotate: loaded.config.rotate_certificates,
        proxy: ProxyEnvironment::read(|name| std::env::var(name).ok()),
        metrics: Arc::clone(metrics),
    }
}

/// How changes of config maps and secrets are noticed.
fn strategy(config: &KubeletConfiguration) -> Strategy {
    match config.config_map_and_secret_change_detection_strategy {
        ChangeDetection::Watch => Strategy::Watch,
        ChangeDetection::Cache => Strategy::Cache,
        ChangeDetection::Get => Strategy::Get,
    }
}

fn review_times(config: &KubeletConfiguration) -> ReviewTimes {
    ReviewTimes {
        identity: config.authentication.webhook.cache_ttl.to_std(),
        allowed: config.authorization.webhook.cache_authorized_ttl.to_std(),
        refused: config.authorization.webhook.cache_unauthorized_ttl.to_std(),
    }
}

/// Negative and zero mean no limit, as upstream has it.
fn rate(per_second: i32, burst: i32) -> Rate {
    Rate { per_second: f64::from(per_second), burst: u32::try_from(burst).unwrap_or_default() }
}

/// Becomes true when the Node object has been read: before that, a pod would be rejected for labels that are not known yet.
fn once_seen(mut node: watch::Receiver<Option<Arc<Node>>>, tasks: &mut TaskGroup) -> watch::Receiver<bool> {
    let (publish, seen) = watch::channel(false);
    let cancel = tasks.cancel_token();
    tasks.start("node-seen", async move {
        let there = cancel.run_until_cancelled(node.wait_for(Option::is_some)).await.is_some_and(|node| node.is_ok());
        if there {
            publish.send_replace(true);
            cancel.cancelled().await;
        }
    });
    seen
}

/// The certificate of the node's own server; with no API server it is one of files, or made here (TLS-02 …).
pub(crate) async fn serving(
    loaded: &Loaded,
    facts: &NodeFacts,
    client: Option<&Client>,
    node: watch::Receiver<Option<Arc<Node>>>,
    (clock, rng): (&Clock, &Arc<dyn Rng>),
    tasks: &mut TaskGroup,
) -> anyhow::Result<watch::Receiver<Option<Arc<ServingCert>>>> {
    let config = &loaded.config;
    let dir = Path::new(&loaded.flags.cert_dir).to_owned();
    let files = Some((PathBuf::from(&config.tls_cert_file), PathBuf::from(&config.tls_private_key_file)))
        .filter(|(certificate, key)| !certificate.as_os_str().is_empty() && !key.as_os_str().is_empty());
    let source = match (client.filter(|_| config.server_tls_bootstrap), files) {
        (Some(client), files) => ServingSource::Cluster(ClusterServing {
            dir,
            node: facts.name.clone(),
            addresses: addresses(node, tasks),
            dns_only: if loaded.gates.enabled(Gate::AllowDNSOnlyNodeCSR) { DnsOnly::Allowed } else { DnsOnly::Refused },
            client: client.clone(),
            files,
        }),
        (None, Some((certificate, key))) => ServingSource::Files {
            certificate,
            key,
            reload: if loaded.gates.enabled(Gate::ReloadKubeletServerCertificateFile) {
                Reload::Yes
            } else {
                Reload::No
            },
        },
        (None, None) => ServingSource::SelfSigned { dir, host: facts.name.clone() },
    };
    certs::serving(source, clock.clone(), Arc::clone(rng), tasks).await.map_err(into_anyhow)
}

/// The node's addresses, as its object has them.
fn addresses(mut node: watch::Receiver<Option<Arc<Node>>>, tasks: &mut TaskGroup) -> watch::Receiver<Vec<NodeAddress>> {
    let of = |node: &Option<Arc<Node>>| {
        let status = node.as_ref().and_then(|node| node.status.as_ref());
        status.and_then(|status| status.addresses.clone()).unwrap_or_default()
    };
    let (publish, addresses) = watch::channel(of(&node.borrow_and_update()));
    let cancel = tasks.cancel_token();
    tasks.start("serving-addresses", async move {
        while let Some(Ok(())) = cancel.run_until_cancelled(node.changed()).await {
            let new = of(&node.borrow_and_update());
            publish.send_if_modified(|old| {
                let changed = *old != new;
                *old = new;
                changed
            });
        }
        cancel.cancelled().await;
    });
    addresses
}

impl Cluster {
    /// The connection that everything but heartbeats shares.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}
