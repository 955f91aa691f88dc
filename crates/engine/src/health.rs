//! Watches whether the runtime and its network are ready (BOOT-13, LOOP-02).
//!
//! While the runtime is down the sync loop dispatches nothing. This task asks again with growing pauses and publishes when
//! the runtime is back.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::node::RuntimeContact;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::ports::{RpcError, RpcErrorKind, RuntimeInfo, RuntimeStatus};

#[cfg(test)]
mod tests;

/// How often a runtime that is up is asked (BOOT-13).
const PERIOD: Duration = Duration::from_secs(5);
/// Pauses before a runtime that is down is asked again (LOOP-02).
const RETRIES: Doubling = Doubling::new(Duration::from_millis(100), Duration::from_secs(5));
/// A runtime whose network is not ready is asked this often, so that pods and the node's readiness need not wait once it
/// is: a network that was just installed is ready any moment now (NODE-11).
const NETWORK_PERIOD: Duration = Duration::from_millis(200);
/// How long [`NETWORK_PERIOD`] applies. upstream: kubelet.go nodeReadyGracePeriod (v1.36)
const NETWORK_PATIENCE: Duration = Duration::from_secs(120);
/// A runtime that was up counts as down when no check succeeded for this long (BOOT-13). Until then a slow answer is
/// only slow.
const GRACE: Duration = Duration::from_secs(30);

/// The state of the runtime.
#[doc(alias = "runtimeState")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeHealth {
    /// Pods can be worked on.
    pub up: bool,
    /// Why they cannot.
    pub problem: Option<String>,
    /// The runtime's last answer.
    pub status: RuntimeStatus,
    /// The runtime has answered at least once.
    pub answered: bool,
    /// How long ago it was last ready.
    pub contact: RuntimeContact,
}

impl RuntimeHealth {
    /// The runtime answers and reports no problem. A runtime that stopped answering a moment ago is still up, but not well.
    pub fn is_well(&self) -> bool {
        self.up && self.problem.is_none()
    }

    /// Why pods that need a network of their own can't be started; `None` if they can (SYNC-05).
    pub fn network_problem(&self) -> Option<String> {
        let network = &self.status.network;
        (!network.ready).then(|| match network.message.as_str() {
            "" => "the runtime's network is not ready".to_owned(),
            message => message.to_owned(),
        })
    }
}

/// Asks the runtime for its status until cancelled, and publishes changes.
#[doc(alias = "updateRuntimeUp")]
pub async fn watch_runtime(
    runtime: Arc<dyn RuntimeInfo>,
    clock: Clock,
    out: watch::Sender<RuntimeHealth>,
    cancel: CancellationToken,
) {
    let mut last_good = None;
    let mut failures: u32 = 0;
    let mut no_network_since = None;
    loop {
        let asked = clock.mono();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            // Asking for the status has no side effect: the call can be dropped.
            answer = ask(runtime.as_ref()) => answer,
        };
        if matches!(&answer, Ok(status) if status.runtime.ready) {
            last_good = Some(asked);
        }
        let contact = match last_good {
            None => RuntimeContact::Never,
            Some(good) if clock.mono().since(good) < GRACE => RuntimeContact::Recent,
            Some(_) => RuntimeContact::Long,
        };
        failures = failures.saturating_add(1);
        let (health, pause) = match answer {
            Ok(status) if status.runtime.ready => {
                failures = 0;
                let pause = if status.network.ready {
                    no_network_since = None;
                    PERIOD
                } else {
                    let since = *no_network_since.get_or_insert(asked);
                    if asked.since(since) < NETWORK_PATIENCE { NETWORK_PERIOD } else { PERIOD }
                };
                (RuntimeHealth { up: true, problem: None, status, answered: true, contact }, pause)
            }
            Ok(status) => {
                let problem = format!("the runtime reports that it is not ready: {}", status.runtime.message);
                let problem = Some(problem);
                let health = RuntimeHealth { up: false, problem, status, answered: true, contact };
                (health, RETRIES.after(failures))
            }
            Err(err) => {
                let (status, answered) = {
                    let before = out.borrow();
                    (before.status.clone(), before.answered)
                };
                let up = contact == RuntimeContact::Recent;
                let health = RuntimeHealth { up, problem: Some(err.to_string()), status, answered, contact };
                (health, RETRIES.after(failures))
            }
        };
        publish(&out, health);
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// A runtime that hangs is one that does not answer (upstream looks at the time of the last good answer).
async fn ask(runtime: &dyn RuntimeInfo) -> Result<RuntimeStatus, RpcError> {
    tokio::time::timeout(GRACE, runtime.status()).await.unwrap_or_else(|_| {
        let detail = format!("the runtime did not answer within {} s", GRACE.as_secs());
        Err(RpcError { operation: "status", kind: RpcErrorKind::Timeout, detail })
    })
}

/// Publishes and logs the health if it has changed.
fn publish(publisher: &watch::Sender<RuntimeHealth>, health: RuntimeHealth) {
    publisher.send_if_modified(|current| {
        if *current == health {
            return false;
        }
        match (&health.problem, current.up, health.up) {
            (_, false, true) => info!("The runtime is ready"),
            (Some(problem), true, false) => warn!(%problem, "The runtime is not ready: pods wait"),
            (Some(problem), _, _) if current.problem.as_ref() != Some(problem) => {
                warn!(%problem, "The runtime does not answer")
            }
            _ => {}
        }
        *current = health;
        true
    });
}
