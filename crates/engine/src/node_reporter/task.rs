//! The task that reports.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rubelet_core::backoff::Doubling;
use rubelet_core::node::{NodeNews, NodeSetup, ReportPace, node_change, node_patch, updated_node};
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::{NodeTiming, Registration, ReportInputs};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::ports::{ApiError, ApiErrorKind, EventKind, Events, NodeApi, NodeEvent, Rng, RuntimeInfo};

/// How often a report is tried in one go. upstream: kubelet.go nodeStatusUpdateRetry (v1.36)
const ATTEMPTS: u32 = 5;
/// Pauses before an attempt that did not fail on a conflict is repeated. Upstream has none.
const RETRIES: Doubling = Doubling::new(Duration::from_millis(100), Duration::MAX);
/// By how much looks are spread. upstream: kubelet.go Run (v1.36)
const JITTER: f64 = 0.04;

/// What the reporter works with besides the API.
pub(crate) struct World {
    pub(crate) runtime: Arc<dyn RuntimeInfo>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
}

/// The task. It alone writes the node's object.
pub struct NodeReporter {
    pub(super) setup: NodeSetup,
    pub(super) registration: Registration,
    pub(super) api: Arc<dyn NodeApi>,
    pub(super) inputs: ReportInputs,
    pub(super) world: World,
    timing: NodeTiming,
    pace: ReportPace,
    /// Publishes the node's object as last known.
    pub(super) known: watch::Sender<Option<Arc<Node>>>,
    last_sent: Option<Instant>,
    memory: Memory,
}

/// What was reported last, so that each change is reported once.
#[derive(Default)]
struct Memory {
    /// `spec.unschedulable` of the last report.
    unschedulable: bool,
    /// The pod CIDRs that the runtime has.
    pod_cidrs: String,
    /// The part of the last report that the API server dropped, as an older one does with fields that it does not know.
    /// It is sent again with the next periodic report, not before.
    not_taken: Option<String>,
    /// The watch has delivered the object.
    watching: bool,
    /// The last failure.
    problem: Option<ApiErrorKind>,
}

impl NodeReporter {
    pub(crate) fn new(
        setup: NodeSetup,
        timing: NodeTiming,
        registration: Registration,
        api: Arc<dyn NodeApi>,
        inputs: ReportInputs,
        world: World,
    ) -> Self {
        let pace = ReportPace::new(timing.report_every);
        let (known, memory) = (watch::Sender::new(None), Memory::default());
        Self { setup, registration, api, inputs, world, timing, pace, known, last_sent: None, memory }
    }

    /// The object as last known; `None` before it is registered, and once it is gone.
    pub(crate) fn known(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.known.subscribe()
    }

    /// Emits the event of a start (NODE-21).
    #[doc(alias = "BirthCry")]
    pub(crate) fn announce(&self) {
        self.record("Starting", "Starting kubelet.".to_owned());
    }

