//! What the reporter looks at, and when there may be something new in it.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::launch::HandlerFeatures;
use rubelet_core::node::{NetworkState, NodeHealth, NodeSetup, NodeView, PlegState, condition_text};
use rubelet_core::time::Instant;
use tokio::sync::watch;

use super::Sight;
use crate::clock::Clock;
use crate::health::RuntimeHealth;
use crate::pleg::PlegHealth;
use crate::ports::{ReadyCondition, RuntimeHandler};

/// How long the first report waits for the runtime, the generator and the images to have been looked at once: they
/// mostly are within milliseconds, and a node that is ready at once need not be reported as not ready first.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// A change by somebody else is answered this long after our last report at the earliest: two who do not agree about a
/// field must not write as fast as they can.
const ANSWER_PACE: Duration = Duration::from_secs(1);

impl Sight {
    /// Waits until all that a report tells has been looked at once, but not for long.
    pub(super) async fn first_look(&mut self) {
        let looked = async {
            // Whoever is gone will tell nothing more: there is nothing to wait for.
            drop(self.runtime.wait_for(|health| health.answered).await);
            drop(self.pleg.wait_for(|pleg| pleg.last_list.is_some()).await);
            drop(self.told.wait_for(|told| told.images.is_some()).await);
        };
        drop(tokio::time::timeout(FIRST_LOOK, looked).await);
    }

    /// Waits until something that a report tells may have changed, at most until `tick`.
    pub(super) async fn wait(&mut self, clock: &Clock, tick: Instant, last_sent: Option<Instant>) {
        let was_well = pleg_state(&self.pleg.borrow_and_update(), clock.mono()).is_well();
        let answer_at = last_sent.map_or(clock.mono(), |sent| sent + ANSWER_PACE);
        let Self { runtime, pleg, told, ips, watched, pressure } = self;
        let by_others = async {
            changed(watched).await;
            clock.sleep_until(Some(answer_at)).await;
        };
        // The generator tells of every event; only its turn from well to sick or back is of interest.
        let turned = async {
            let gone = pleg.wait_for(|pleg| pleg_state(pleg, clock.mono()).is_well() != was_well).await.is_err();
            if gone {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = changed(runtime) => {}
            () = turned => {}
            () = changed(pressure) => {}
            () = changed(ips) => {}
            () = changed(told) => {}
            () = clock.sleep_until(Some(tick)) => {}
            // Dropped while it paces itself, it has seen the change; whoever comes next reads the newest anyway.
            () = by_others => {}
        }
    }

    /// The node as it is now, for as long as `look` lasts.
    pub(super) fn with_view<R>(
        &mut self,
        setup: &NodeSetup,
        clock: &Clock,
        look: impl FnOnce(&NodeView<'_>) -> R,
    ) -> R {
        let now = clock.now();
        let runtime = self.runtime.borrow_and_update().clone();
        let told = self.told.borrow_and_update().clone();
        let ips = self.ips.borrow_and_update().clone();
        let pressure = *self.pressure.borrow_and_update();
        let health = node_health(&runtime, pleg_state(&self.pleg.borrow(), now.mono));
        let handlers = runtime.answered.then(|| handlers(&runtime));
        let version = told.version.as_ref();
        look(&NodeView {
            setup,
            ips: &ips,
            runtime_name: version.map_or("remote", |version| version.name.as_str()),
            runtime_version: version.map(|version| version.version.as_str()),
            handlers: handlers.as_ref(),
            supplemental_groups_policy: runtime.answered.then_some(runtime.status.supplemental_groups_policy),
            images: told.images.as_deref().map(Vec::as_slice),
            health: &health,
            pressure,
            // Nothing is attached here yet; what an agent before us attached is not ours to give up.
            volumes_in_use: None,
            now: now.wall,
        })
    }
}

/// Waits for a change; for ever if there will be none.
async fn changed<T>(of: &mut watch::Receiver<T>) {
    if of.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn handlers(runtime: &RuntimeHealth) -> BTreeMap<String, HandlerFeatures> {
    let features = |handler: &RuntimeHandler| HandlerFeatures {
        recursive_read_only_mounts: handler.recursive_read_only_mounts,
        user_namespaces: handler.user_namespaces,
    };
    runtime.status.handlers.iter().map(|handler| (handler.name.clone(), features(handler))).collect()
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
