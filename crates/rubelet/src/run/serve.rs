//! What the process serves: health, the node's HTTPS API, the local socket that the commands use.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rubelet_cluster::api::Client;
use rubelet_core::config::configz;
use rubelet_engine::assemble::EngineHandle;
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{LogReader, NodeFacts, Reviews, Rng, Runtime};
use rubelet_engine::task::TaskGroup;
use rubelet_server::api::{self, ApiParts, ApiSettings, EnginePage, MetricsPage, ProbePage, TlsParts};
use rubelet_server::healthz::{self, Health};
use rubelet_server::local::{LocalServer, ROOT};
use rubelet_server::{LiveNode, WatchedNode};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::cluster;
use crate::config_load::Loaded;
use crate::flags::control_socket;

/// The inputs of the servers, besides the engine's handles.
pub(super) struct Served {
    pub(super) facts: NodeFacts,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) logs: Arc<dyn LogReader>,
    pub(super) reviews: Option<Arc<dyn Reviews>>,
    pub(super) client: Option<Client>,
    pub(super) rng: Arc<dyn Rng>,
    pub(super) clock: Clock,
    /// Metrics besides the engine's.
    pub(super) metrics: Vec<Arc<dyn MetricsPage>>,
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
    if config.healthz_port > 0 {
        let ip: IpAddr = config.healthz_bind_address.parse().context("healthzBindAddress")?;
        let address = SocketAddr::new(ip, u16::try_from(config.healthz_port).context("healthzPort")?);
        let health = Health::new(Arc::clone(&node), config.sync_frequency.to_std());
        servers.start("healthz", healthz::run(address, health, servers.cancel_token()));
    }
    if config.enable_server {
        node_api(loaded, Arc::clone(&node), engine, served, &mut servers).await?;
    }
    if let Some(local) = local_socket(&control_socket(root), node) {
        servers.start("local-socket", local.run(servers.cancel_token()));
    }
    Ok(servers)
}

/// The socket for commands. The node works without it, so that a full file system does not end the start.
fn local_socket(path: &Path, node: Arc<dyn WatchedNode>) -> Option<LocalServer> {
    match LocalServer::bind(path, node, ROOT) {
        Ok(local) => Some(local),
        Err(err) => {
            warn!(
                err = %Chain(&err),
                "Could not open the socket for `rubelet pods` and `rubelet explain`: they find no rubelet until the next start"
            );
            None
        }
    }
}

/// The node's HTTPS API, and the read-only port if one is configured.
async fn node_api(
    loaded: &Loaded,
    node: Arc<dyn WatchedNode>,
    engine: EngineHandle,
    served: Served,
    servers: &mut TaskGroup,
) -> anyhow::Result<()> {
    let config = &loaded.config;
    let client = served.client.as_ref();
    let time_and_rng = (&served.clock, &served.rng);
    let certificate = cluster::serving(loaded, &served.facts, client, engine.node, time_and_rng, servers).await?;
    let client_ca = Some(&config.authentication.x509.client_ca_file).filter(|path| !path.is_empty());
    let tls = TlsParts {
        certificate,
        client_ca: client_ca.map(PathBuf::from),
        cipher_suites: config.tls_cipher_suites.clone(),
        min_version: config.tls_min_version.clone(),
    };
    let own: Arc<dyn MetricsPage> = Arc::new(EnginePage { metrics: engine.metrics, sync_loop: engine.sync_loop });
    let metrics = [own].into_iter().chain(served.metrics).collect();
    let parts = ApiParts {
        health: Health::new(Arc::clone(&node), config.sync_frequency.to_std()),
        node,
        runtime: served.runtime,
        logs: served.logs,
        reviews: served.reviews,
        clock: served.clock,
        node_name: served.facts.name,
        configz: serde_json::to_vec(&configz(config)).context("the configuration as JSON")?.into(),
        metrics,
        probe_metrics: Arc::new(ProbePage { prober: engine.prober }),
        settings: ApiSettings::new(config, &loaded.gates),
    };
    let ip: IpAddr = config.address.parse().context("address")?;
    let at = |port: i32, name| anyhow::Ok(SocketAddr::new(ip, u16::try_from(port).context(name)?));
    if config.read_only_port > 0 {
        let address = at(config.read_only_port, "readOnlyPort")?;
        servers.start("read-only-api", api::run(address, parts.clone(), None, servers.cancel_token()));
    }
    servers.start("node-api", api::run(at(config.port, "port")?, parts, Some(tls), servers.cancel_token()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::StillNode;

    #[tokio::test]
    async fn a_socket_that_cannot_be_made_does_not_end_the_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("rubelet.sock");
        let open = |path: &Path| local_socket(path, Arc::new(StillNode::default()));
        std::fs::write(&path, "a file of somebody else").expect("written");
        assert!(open(&path).is_none(), "a file is in its place");
        assert!(open(&dir.path().join("no/such/directory/rubelet.sock")).is_none());
        assert!(open(Path::new("/dev/full/rubelet.sock")).is_none());
        std::fs::remove_file(&path).expect("removed");
        assert!(open(&path).is_some());
    }
}