    fn record(&self, reason: &'static str, message: String) {
        self.world.events.record_node(NodeEvent { kind: EventKind::Normal, reason: reason.into(), message });
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            // A report cut off in the middle was made or was not; the next start begins with the object as it is.
            () = self.report() => {}
        }
    }

    async fn report(&mut self) {
        self.inputs.first_look().await;
        if self.registration != Registration::ByOthers {
            self.register().await;
        }
        loop {
            self.update().await;
            let pause = self.timing.update_every.mul_f64(1.0 + JITTER * self.world.rng.fraction());
            let tick = self.world.clock.mono() + pause;
            self.inputs.wait(&self.world.clock, tick, self.last_sent).await;
        }
    }

    /// Brings the object up to date, if something has changed or a report is due (NODE-10).
    /// upstream: kubelet_node_status.go updateNodeStatus, tryUpdateNodeStatus (v1.36)
    #[doc(alias = "syncNodeStatus")]
    async fn update(&mut self) {
        for attempt in 0..ATTEMPTS {
            match self.try_update(attempt).await {
                Ok(()) => {
                    if self.memory.problem.take().is_some() {
                        info!("The node is reported again");
                    }
                    return;
                }
                Err(err) => {
                    self.log_failure(&err);
                    match err.kind {
                        ApiErrorKind::Conflict => {}
                        ApiErrorKind::NotFound if attempt > 0 => return,
                        ApiErrorKind::NotFound => {}
                        ApiErrorKind::Busy { retry_after: Some(asked) } => {
                            tokio::time::sleep(asked.min(self.timing.update_every)).await;
                        }
                        _ => tokio::time::sleep(RETRIES.after(attempt + 1)).await,
                    }
                }
            }
        }
    }

    async fn try_update(&mut self, attempt: u32) -> Result<(), ApiError> {
        let old = self.current(attempt).await?;
        let cidr_changed = self.pass_on_cidr(&old).await;
        let wanted = self.inputs.with(&self.setup, &self.world.clock, |now| updated_node(now, &old));
        let now = self.world.clock.mono();
        let change = node_change(&old, &wanted.node);
        let changed = (change.is_some() && change != self.memory.not_taken) || cidr_changed;
        self.emit_schedulable(&old);
        if !changed && !self.pace.is_due(now) {
            self.remember(old);
            return Ok(());
        }
        let node = match node_patch(&old, &wanted.node) {
            Some(patch) => Arc::new(self.api.patch_status(&self.setup.name, &patch).await?),
            None => old,
        };
        self.memory.not_taken = node_change(&node, &wanted.node);
        self.pace.sent(changed, self.world.rng.fraction(), now);
        self.last_sent = Some(now);
        debug!(changed, "Reported the node");
        if is_ready(&node) {
            self.world.metrics.startup.ready(now);
        }
        self.emit(wanted.news);
        self.remember(node);
        Ok(())
    }

    /// The object to start from: what the watch or our last report gave, whichever is newer; after a failure the API
    /// server's own.
    async fn current(&mut self, attempt: u32) -> Result<Arc<Node>, ApiError> {
        if attempt == 0 {
            let watched = self.inputs.watched.borrow_and_update().clone();
            // One that the watch has seen and sees no more was deleted.
            let deleted = watched.is_none() && self.memory.watching;
            self.memory.watching |= watched.is_some();
            let known = self.known.borrow().clone().filter(|_| !deleted);
            if let Some(node) = newer(watched, known) {
                return Ok(node);
            }
        }
        let node = self.api.get(&self.setup.name, attempt > 0).await;
        if node.as_ref().is_err_and(ApiError::is_not_found) {
            self.known.send_if_modified(|known| known.take().is_some());
        }
        node.map(Arc::new)
    }

    pub(super) fn remember(&self, node: Arc<Node>) {
        self.known.send_if_modified(|known| {
            let same = |a: &Node, b: &Node| a.metadata.resource_version == b.metadata.resource_version;
            if known.as_ref().is_some_and(|known| same(known, &node)) {
                return false;
            }
            *known = Some(node);
            true
        });
    }

    pub(super) fn emit(&self, news: Vec<NodeNews>) {
        for NodeNews { reason, warning, message } in news {
            let kind = if warning { EventKind::Warning } else { EventKind::Normal };
            info!(reason, "{message}");
            self.world.events.record_node(NodeEvent { kind, reason: reason.into(), message });
        }
    }

    /// upstream: kubelet_node_status.go recordNodeSchedulableEvent (v1.36)
    fn emit_schedulable(&mut self, node: &Node) {
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        if self.memory.unschedulable == unschedulable {
            return;
        }
        self.memory.unschedulable = unschedulable;
        let reason = if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
        self.record(reason, format!("Node {} status is now: {reason}", self.setup.name));
    }

    /// Sends the node's pod CIDRs to the runtime if they have changed (NODE-16). Returns whether they have.
    #[doc(alias = "updatePodCIDR")]
    async fn pass_on_cidr(&mut self, node: &Node) -> bool {
        let cidrs = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default().join(",");
        if cidrs.is_empty() || cidrs == self.memory.pod_cidrs {
            return false;
        }
        match self.world.runtime.set_pod_cidr(&cidrs).await {
            Ok(()) => {
                info!(cidrs, "The runtime has the pod CIDRs of the node");
                self.memory.pod_cidrs = cidrs;
            }
            Err(err) => warn!(%err, cidrs, "Could not send the pod CIDRs of the node to the runtime"),
        }
        true
    }

    /// Logs a failed report, once for each kind of failure, with what to do about it.
    pub(super) fn log_failure(&mut self, err: &ApiError) {
        if self.memory.problem == Some(err.kind) {
            debug!(%err, "Could not report the node");
            return;
        }
        self.memory.problem = Some(err.kind);
        let node = &self.setup.name;
        match err.kind {
            ApiErrorKind::NotFound => warn!(
                node,
                "The node has no object in the API: it was deleted, or nobody has made it. Start again to register it"
            ),
            ApiErrorKind::Forbidden => error!(
                node, %err,
                "The API server refuses the report of the node: are these credentials those of system:node:{node} in \
                 group system:nodes, and its labels such as a node may set?"
            ),
            ApiErrorKind::Unauthorized => {
                error!(node, %err, "The API server does not know us: is the certificate or token still good?");
            }
            ApiErrorKind::Conflict => debug!(node, %err, "The node changed meanwhile"),
            ApiErrorKind::Invalid => error!(node, %err, "The API server does not accept the node's object"),
            _ => warn!(node, %err, "Could not report the node; trying again"),
        }
    }
}

/// The object with the greater resource version. If a version is no number, the watch's object counts.
fn newer(watched: Option<Arc<Node>>, known: Option<Arc<Node>>) -> Option<Arc<Node>> {
    let version = |node: &Node| node.metadata.resource_version.as_ref().and_then(|text| text.parse::<u64>().ok());
    match (watched, known) {
        (Some(watched), Some(known)) if version(&known) > version(&watched) => Some(known),
        (Some(watched), _) => Some(watched),
        (None, known) => known,
    }
}

pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_with_the_greater_resource_version_counts() {
        let node = |name: &str, version: &str| {
            let mut node = Node::default();
            node.metadata.name = Some(name.to_owned());
            node.metadata.resource_version = Some(version.to_owned());
            Arc::new(node)
        };
        for (watched, known, expected) in [
            (Some("9"), Some("10"), "known"),
            (Some("10"), Some("9"), "watched"),
            (Some("9"), Some("9"), "watched"),
            (Some("x"), Some("y"), "watched"),
            (Some("9"), None, "watched"),
            (None, Some("9"), "known"),
        ] {
            let newest =
                newer(watched.map(|version| node("watched", version)), known.map(|version| node("known", version)));
            assert_eq!(
                newest.and_then(|node| node.metadata.name.clone()).as_deref(),
                Some(expected),
                "{watched:?} {known:?}"
            );
        }
    }
}
