//! What a report of the node is made from, and when it may have changed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rubelet_core::node::{NetworkState, NodeHealth, NodeObservation, NodeSetup, PlegState, Pressure, condition_text};
use rubelet_core::shutdown::NODE_SHUTTING_DOWN;
use rubelet_core::time::Instant;
use tokio::sync::watch;

use super::inventory::Inventory;
use crate::clock::Clock;
use crate::health::RuntimeHealth;
use crate::node_now::{NodeNow, changed};
use crate::pleg::PlegHealth;
use crate::ports::ReadyCondition;

/// How long the first report waits for the runtime, the generator and the images to have been looked at once: they
/// mostly are within milliseconds, and a node that is ready at once need not be reported as not ready first.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// A change by somebody else is answered this long after our last report at the earliest: two who do not agree about a
/// field must not write as fast as they can.
const ANSWER_PACE: Duration = Duration::from_secs(1);

/// What a report of the node is made from.
pub(crate) struct ReportInputs {
    pub(super) now: watch::Receiver<Arc<NodeNow>>,
    pub(super) pleg: watch::Receiver<PlegHealth>,
    pub(super) inventory: watch::Receiver<Inventory>,
    /// The node's object as the API server shows it.
    pub(super) watched: watch::Receiver<Option<Arc<Node>>>,
    pub(super) pressure: watch::Receiver<Option<Pressure>>,
}

impl ReportInputs {
    /// Waits until every input of a report has been read once, but not for long.
    pub(super) async fn first_look(&mut self) {
        let looked = async {
            // An input whose task has ended will not change any more: there is nothing to wait for.
            drop(self.now.wait_for(|now| now.runtime.answered).await);
            drop(self.pleg.wait_for(|pleg| pleg.last_list.is_some()).await);
            drop(self.inventory.wait_for(|inventory| inventory.images.is_some()).await);
        };
        drop(tokio::time::timeout(FIRST_LOOK, looked).await);
    }

    /// Waits until an input of a report changes, at most until `tick`.
    pub(super) async fn wait(&mut self, clock: &Clock, tick: Instant, last_sent: Option<Instant>) {
        let was_well = pleg_state(&self.pleg.borrow_and_update(), clock.mono()).is_well();
        let answer_at = last_sent.map_or(clock.mono(), |sent| sent + ANSWER_PACE);
        let before = Arc::clone(&self.now.borrow_and_update());
        let Self { now, pleg, inventory, watched, pressure } = self;
        // Labels and taints are no part of a report.
        let node = async {
            let other = |now: &Arc<NodeNow>| {
                now.runtime != before.runtime || now.ips != before.ips || now.shutting_down != before.shutting_down
            };
            if now.wait_for(other).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let by_others = async {
            changed(watched).await;
            clock.sleep_until(Some(answer_at)).await;
        };
        // The PLEG publishes every relist; only a change between healthy and unhealthy leads to a report.
        let turned = async {
            let gone = pleg.wait_for(|pleg| pleg_state(pleg, clock.mono()).is_well() != was_well).await.is_err();
            if gone {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = node => {}
            () = turned => {}
            () = changed(pressure) => {}
            () = changed(inventory) => {}
            () = clock.sleep_until(Some(tick)) => {}
            // If this arm is dropped during its pause, the change counts as seen: the next report reads the newest object.
            () = by_others => {}
        }
    }

    /// Makes something from the inputs as they are now.
    pub(super) fn with<R>(
        &mut self,
        setup: &NodeSetup,
        clock: &Clock,
        make: impl FnOnce(&NodeObservation<'_>) -> R,
    ) -> R {
        let time = clock.now();
        let now = Arc::clone(&self.now.borrow_and_update());
        let runtime = &now.runtime;
        let inventory = self.inventory.borrow_and_update().clone();
        let pressure = *self.pressure.borrow_and_update();
        let health = NodeHealth {
            shutdown: now.shutting_down.then(|| NODE_SHUTTING_DOWN.to_owned()),
            ..node_health(runtime, pleg_state(&self.pleg.borrow(), time.mono))
        };
        let version = inventory.version.as_ref();
        make(&NodeObservation {
            setup,
            ips: &now.ips,
            runtime_name: version.map_or("remote", |version| version.name.as_str()),
            runtime_version: version.map(|version| version.version.as_str()),
            handlers: runtime.answered.then_some(&runtime.status.handlers),
            supplemental_groups_policy: runtime.answered.then_some(runtime.status.supplemental_groups_policy),
            images: inventory.images.as_deref().map(Vec::as_slice),
            health: &health,
            pressure,
            // Nothing is attached here yet; what an agent before us attached is not ours to give up.
            volumes_in_use: None,
            now: time.wall,
        })
    }
}

fn pleg_state(pleg: &PlegHealth, now: Instant) -> PlegState {
    pleg.last_list.map_or(PlegState::Never, |began| PlegState::Listed(now.since(began)))
}

fn node_health(runtime: &RuntimeHealth, pleg: PlegState) -> NodeHealth {
    let text = |name: &str, condition: &ReadyCondition| {
        condition_text(name, condition.ready, &condition.reason, &condition.message)
    };
    let status = &runtime.status;
    NodeHealth {
        contact: runtime.contact,
        runtime: (runtime.answered && !status.runtime.ready).then(|| text("RuntimeReady", &status.runtime)),
        network: match (runtime.answered, status.network.ready) {
            (false, _) => NetworkState::Unknown,
            (true, true) => NetworkState::Ready,
            (true, false) => NetworkState::NotReady(text("NetworkReady", &status.network)),
        },
        pleg,
        storage: None,
        shutdown: None,
        warning: None,
    }
}
