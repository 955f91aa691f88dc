//! `/healthz` on a port of its own, for systemd units, `kubeadm` and node problem detectors.
//!
//! Paths, words and status codes are upstream's; nothing else is served on this port, for it is open to whoever reaches
//! it (CVE-2019-11248 served a profiler here). One thing differs: upstream's port only says that the process is there
//! (TRAP-16), while this one also has the check `syncloop`, which upstream has on the authenticated port alone. It fails
//! when the loop hangs, and only then: a loop that was quiet because nothing happened, or because the runtime is away, is
//! asked and answers.
//! upstream: cmd/kubelet/app/server.go run, apiserver/pkg/server/healthz/healthz.go InstallHandler (v1.36)

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

use crate::http1::{Answer, serve, text};
use crate::url::query_values;
use crate::watched::WatchedNode;

/// Health checkers at a time.
const SLOTS: usize = 32;
/// When the port cannot be had, how long before the next try. upstream: cmd/kubelet/app/server.go run (v1.36)
const BIND_PAUSE: Duration = Duration::from_secs(5);
/// The loop counts as hanging after twice its resync period without a sign of life, but not before this (LOOP-03).
const LEAST_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// A loop that was quiet for so long has to answer within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Every check on this port, in the order in which they are told.
const CHECKS: &[&str] = &["ping", "syncloop"];
/// Every check on the node's API: `log` is that logging does not block, which ours cannot.
pub(crate) const API_CHECKS: &[&str] = &["ping", "log", "syncloop"];

/// What is checked.
#[derive(Clone)]
pub struct Health {
    node: Arc<dyn WatchedNode>,
    patience: Duration,
}

impl Health {
    /// Of a node whose loop acts at least every `sync_frequency`.
    #[doc(alias = "SyncLoopHealthCheck")]
    pub fn new(node: Arc<dyn WatchedNode>, sync_frequency: Duration) -> Self {
        Self { node, patience: LEAST_PATIENCE.max(sync_frequency.saturating_mul(2)) }
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

    pub(crate) async fn answer(&self, checks: &[&str], path: &str, query: Option<&str>) -> Answer {
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
    async fn all(&self, checks: &[&str], query: Option<&str>) -> Answer {
        let excluded = query_values(query, "exclude");
        let (mut told, mut failed) = (String::new(), false);
        // Writing to a string cannot fail.
        for check in checks.iter().copied() {
            if excluded.iter().any(|name| name == check) {
                let _ = writeln!(told, "[+]{check} excluded: ok");
            } else if self.problem(check).await.is_some() {
                let _ = writeln!(told, "[-]{check} failed: reason withheld");
                failed = true;
            } else {
                let _ = writeln!(told, "[+]{check} ok");
            }
        }
        let mut unknown: Vec<String> =
            excluded.iter().filter(|name| !checks.contains(&name.as_str())).map(|name| format!("{name:?}")).collect();
        unknown.sort();
        unknown.dedup();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            let _ = writeln!(told, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        match (failed, query_values(query, "verbose").is_empty()) {
            (true, _) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{told}healthz check failed\n")),
            (false, true) => text(StatusCode::OK, "ok"),
            (false, false) => text(StatusCode::OK, format!("{told}healthz check passed\n")),
        }
    }
}

/// The server, bound to its port.
pub struct Healthz {
    listener: TcpListener,
    health: Health,
}

impl Healthz {
    /// Takes the port.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn bind(address: SocketAddr, health: Health) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, health })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let health = self.health;
        let handler = move |(), request: Request<Incoming>| {
            let health = health.clone();
            async move { health.answer(CHECKS, request.uri().path(), request.uri().query()).await }
        };
        serve(&self.listener, SLOTS, |_| (), Arc::new(handler), &cancel).await;
    }
}

/// Answers on `address` until cancelled. A port that cannot be had is told and tried again: the node is worth more than
/// its health port.
pub async fn run(address: SocketAddr, health: Health, cancel: CancellationToken) {
    let mut told = false;
    loop {
        match Healthz::bind(address, health.clone()).await {
            Ok(server) => {
                info!(%address, "Serving /healthz");
                return server.run(cancel).await;
            }
            Err(err) if !told => {
                error!(%address, %err, "Cannot serve /healthz: is another kubelet running? Trying again");
                told = true;
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
