//! The node's HTTPS API on port 10250, for the API server, `kubectl` through it, and monitoring; and the read-only port, if
//! it is configured (section 27).
//!
//! A request is authenticated by a client certificate or a token (`authn`), authorized by the API server (`access`), and
//! then served. Names in requests are looked up among the node's pods, and log paths come from the runtime. Only the path
//! of `/logs/` leads to files, which its port resolves by descriptor below one directory. This module makes no decisions
//! about pods and changes none.
//!
//! A slow or silent client holds a connection for some seconds and may be disconnected in favour of others (`connection`,
//! `table`). What an unauthenticated client can cause is bounded: reviews (`attempts`), certificates (`tls`), warnings.

mod access;
mod answers;
mod attempts;
mod authn;
mod checkpoint;
mod connection;
mod debug;
mod handler;
mod log_options;
mod logs;
mod metrics;
mod node_log_query;
mod node_logs;
mod pods;
mod pprof;
mod routes;
mod sessions;
mod side_tasks;
mod table;
mod tls;
mod upgrade;
mod usage;
mod write_timeout;
mod zpages;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rubelet_core::config::{AuthorizationMode, FeatureGates, Gate, KubeletConfiguration};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{
    CheckpointFiles, LogReader, NodeLogs, Profiler, Reviews, Runtime, ServingCert, UsageReader,
};
use rubelet_engine::trace::Tracer;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::healthz::Health;
use crate::watched::WatchedNode;
use connection::Port;
use handler::Handler;
use routes::{Offers, Switches};
use tls::Tls;

pub use access::SessionVerb;
pub use debug::Verbosity;
pub(crate) use logs::instance;
pub use metrics::{EnginePage, MetricsPage, ProbePage};
pub use tls::TlsError;

/// Pause after a failed bind.
const BIND_PAUSE: Duration = Duration::from_secs(5);
/// Most threads for blocking calls of the API, started on demand. The pools of `engine::blocking` limit log reads and
/// certificate verification to fewer; the blocking calls for pods have threads of their own.
const BLOCKING_THREADS: usize = logs::MOST_READERS + 16;

/// The parts of the node's API.
#[derive(Clone)]
pub struct ApiParts {
    /// The node's pods.
    pub node: Arc<dyn WatchedNode>,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Container logs.
    pub logs: Arc<dyn LogReader>,
    /// `/healthz`.
    pub health: Health,
    /// Authentication and authorization reviews; `None` for a node without an API server.
    pub reviews: Option<Arc<dyn Reviews>>,
    /// The clock.
    pub clock: Clock,
    /// Name of the node.
    pub node_name: String,
    /// The document of `/configz`: the configuration in force, as JSON.
    pub configz: Bytes,
    /// Further pages for `/metrics`.
    pub metrics: Vec<Arc<dyn MetricsPage>>,
    /// `/metrics/probes`.
    pub probe_metrics: Arc<dyn MetricsPage>,
    /// The usage of the node and its pods; without it the pages of usage report an error.
    pub usage: Option<Arc<dyn UsageReader>>,
    /// Makes spans of requests.
    pub tracer: Tracer,
    /// What the pages about the node itself show and change.
    pub node_pages: NodePages,
    /// Settings.
    pub settings: ApiSettings,
}

/// What the pages about the node and the process show and change: `/logs/`, `/checkpoint`, `/flagz`, `/statusz`, `/debug`.
#[derive(Clone)]
pub struct NodePages {
    /// The node's own logs.
    pub logs: Arc<dyn NodeLogs>,
    /// Where checkpoints of containers are.
    pub checkpoints: Arc<dyn CheckpointFiles>,
    /// The log level.
    pub verbosity: Arc<dyn Verbosity>,
    /// Every flag with its value.
    pub flags: Arc<BTreeMap<String, String>>,
    /// The arguments of the process, with a zero byte between them.
    pub command_line: Bytes,
    /// Takes profiles of the process.
    pub profiler: Option<Arc<dyn Profiler>>,
    /// The Kubernetes release, such as `1.36.4`.
    pub version: &'static str,
}

/// The settings of the API, from configuration and feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Requests without credentials are `system:anonymous`.
    pub anonymous: bool,
    /// Tokens are reviewed by the API server.
    pub tokens: bool,
    /// The authorization mode.
    pub authorization: AuthorizationMode,
    /// Logs, exec and port-forward are served.
    #[doc(alias = "enableDebuggingHandlers")]
    pub debugging: bool,
    /// Which pages besides are served.
    pages: Switches,
    /// `enableSystemLogQuery`: `/logs/` answers queries.
    #[doc(alias = "enableSystemLogQuery")]
    log_queries: bool,
    /// Which verb a session needs.
    pub session_verb: SessionVerb,
    /// `streamingConnectionIdleTimeout`: a session without traffic for this time is ended.
    pub idle: Duration,
    /// Logs can be restricted to one stream (gate `PodLogsQuerySplitStreams`).
    #[doc(alias = "PodLogsQuerySplitStreams")]
    pub split_streams: bool,
}

