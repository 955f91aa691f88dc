//! What the process serves: health, the node's HTTPS API, the local socket that the commands use.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rubelet_cluster::ClusterMetrics;
use rubelet_cluster::api::{Client, Credentials};
use rubelet_cluster::certs::{client_in_use, serving_in_use};
use rubelet_core::certs::Purpose;
use rubelet_core::config::configz;
use rubelet_engine::assemble::EngineHandle;
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{CgroupDriver, LogReader, NodeFacts, Reviews, Rng, Runtime, RuntimeVersion, ServingCert};
use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::Tracer;
use rubelet_linux::container_checkpoints::CheckpointDir;
use rubelet_linux::node_logs::NodeLogDir;
use rubelet_linux::profile::OwnProfiler;
use rubelet_server::api::{
    self, ApiParts, ApiSettings, EnginePage, MetricsPage, NodePages, ProbePage, SessionVerb, TlsParts,
};
use rubelet_server::healthz::{self, Health};
use rubelet_server::local::{Agent, Certificates, Insight, LocalServer, OwnedSocket, ROOT, ui};
use rubelet_server::{LiveNode, WatchedNode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::cluster;
use crate::config_load::Loaded;
use crate::flags::{self, control_socket};
use crate::logging::Log;
use crate::metrics::ClusterPage;

/// The directory of the node's own logs. Not configurable upstream either.
const NODE_LOGS: &str = "/var/log";

/// The inputs of the servers, besides the engine's handles.
pub(super) struct Served {
    pub(super) facts: NodeFacts,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) logs: Arc<dyn LogReader>,
    pub(super) reviews: Option<Arc<dyn Reviews>>,
    pub(super) client: Option<Client>,
    pub(super) rng: Arc<dyn Rng>,
    pub(super) clock: Clock,
    pub(super) tracer: Tracer,
    /// Metrics besides the engine's.
    pub(super) metrics: Vec<Arc<dyn MetricsPage>>,
    /// Metrics of what leads outside of the node.
    pub(super) cluster_metrics: Arc<ClusterMetrics>,
    /// The log, whose level can be changed.
    pub(super) log: Log,
    /// The runtime as it answered at the start.
    pub(super) version: RuntimeVersion,
    /// The cgroup driver in use.
    pub(super) driver: CgroupDriver,
    /// The API server's URL and the credentials for it; `None` on a standalone node.
    pub(super) identity: Option<(String, Credentials)>,
    /// What commands and the page explain besides the state of pods.
    pub(super) insight: Insight,
}

/// Starts every server.
pub(super) async fn serve(
    loaded: &Loaded,
    root: &Path,
    engine: EngineHandle,
    served: Served,
    cancel: &CancellationToken,
) -> anyhow::Result<TaskGroup> {
    let config = &loaded.config;
    let mut servers = TaskGroup::new(cancel);
    let live = LiveNode { sync_loop: engine.sync_loop.clone(), clock: served.clock.clone() };
    let node: Arc<dyn WatchedNode> = Arc::new(live);
    // One of them, so that /metrics/slis counts the checks of both ports.
    let health = Health::new(Arc::clone(&node), config.sync_frequency.to_std());
    if config.healthz_port > 0 {
        let ip: IpAddr = config.healthz_bind_address.parse().context("healthzBindAddress")?;
        let address = SocketAddr::new(ip, u16::try_from(config.healthz_port).context("healthzPort")?);
        servers.start("healthz", healthz::run(address, health.clone(), servers.cancel_token()));
    }
    let mut agent = agent(loaded, &engine, &served);
    let identity = served.identity.clone();
    let serving = if config.enable_server {
        node_api(loaded, root, (Arc::clone(&node), health), engine, served, &mut servers).await?
    } else {
        watch::channel(None).1
    };
    agent.certificates = certificates(identity.map(|(_, credentials)| credentials), serving);
    if let Some(port) = loaded.flags.local_ui {
        servers.start("local-ui", ui::run(port, Arc::clone(&node), agent.clone(), servers.cancel_token()));
    }
    if let Some(socket) = local_socket(&control_socket(root)) {
        let local = LocalServer::new(socket, node, agent, ROOT);
        servers.start("local-socket", local.run(servers.cancel_token()));
    }
    Ok(servers)
}

/// The socket for commands. The node works without it, so that a full file system does not end the start.
fn local_socket(path: &Path) -> Option<OwnedSocket> {
    let bound = OwnedSocket::bind(path);
    if let Err(err) = &bound {
        warn!(
            err = %Chain(err),
            "Could not open the socket for `rubelet pods` and other commands: they find no rubelet until the next start"
        );
    }
    bound.ok()
}

/// What `rubelet status` shows of this process; its certificates are yet to come.
fn agent(loaded: &Loaded, engine: &EngineHandle, served: &Served) -> Agent {
    Agent {
        node_name: served.facts.name.clone(),
        version: loaded.reported_version.clone(),
        started: served.clock.at_start(),
        api_server: served.identity.as_ref().map(|(url, _)| url.clone()),
        heartbeat: engine.heartbeat.clone(),
        object: engine.node.clone(),
        now: engine.now.clone(),
        statuses: engine.statuses.clone(),
        runtime: served.version.clone(),
        runtime_endpoint: loaded.config.container_runtime_endpoint.clone(),
        driver: served.driver,
        certificates: Arc::new(Vec::new),
        insight: Insight {
            usage: Some(Arc::clone(&engine.usage)),
            pulls: Some(engine.puller.clone()),
            probes: Some(engine.prober.clone()),
            ended: Some(engine.ended.clone()),
            eviction: Some(engine.eviction.clone()),
            ..served.insight.clone()
        },
    }
}

