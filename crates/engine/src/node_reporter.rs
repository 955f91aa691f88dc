//! Reports the node: registers its object and keeps it true (24.1, 24.2).
//!
//! A report is sent at once when one of its inputs has changed: the health of the runtime or of the PLEG, images,
//! addresses, or a field of ours that someone else changed in the object. Without a change one is sent now and then.
//! Every attempt starts from the object as it is, so that a lost or refused one needs no repair.

mod inputs;
mod inventory;
mod register;
mod task;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rubelet_core::node::{NodeSetup, Pressure};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::node::Ports;
use crate::node_lease::{Heartbeat, LeaseKeeper};
use crate::node_now::NodeNow;
use crate::pleg::PlegHealth;
use crate::ports::{LeaseApi, NodeApi};
use crate::task::TaskGroup;
use inputs::ReportInputs;
use inventory::{Inventory, watch_inventory};
pub use task::NodeReporter;

/// What a node in a cluster needs besides the engine.
pub struct NodeParts {
    /// What configuration, flags and the machine say of it.
    pub setup: NodeSetup,
    /// When to report.
    pub timing: NodeTiming,
    /// Whether and how the object is made.
    pub registration: Registration,
    /// The object in the API.
    pub api: Arc<dyn NodeApi>,
    /// The lease, on a connection of its own.
    pub lease: Arc<dyn LeaseApi>,
    /// The object as it is watched; stays `None` where it is not.
    pub watched: watch::Receiver<Option<Arc<Node>>>,
}

/// When to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTiming {
    /// `nodeStatusUpdateFrequency`.
    pub update_every: Duration,
    /// `nodeStatusReportFrequency`.
    pub report_every: Duration,
    /// `nodeLeaseDurationSeconds`.
    pub lease_seconds: i32,
}

/// Whether and how the object is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// `registerNode: false`: somebody else makes it.
    ByOthers,
    /// We make it. One that we may not make may still be there.
    Ours,
    /// We make it, and being forbidden to is the end of it: gate `KubeletRegistrationGetOnExistsOnly`.
    OursOrNone,
}

/// What the reporter sees of the engine.
pub(crate) struct Seen {
    pub(crate) now: watch::Receiver<Arc<NodeNow>>,
    pub(crate) pleg: watch::Receiver<PlegHealth>,
    /// `None` until the node was looked at.
    pub(crate) pressure: watch::Receiver<Option<Pressure>>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Starts the tasks that keep the node's object and lease; answers with the object as last known, and the heartbeat.
pub(crate) fn start(
    parts: NodeParts,
    ports: &Ports,
    clock: &Clock,
    seen: Seen,
    tasks: &mut TaskGroup,
) -> (watch::Receiver<Option<Arc<Node>>>, watch::Receiver<Heartbeat>) {
    let Seen { now, pleg, pressure, metrics } = seen;
    let cancel = tasks.cancel_token();
    let (publish, inventory) = watch::channel(Inventory::default());
    let images = watch_inventory(Arc::clone(&ports.runtime) as _, Arc::clone(&ports.images), publish);
    let stop = cancel.clone();
    tasks.start("node-images", async move {
        let _cancelled = stop.run_until_cancelled(images).await;
    });

    let inputs = ReportInputs { now, pleg, inventory, watched: parts.watched, pressure };
    let name = parts.setup.name.clone();
    let reporter = NodeReporter::new(
        parts.setup,
        parts.timing,
        parts.registration,
        parts.api,
        inputs,
        task::World {
            runtime: Arc::clone(&ports.runtime) as _,
            events: Arc::clone(&ports.events),
            rng: Arc::clone(&ports.rng),
            clock: clock.clone(),
            metrics,
        },
    );
    let node = reporter.known();
    reporter.announce();
    tasks.start("node-reporter", reporter.run(cancel.clone()));
    let (seconds, rng) = (parts.timing.lease_seconds, Arc::clone(&ports.rng));
    let keeper = LeaseKeeper::new(name, seconds, parts.lease, node.clone(), clock.clone(), rng);
    let heartbeat = keeper.heartbeat();
    tasks.start("node-lease", keeper.run(cancel));
    (node, heartbeat)
}
