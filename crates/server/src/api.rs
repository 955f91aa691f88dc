//! The node's HTTPS API on port 10250, which the API server, `kubectl` through it, and monitoring talk to; and the
//! read-only port, if there is one (section 27).
//!
//! Who asks is told by a client certificate or a token (`authn`); what they may do is asked of the API server
//! (`access`); only then is a request carried out. Nothing of a request becomes a path on this node: names are looked
//! up among the pods that the node knows, and what is opened is what the runtime says. This module decides nothing about
//! pods and changes none.
//!
//! A client that is slow or silent costs a place for some seconds, and gives way to others (`connection`, `table`). What
//! clients can cause before it is known who they are is bounded: reviews (`attempts`), certificates (`tls`), warnings.

mod access;
mod answers;
mod attempts;
mod authn;
mod connection;
mod handler;
mod log_options;
mod logs;
mod metrics;
mod patient;
mod pods;
mod routes;
mod sessions;
mod side;
mod table;
mod tls;
mod upgrade;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rubelet_core::config::{AuthorizationMode, FeatureGates, Gate, KubeletConfiguration};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{LogReader, Reviews, Runtime, ServingCert};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::healthz::Health;
use crate::watched::WatchedNode;
use connection::Port;
use handler::Handler;
use routes::Offers;
use tls::Tls;

pub use metrics::{EnginePage, MetricsPage, ProbePage};
pub use tls::TlsError;

/// When the port cannot be had, how long before the next try.
const BIND_PAUSE: Duration = Duration::from_secs(5);
/// The most threads for what blocks while the API is served, started when needed. The pools of `engine::blocking` bound
/// reads of logs and searches of certificate chains below this number; the blocking work of pods has threads of its own.
const BLOCKING_THREADS: usize = logs::MOST_READERS + 16;

/// What the node's API is made from.
#[derive(Clone)]
pub struct ApiParts {
    /// The node's pods.
    pub node: Arc<dyn WatchedNode>,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Logs of containers.
    pub logs: Arc<dyn LogReader>,
    /// What `/healthz` says.
    pub health: Health,
    /// Who asks and what they may do; `None` for a node without an API server.
    pub reviews: Option<Arc<dyn Reviews>>,
    /// Time.
    pub clock: Clock,
    /// Name of the node.
    pub node_name: String,
    /// What `/configz` answers: the configuration in effect, as JSON.
    pub configz: Bytes,
    /// What others have for `/metrics`.
    pub metrics: Vec<Arc<dyn MetricsPage>>,
    /// What `/metrics/probes` has.
    pub probe_metrics: Arc<dyn MetricsPage>,
    /// How it is configured.
    pub settings: ApiSettings,
}

/// What configuration and gates come down to for the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Whoever shows nothing is let in as `system:anonymous`.
    pub anonymous: bool,
    /// Tokens are reviewed by the API server.
    pub tokens: bool,
    /// Who decides what callers may do.
    pub authorization: AuthorizationMode,
    /// Logs, commands and forwarded ports are served at all.
    #[doc(alias = "enableDebuggingHandlers")]
    pub debugging: bool,
    /// Files of `/var/log` are to be served. They are not; this says which words are true.
    #[doc(alias = "enableSystemLogHandler")]
    pub system_logs: bool,
    /// Profiles are to be served. They are not, either.
    #[doc(alias = "enableProfilingHandler")]
    pub profiling: bool,
    /// The log level is to be changed by requests. It is not, either.
    #[doc(alias = "enableDebugFlagsHandler")]
    pub debug_flags: bool,
    /// `streamingConnectionIdleTimeout`: a session in which nothing moves for so long is ended.
    pub idle: Duration,
    /// A log can be had of one stream alone.
    #[doc(alias = "PodLogsQuerySplitStreams")]
    pub split_streams: bool,
}

impl ApiSettings {
    /// As configured.
    pub fn new(config: &KubeletConfiguration, gates: &FeatureGates) -> Self {
        Self {
            anonymous: config.authentication.anonymous.enabled,
            tokens: config.authentication.webhook.enabled,
            authorization: config.authorization.mode,
            debugging: config.enable_debugging_handlers,
            system_logs: config.enable_system_log_handler,
            profiling: config.enable_profiling_handler,
            debug_flags: config.enable_debug_flags_handler,
            idle: config.streaming_connection_idle_timeout.to_std(),
            split_streams: gates.enabled(Gate::PodLogsQuerySplitStreams),
        }
    }
}

/// How the API is encrypted.
#[derive(Clone)]
pub struct TlsParts {
    /// The certificate that is shown; it may change at any time. Without one, handshakes fail (TLS-02).
    pub certificate: watch::Receiver<Option<Arc<ServingCert>>>,
    /// `authentication.x509.clientCAFile`: whose client certificates are believed. Read again when it has changed.
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
    /// Takes the port of the HTTPS API.
    ///
    /// # Errors
    /// It cannot be had, or TLS is configured in a way that cannot be.
    pub async fn bind(address: SocketAddr, parts: ApiParts, tls: TlsParts) -> Result<Self, ServeError> {
        let tls = Arc::new(Tls::new(tls, parts.clock.clone())?);
        let listener = listen(address).await?;
        let offers = if parts.settings.debugging { Offers::Everything } else { Offers::NoDebugging };
        let (stall, clock) = (parts.settings.idle, parts.clock.clone());
        let handler = Handler::new(parts, offers, Some(Arc::clone(&tls)));
        Ok(Self { listener, port: Port::new(Arc::new(handler), Some(tls), stall, clock) })
    }

    /// Takes the port of the read-only API, which is plain HTTP and open to whoever reaches it.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn bind_read_only(address: SocketAddr, parts: ApiParts) -> Result<Self, ServeError> {
        let listener = listen(address).await?;
        let (stall, clock) = (parts.settings.idle, parts.clock.clone());
        let handler = Handler::new(parts, Offers::ReadOnly, None);
        Ok(Self { listener, port: Port::new(Arc::new(handler), None, stall, clock) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until cancelled; what goes on then is cut off.
    pub async fn run(self, cancel: CancellationToken) {
        connection::serve(self.listener, self.port, &cancel).await;
    }
}

/// Answers on `address` until cancelled: with `tls` the whole API, else what is read-only. A port that cannot be had is
/// logged and tried again: the pods are worth more than it.
///
/// With `tls` it runs on a thread of its own, so that handshakes hold up no pod (ADR 15).
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
            // Dropped when the thread ends, however that happens.
            let _ended = ended;
            let _entered = span.enter();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_name("node-api-blocking")
                .max_blocking_threads(BLOCKING_THREADS)
                .build()?;
            runtime.block_on(serve(address, parts, tls, cancel));
            // A read of a log that hangs must not keep the process.
            runtime.shutdown_background();
            io::Result::Ok(())
        }
    };
    let outcome = match std::thread::Builder::new().name("node-api".to_owned()).spawn(work) {
        Ok(thread) => {
            let _dropped = end.await;
            // It has ended, or is about to.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
        Err(err) => Err(err),
    };
    if let Err(err) = outcome {
        error!(%err, "Cannot start a thread for the node's API: serving it beside the pods");
        serve(address, parts, tls, cancel).await;
    }
}

async fn serve(address: SocketAddr, parts: ApiParts, tls: Option<TlsParts>, cancel: CancellationToken) {
    let mut told = false;
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
            Err(err) if !std::mem::replace(&mut told, true) => {
                let err = rubelet_engine::chain::Chain(&err).to_string();
                error!(%address, err, "Cannot serve the node's API: trying again");
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

/// The API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be had.
    #[error("listen on {address}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