impl ApiSettings {
    /// From the configuration.
    pub fn new(config: &KubeletConfiguration, gates: &FeatureGates) -> Self {
        Self {
            anonymous: config.authentication.anonymous.enabled,
            tokens: config.authentication.webhook.enabled,
            authorization: config.authorization.mode,
            debugging: config.enable_debugging_handlers,
            pages: Switches {
                node_logs: config.enable_system_log_handler,
                profiles: config.enable_profiling_handler,
                log_level: config.enable_debug_flags_handler,
                checkpoints: gates.enabled(Gate::ContainerCheckpoint),
                flagz: gates.enabled(Gate::ComponentFlagz),
                statusz: gates.enabled(Gate::ComponentStatusz),
            },
            log_queries: config.enable_system_log_query,
            session_verb: SessionVerb::OfTheMethod,
            idle: config.streaming_connection_idle_timeout.to_std(),
            split_streams: gates.enabled(Gate::PodLogsQuerySplitStreams),
        }
    }
}

/// The TLS settings of the API.
#[derive(Clone)]
pub struct TlsParts {
    /// The serving certificate, which may be rotated at any time. Without one, handshakes fail (TLS-02).
    pub certificate: watch::Receiver<Option<Arc<ServingCert>>>,
    /// `authentication.x509.clientCAFile`: signs the client certificates. Read again when it has changed.
    pub client_ca: Option<PathBuf>,
    /// `tlsCipherSuites`; empty for all.
    pub cipher_suites: Vec<String>,
    /// `tlsMinVersion`; empty for TLS 1.2.
    pub min_version: String,
}

/// The node's API, bound to its port.
pub struct NodeServer {
    listener: TcpListener,
    port: Port,
}

impl NodeServer {
    /// Binds the port of the HTTPS API.
    ///
    /// # Errors
    /// The port cannot be bound, or TLS cannot be set up as configured.
    pub async fn bind(address: SocketAddr, parts: ApiParts, tls: TlsParts) -> Result<Self, ServeError> {
        let tls = Arc::new(Tls::new(tls, parts.clock.clone())?);
        let listener = listen(address).await?;
        let offers = if parts.settings.debugging { Offers::Everything } else { Offers::NoDebugging };
        let (stall, clock) = (parts.settings.idle, parts.clock.clone());
        let handler = Handler::new(parts, offers, Some(Arc::clone(&tls)));
        Ok(Self { listener, port: Port::new(Arc::new(handler), Some(tls), stall, clock) })
    }

    /// Binds the port of the read-only API, which is plain HTTP without authentication.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub async fn bind_read_only(address: SocketAddr, parts: ApiParts) -> Result<Self, ServeError> {
        let listener = listen(address).await?;
        let (stall, clock) = (parts.settings.idle, parts.clock.clone());
        let handler = Handler::new(parts, Offers::ReadOnly, None);
        Ok(Self { listener, port: Port::new(Arc::new(handler), None, stall, clock) })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until cancelled; open connections are closed then.
    pub async fn run(self, cancel: CancellationToken) {
        connection::serve(self.listener, self.port, &cancel).await;
    }
}

/// Serves on `address` until cancelled: with `tls` the whole API, else the read-only one. A failed bind is logged and
/// retried: pods are run without the API.
///
/// With `tls` it runs on a thread of its own, so that handshakes do not delay pods (ADR 15).
#[doc(alias = "ListenAndServeKubeletServer")]
pub async fn run(address: SocketAddr, parts: ApiParts, tls: Option<TlsParts>, cancel: CancellationToken) {
    if tls.is_none() {
        return serve(address, parts, tls, cancel).await;
    }
    let span = tracing::Span::current();
    let (ended, end) = oneshot::channel::<()>();
    let work = {
        let (parts, tls, cancel) = (parts.clone(), tls.clone(), cancel.clone());
        move || {
            // Dropped when the thread ends, even by a panic.
            let _ended = ended;
            let _entered = span.enter();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_name("node-api-blocking")
                .max_blocking_threads(BLOCKING_THREADS)
                .build()?;
            runtime.block_on(serve(address, parts, tls, cancel));
            // A hanging log read must not keep the process alive.
            runtime.shutdown_background();
            io::Result::Ok(())
        }
    };
    let outcome = match std::thread::Builder::new().name("node-api".to_owned()).spawn(work) {
        Ok(thread) => {
            let _dropped = end.await;
            // The thread has ended, or is about to.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
        Err(err) => Err(err),
    };
    if let Err(err) = outcome {
        error!(%err, "Failed to start a thread for the node's API; serving it on the thread of the pods");
        serve(address, parts, tls, cancel).await;
    }
}

async fn serve(address: SocketAddr, parts: ApiParts, tls: Option<TlsParts>, cancel: CancellationToken) {
    let mut logged = false;
    loop {
        let bound = match tls.clone() {
            Some(tls) => NodeServer::bind(address, parts.clone(), tls).await,
            None => NodeServer::bind_read_only(address, parts.clone()).await,
        };
        match bound {
            Ok(server) => {
                info!(%address, read_only = tls.is_none(), "Serving the node's API");
                return server.run(cancel).await;
            }
            Err(err) if !std::mem::replace(&mut logged, true) => {
                let err = rubelet_engine::chain::Chain(&err).to_string();
                error!(%address, err, "Failed to listen and serve the node's API; retrying");
            }
            Err(_) => {}
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(BIND_PAUSE) => {}
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be bound.
    #[error("listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
