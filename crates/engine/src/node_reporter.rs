//! Reports the node: registers its object and keeps it true (24.1, 24.2).
//!
//! A report is sent at once when something that it tells has changed: the runtime's or the generator's health, images,
//! addresses, or somebody else's hand in what is ours. With nothing to tell, one goes out now and then. Every attempt
//! starts from the object as it is, so that a lost or refused one needs no mending.

mod register;
mod sight;
mod task;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rubelet_core::node::{NodeSetup, Pressure};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::health::RuntimeHealth;
use crate::node::Ports;
use crate::node_lease::LeaseKeeper;
use crate::node_sight::{RuntimeSight, watch_addresses, watch_images};
use crate::pleg::PlegHealth;
use crate::ports::{LeaseApi, NodeAddresses, NodeApi};
use crate::task::TaskGroup;
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
    /// The addresses that the node has now.
    pub addresses: Arc<dyn NodeAddresses>,
    /// What the node is short of.
    pub pressure: watch::Receiver<Pressure>,
    /// The limits on all pods together are set: an event tells so (CG-22).
    pub allocatable_enforced: bool,
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

/// What the reporter looks at.
pub(crate) struct Sight {
    pub(crate) runtime: watch::Receiver<RuntimeHealth>,
    pub(crate) pleg: watch::Receiver<PlegHealth>,
    pub(crate) told: watch::Receiver<RuntimeSight>,
    pub(crate) ips: watch::Receiver<Vec<IpAddr>>,
    pub(crate) watched: watch::Receiver<Option<Arc<Node>>>,
    pub(crate) pressure: watch::Receiver<Pressure>,
}

/// Starts all that a node in a cluster does about itself; the node's object, as last known, can be read from what this
/// answers.
pub(crate) fn start(
    parts: NodeParts,
    ports: &Ports,
    clock: &Clock,
    ips: Vec<IpAddr>,
    health: (watch::Receiver<RuntimeHealth>, watch::Receiver<PlegHealth>),
    tasks: &mut TaskGroup,
) -> watch::Receiver<Option<Arc<Node>>> {
    let cancel = tasks.cancel_token();
    let (tell_runtime, told) = watch::channel(RuntimeSight::default());
    let images = watch_images(Arc::clone(&ports.runtime), Arc::clone(&ports.images), tell_runtime);
    tasks.start("node-images", until(cancel.clone(), images));
    let (tell_ips, ips) = watch::channel(ips);
    let every = parts.timing.update_every;
    tasks.start("node-addresses", until(cancel.clone(), watch_addresses(parts.addresses, every, tell_ips)));

    let (runtime, pleg) = health;
    let sight = Sight { runtime, pleg, told, ips, watched: parts.watched, pressure: parts.pressure };
    let name = parts.setup.name.clone();
    let reporter = NodeReporter::new(
        parts.setup,
        parts.timing,
        parts.registration,
        parts.api,
        sight,
        task::World {
            runtime: Arc::clone(&ports.runtime),
            events: Arc::clone(&ports.events),
            rng: Arc::clone(&ports.rng),
            clock: clock.clone(),
        },
    );
    let node = reporter.known();
    reporter.announce(parts.allocatable_enforced);
    tasks.start("node-reporter", reporter.run(cancel.clone()));
    let (seconds, rng) = (parts.timing.lease_seconds, Arc::clone(&ports.rng));
    let keeper = LeaseKeeper::new(name, seconds, parts.lease, node.clone(), clock.clone(), rng);
    tasks.start("node-lease", keeper.run(cancel));
    node
}

/// Runs `work` until cancelled. It only looks and tells: dropping it loses nothing.
async fn until(cancel: tokio_util::sync::CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = work => {}
    }
}
