//! Keeps the node's lease: the heartbeat by which the control plane knows that the node is alive (NODE-30).
//!
//! It has its own task and connection, so that only the API server can delay it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use rubelet_core::backoff::Doubling;
use rubelet_core::node::{node_lease, renewed_lease};
use rubelet_core::time::Now;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::ports::{ApiError, ApiErrorKind, LeaseApi, Rng};

/// Attempts for each renewal. upstream: lease/controller.go maxUpdateRetries (v1.36)
const ATTEMPTS: u32 = 5;
/// Pauses before a lease that cannot be read or made is asked for again.
const RETRIES: Doubling = Doubling::new(Duration::from_millis(200), Duration::from_secs(7));
/// The pause after a busy server that names none.
const BUSY: Duration = Duration::from_millis(100);
/// A lease is renewed four times in its life. upstream: kubelet.go nodeLeaseRenewIntervalFraction (v1.36)
const RENEWALS: u32 = 4;
/// Jitter of the period, so that nodes that started together spread their renewals.
const JITTER: f64 = 0.04;

/// What the requests for the lease show of the API server. They are sent every few seconds whatever else happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the API server answers; `None` before the first request has ended.
    pub contact: Option<Contact>,
    /// When the lease was last renewed or made by this process.
    pub renewed: Option<Now>,
    /// Why the last request failed; `None` if it succeeded.
    pub problem: Option<String>,
}

/// Whether the API server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// It does, if only with an error.
    pub reachable: bool,
    /// Since when this is so.
    pub since: Now,
}

/// The task.
#[doc(alias = "nodeLeaseController")]
pub struct LeaseKeeper {
    name: String,
    seconds: i32,
    api: Arc<dyn LeaseApi>,
    /// The node's object, which owns the lease; `None` while there is none.
    node: watch::Receiver<Option<Arc<Node>>>,
    clock: Clock,
    rng: Arc<dyn Rng>,
    latest: Option<Lease>,
    /// The last renewal failed, and a warning was logged.
    failing: bool,
    heartbeat: watch::Sender<Heartbeat>,
}

impl LeaseKeeper {
    /// A keeper of the lease of the node called `name`, which lasts for `seconds`.
    pub fn new(
        name: String,
        seconds: i32,
        api: Arc<dyn LeaseApi>,
        node: watch::Receiver<Option<Arc<Node>>>,
        clock: Clock,
        rng: Arc<dyn Rng>,
    ) -> Self {
        Self { name, seconds, api, node, clock, rng, latest: None, failing: false, heartbeat: watch::Sender::default() }
    }

    /// What its requests show of the API server.
    pub fn heartbeat(&self) -> watch::Receiver<Heartbeat> {
        self.heartbeat.subscribe()
    }

    /// Runs until cancelled. The lease is not released then: pods go on running.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            // A cancelled renewal may or may not have reached the server; the next start reads the lease again.
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let period = Duration::from_secs(u64::try_from(self.seconds).unwrap_or_default()) / RENEWALS;
        loop {
            self.renew().await;
            let pause = period.mul_f64(1.0 + JITTER * self.rng.fraction());
            tokio::time::sleep(pause).await;
        }
    }

    /// Renews the lease as last seen, without reading it first: only the kubelet writes it. If that fails, reads or creates
    /// it, for as long as that takes.
    async fn renew(&mut self) {
        if let Some(latest) = self.latest.take()
            && self.try_renew(latest).await
        {
            return;
        }
        match self.ensure().await {
            Ensured::Made(lease) => {
                self.latest = Some(lease);
                self.renewed();
            }
            Ensured::Found(lease) => {
                self.try_renew(lease).await;
            }
        }
    }

    async fn try_renew(&mut self, mut base: Lease) -> bool {
        for _ in 0..ATTEMPTS {
            let node = self.node.borrow().clone();
            let renewed = renewed_lease(base.clone(), node.as_deref(), self.seconds, self.clock.wall());
            match self.api.update(&renewed).await {
                Ok(lease) => {
                    self.latest = Some(lease);
                    self.renewed();
                    return true;
                }
                Err(err) => {
                    self.failed(&err);
                    match err.kind {
                        ApiErrorKind::Conflict => match self.ensure().await {
                            Ensured::Made(lease) => {
                                self.latest = Some(lease);
                                self.renewed();
                                return true;
                            }
                            Ensured::Found(lease) => base = lease,
                        },
                        // The lease was deleted: create it at once.
                        ApiErrorKind::NotFound => return false,
                        ApiErrorKind::Busy { retry_after } => {
                            tokio::time::sleep(retry_after.unwrap_or(BUSY).min(RETRIES.most)).await;
                        }
                        _ => {}
                    }
                }
            }
        }
        false
    }

    /// Reads or creates the lease; retries until that succeeds.
    #[doc(alias = "backoffEnsureLease")]
    async fn ensure(&mut self) -> Ensured {
        let mut failures: u32 = 0;
        loop {
            match self.try_ensure().await {
                Ok(Some(ensured)) => return ensured,
                Ok(None) => debug!("The lease waits for its node to be registered"),
                Err(err) => self.failed(&err),
            }
            failures = failures.saturating_add(1);
            let (node, cancelled) = (&mut self.node, tokio::time::sleep(RETRIES.after(failures)));
            tokio::select! {
                biased;
                () = cancelled => {}
                () = appeared(node) => {}
            }
        }
    }

    /// `None` if there is neither a lease nor a node object to own a new one.
    async fn try_ensure(&mut self) -> Result<Option<Ensured>, ApiError> {
        match self.api.get(&self.name).await {
            Ok(lease) => {
                self.answered(None);
                return Ok(Some(Ensured::Found(lease)));
            }
            Err(err) if err.is_not_found() => self.answered(None),
            Err(err) => return Err(err),
        }
        let node = self.node.borrow_and_update().clone();
        let Some(node) = node else { return Ok(None) };
        let lease = node_lease(&node, self.seconds, self.clock.wall());
        Ok(Some(Ensured::Made(self.api.create(&lease).await?)))
    }

    fn renewed(&mut self) {
        if self.failing {
            info!("The node's lease is renewed again");
        }
        self.failing = false;
        self.answered(None);
        let now = Now { mono: self.clock.mono(), wall: self.clock.wall() };
        self.heartbeat.send_modify(|heartbeat| heartbeat.renewed = Some(now));
    }

    /// A request has ended, with this error if it failed.
    fn answered(&self, err: Option<&ApiError>) {
        let reachable = !err.is_some_and(|err| matches!(err.kind, ApiErrorKind::Unavailable | ApiErrorKind::Timeout));
        let since = Now { mono: self.clock.mono(), wall: self.clock.wall() };
        self.heartbeat.send_modify(|heartbeat| {
            let same = heartbeat.contact.filter(|contact| contact.reachable == reachable);
            heartbeat.contact = same.or(Some(Contact { reachable, since }));
            heartbeat.problem = err.map(ToString::to_string);
        });
    }

    fn failed(&mut self, err: &ApiError) {
        self.answered(Some(err));
        if self.failing {
            debug!(%err, "Could not renew the node's lease");
        } else {
            warn!(%err, "Could not renew the node's lease; trying again");
        }
        self.failing = true;
    }
}

enum Ensured {
    /// Created now: nothing is left to renew.
    Made(Lease),
    /// It existed.
    Found(Lease),
}

/// Waits until the node's object changes; for ever if its sender is gone.
async fn appeared(node: &mut watch::Receiver<Option<Arc<Node>>>) {
    if node.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
