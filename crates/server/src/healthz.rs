//! `/healthz` on a port of its own, for systemd units, `kubeadm` and node problem detectors.
//!
//! Paths, texts and status codes are upstream's. Nothing else is served on this port, because it needs no authentication
//! (CVE-2019-11248 was a profiler on it). One difference: upstream's port only shows that the process is alive (TRAP-16);
//! this one also has the check `syncloop`, which upstream has on the authenticated port only. The check fails only when
//! the sync loop hangs: a loop that was idle, or waits for the runtime, is queried and responds.
//! upstream: cmd/kubelet/app/server.go run, apiserver/pkg/server/healthz/healthz.go InstallHandler (v1.36)

mod results;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub(crate) use self::results::Results;
use crate::http1::{Answer, serve, text};
use crate::url::query_values;
use crate::watched::WatchedNode;

/// Concurrent connections.
const SLOTS: usize = 32;
/// Pause after a failed bind. upstream: cmd/kubelet/app/server.go run (v1.36)
const BIND_PAUSE: Duration = Duration::from_secs(5);
/// The sync loop is queried after twice its resync period without activity, but not before this (LOOP-03).
const LEAST_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Deadline for the response of an inactive sync loop.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The checks on this port, in the order of the verbose response.
const CHECKS: &[&str] = &["ping", "syncloop"];
/// The checks on the node's API. `log` is that logging does not block, which rubelet's cannot.
pub(crate) const API_CHECKS: &[&str] = &["ping", "log", "syncloop"];

/// The health of the node.
#[derive(Clone)]
pub struct Health {
    node: Arc<dyn WatchedNode>,
    patience: Duration,
    /// The results of checks, for `/metrics/slis`; the same for all clones.
    results: Arc<Results>,
}

impl Health {
    /// The health of a node whose sync loop acts at least every `sync_frequency`.
    #[doc(alias = "SyncLoopHealthCheck")]
    pub fn new(node: Arc<dyn WatchedNode>, sync_frequency: Duration) -> Self {
        Self { node, patience: LEAST_PATIENCE.max(sync_frequency.saturating_mul(2)), results: Arc::default() }
    }

    /// Why `check` fails, if it does.
    async fn problem(&self, check: &str) -> Option<&'static str> {
        if check != "syncloop" || self.node.quiet_for() <= self.patience {
            return None;
        }
        match tokio::time::timeout(ANSWER_WITHIN, self.node.view()).await {
            Ok(Some(_)) => None,
            Ok(None) | Err(_) => Some("sync Loop took longer than expected"),
        }
    }

    /// The results of all checks so far.
    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    /// The first check of the node's API that fails, and why; for the watchdog (WD-01).
    pub async fn first_problem(&self) -> Option<(&'static str, &'static str)> {
        for check in API_CHECKS {
            if let Some(why) = self.problem(check).await {
                return Some((check, why));
            }
        }
        None
    }

    pub(crate) async fn answer(&self, checks: &[&'static str], path: &str, query: Option<&str>) -> Answer {
        match path.strip_prefix("/healthz") {
            Some("") => self.all(checks, query).await,
            Some(one) if checks.iter().any(|check| one.strip_prefix('/') == Some(check)) => {
                match self.problem(one.trim_start_matches('/')).await {
                    None => text(StatusCode::OK, "ok"),
                    Some(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
                }
            }
            Some(_) | None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    #[doc(alias = "handleRootHealth")]
    async fn all(&self, checks: &[&'static str], query: Option<&str>) -> Answer {
        let excluded = query_values(query, "exclude");
        let (mut report, mut failed) = (String::new(), false);
        // Writing to a string cannot fail.
        for check in checks.iter().copied() {
            if excluded.iter().any(|name| name == check) {
                let _ = writeln!(report, "[+]{check} excluded: ok");
                continue;
            }
            let good = self.problem(check).await.is_none();
            self.results.count(check, good);
            if good {
                let _ = writeln!(report, "[+]{check} ok");
            } else {
                let _ = writeln!(report, "[-]{check} failed: reason withheld");
                failed = true;
            }
        }
        let mut unknown: Vec<String> =
            excluded.iter().filter(|name| !checks.contains(&name.as_str())).map(|name| format!("{name:?}")).collect();
        unknown.sort();
        unknown.dedup();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        match (failed, query_values(query, "verbose").is_empty()) {
            (true, _) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}healthz check failed\n")),
            (false, true) => text(StatusCode::OK, "ok"),
            (false, false) => text(StatusCode::OK, format!("{report}healthz check passed\n")),
        }
    }
}

/// The server, bound to its port.
pub struct Healthz {
    listener: TcpListener,
    health: Health,
}

impl Healthz {
    /// Binds the port.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub async fn bind(address: SocketAddr, health: Health) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, health })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let health = self.health;
        let handler = move |(), request: Request<Incoming>| {
            let health = health.clone();
            async move { health.answer(CHECKS, request.uri().path(), request.uri().query()).await }
        };
        serve(&self.listener, SLOTS, |_| (), Arc::new(handler), &cancel).await;
    }
}

/// Serves on `address` until cancelled. A failed bind is logged and retried: pods are run without the health port.
pub async fn run(address: SocketAddr, health: Health, cancel: CancellationToken) {
    let mut logged = false;
    loop {
        match Healthz::bind(address, health.clone()).await {
            Ok(server) => {
                info!(%address, "Serving /healthz");
                return server.run(cancel).await;
            }
            Err(err) if !logged => {
                error!(%address, %err, "Failed to start healthz server: is another kubelet running? Retrying");
                logged = true;
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