/// Reads the certificates that are in use when it is called.
fn certificates(client: Option<Credentials>, serving: watch::Receiver<Option<Arc<ServingCert>>>) -> Certificates {
    Arc::new(move || {
        let client = client.as_ref().and_then(client_in_use);
        let serving = serving.borrow().clone().and_then(|certificate| serving_in_use(&certificate));
        client.into_iter().chain(serving).collect()
    })
}

/// The node's HTTPS API, and the read-only port if one is configured. Answers with its certificate.
async fn node_api(
    loaded: &Loaded,
    root: &Path,
    (node, health): (Arc<dyn WatchedNode>, Health),
    engine: EngineHandle,
    served: Served,
    servers: &mut TaskGroup,
) -> anyhow::Result<watch::Receiver<Option<Arc<ServingCert>>>> {
    let config = &loaded.config;
    let client = served.client.as_ref();
    let time_and_rng = (&served.clock, &served.rng);
    let certificate = cluster::serving(loaded, &served.facts, client, engine.node, time_and_rng, servers).await?;
    let client_ca = Some(&config.authentication.x509.client_ca_file).filter(|path| !path.is_empty());
    let tls = TlsParts {
        certificate: certificate.clone(),
        client_ca: client_ca.map(PathBuf::from),
        cipher_suites: config.tls_cipher_suites.clone(),
        min_version: config.tls_min_version.clone(),
    };
    let node_pages = node_pages(loaded, root, &served.log, &served.clock);
    let own: Arc<dyn MetricsPage> = Arc::new(EnginePage { metrics: engine.metrics, sync_loop: engine.sync_loop });
    let credentials = served.identity.map(|(_, credentials)| credentials);
    let signed = [
        (Purpose::Client, credentials.is_some() && config.rotate_certificates),
        (Purpose::Serving, client.is_some() && config.server_tls_bootstrap),
    ];
    let outside: Arc<dyn MetricsPage> = Arc::new(ClusterPage {
        metrics: served.cluster_metrics,
        certificates: certificates(credentials, certificate.clone()),
        signed: signed.into_iter().filter_map(|(purpose, is)| is.then_some(purpose)).collect(),
        clock: served.clock.clone(),
    });
    let metrics = [own, outside].into_iter().chain(served.metrics).collect();
    let parts = ApiParts {
        health,
        node,
        runtime: served.runtime,
        logs: served.logs,
        reviews: served.reviews,
        clock: served.clock,
        node_name: served.facts.name,
        configz: serde_json::to_vec(&configz(config)).context("the configuration as JSON")?.into(),
        metrics,
        probe_metrics: Arc::new(ProbePage { prober: engine.prober }),
        usage: Some(engine.usage),
        tracer: served.tracer,
        node_pages,
        settings: api_settings(loaded),
    };
    let ip: IpAddr = config.address.parse().context("address")?;
    let at = |port: i32, name| anyhow::Ok(SocketAddr::new(ip, u16::try_from(port).context(name)?));
    if config.read_only_port > 0 {
        let address = at(config.read_only_port, "readOnlyPort")?;
        servers.start("read-only-api", api::run(address, parts.clone(), None, servers.cancel_token()));
    }
    servers.start("node-api", api::run(at(config.port, "port")?, parts, Some(tls), servers.cancel_token()));
    Ok(certificate)
}

fn api_settings(loaded: &Loaded) -> ApiSettings {
    let mut settings = ApiSettings::new(&loaded.config, &loaded.gates);
    if loaded.flags.sessions_need_create {
        settings.session_verb = SessionVerb::Create;
    }
    settings
}

/// What the pages about the node and the process show and change.
fn node_pages(loaded: &Loaded, root: &Path, log: &Log, clock: &Clock) -> NodePages {
    let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    NodePages {
        logs: Arc::new(NodeLogDir::new(NODE_LOGS)),
        checkpoints: Arc::new(CheckpointDir::new(root)),
        verbosity: Arc::new(log.clone()),
        flags: Arc::new(flags::in_force(&loaded.config, &loaded.flags)),
        command_line: arguments.join("\0").into(),
        profiler: Some(Arc::new(OwnProfiler::new(clock.clone()))),
        version: flags::KUBERNETES_VERSION.trim_start_matches('v'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_cannot_be_made_does_not_end_the_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("rubelet.sock");
        std::fs::write(&path, "a file of somebody else").expect("written");
        assert!(local_socket(&path).is_none(), "a file is in its place");
        assert!(local_socket(&dir.path().join("no/such/directory/rubelet.sock")).is_none());
        assert!(local_socket(Path::new("/dev/full/rubelet.sock")).is_none());
        std::fs::remove_file(&path).expect("removed");
        assert!(local_socket(&path).is_some());
    }
}
