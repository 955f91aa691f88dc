//! Decides resizes (section 16): which are allocated, which are deferred, which are infeasible.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_core::admit::{Allocation, admit};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::launch::may_swap;
use rubelet_core::lifecycle::Arrival;
use rubelet_core::pod::PodExt;
use rubelet_core::resize::{
    DEFERRED, INFEASIBLE, PendingResize, ResizeCondition, by_turn, feasible, pending, requested, started,
};
use tracing::info;

use super::SyncLoop;
use crate::metrics::Trigger;
use crate::ports::EventKind;

/// How long a deferred resize waits before it is tried again, if no event made room before (RSZ-04).
const RETRY: Duration = Duration::from_secs(3 * 60);

/// A pending resize, in a list that is sorted by whose turn it is.
struct Turn {
    uid: PodUid,
    desired: Arc<Pod>,
    allocated: Arc<Pod>,
    deferred_since: Option<Timestamp>,
}

impl Turn {
    fn pending(&self) -> PendingResize<'_> {
        PendingResize { desired: &self.desired, allocated: &self.allocated, deferred_since: self.deferred_since }
    }
}

/// Why a resize is not allocated: the reason of the condition, the reason of the event, the message of both.
type Refusal = (&'static str, &'static str, String);

impl SyncLoop {
    /// Returns the updated pod with its allocated resources. If the update requests other resources, that is a pending
    /// resize, which is decided at the end of the delivery (RSZ-03).
    pub(super) fn request_resize(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let uid = PodRef::of(pod).uid;
        let allocated = self.allocations.apply(pod);
        let before = self.allocations.requested(&uid).unwrap_or(&allocated);
        for change in requested(before, pod) {
            self.node.metrics.resize_requested(change);
        }
        if Arc::ptr_eq(&allocated, pod) || pod.is_deleted() || pod.is_terminal() {
            self.allocations.drop_resize(&uid);
            // An infeasible resize is not tried again, but its condition stays until the spec no longer requests it.
            self.workers.set_pending_resize(&uid, None);
        } else {
            self.allocations.request_resize(pod);
        }
        allocated
    }

    /// Tries all pending resizes, by turn: resources may have been released, or enough time has passed.
    #[doc(alias = "RetryPendingResizes")]
    pub(super) fn retry_resizes(&mut self, trigger: Trigger) {
        let turn = |(uid, desired): (&PodUid, &Arc<Pod>)| Turn {
            uid: uid.clone(),
            desired: Arc::clone(desired),
            allocated: self.allocations.apply(desired),
            deferred_since: self.workers.resize_pending_since(uid),
        };
        let mut turns: Vec<Turn> = self.allocations.pending_resizes().map(turn).collect();
        if turns.is_empty() || !self.desired.all_sources_seen() {
            return;
        }
        self.allocations.retry_at = Some(self.node.clock.mono() + RETRY);
        turns.sort_by(|a, b| by_turn(&a.pending(), &b.pending()));
        for turn in turns {
            self.try_resize(&turn, trigger);
        }
    }

    /// Decides the resizes that a delivery requested. Updates of pods whose resize stays pending go to their workers now.
    pub(super) fn decide_resizes(&mut self, trigger: Trigger) {
        self.retry_resizes(trigger);
        for update in self.allocations.take_held() {
            self.workers.desired(update, Arrival::Updated);
        }
    }

    #[doc(alias = "handlePodResourcesResize")]
    fn try_resize(&mut self, turn: &Turn, trigger: Trigger) {
        let Turn { uid, desired, deferred_since, .. } = turn;
        let generation = desired.metadata.generation.unwrap_or_default();
        let (reason, event, message) = match self.admit_resize(turn) {
            Ok(allocation) => {
                info!(pod = %PodRef::of(desired), generation, "A resize was allocated");
                self.allocations.allocate(uid, &allocation);
                if deferred_since.is_some() {
                    self.node.metrics.deferred_accepted(trigger);
                }
                self.workers.resize_allocated(uid, generation);
                self.record(desired, EventKind::Normal, "ResizeStarted", started(desired, generation));
                self.workers.desired(Arc::clone(desired), Arrival::Updated);
                self.housekeeping.pods_changed(&self.node, &self.workers);
                return;
            }
            Err(refusal) => refusal,
        };
        if reason == INFEASIBLE {
            self.node.metrics.resize_infeasible();
            self.allocations.drop_resize(uid);
        }
        let condition = ResizeCondition { reason: reason.to_owned(), message: message.clone(), generation };
        if self.workers.set_pending_resize(uid, Some(condition)) {
            self.record(desired, EventKind::Warning, event, pending(desired, generation, reason, &message));
        }
    }

    fn admit_resize(&self, turn: &Turn) -> Result<Allocation, Refusal> {
        let launch = &self.node.settings.launch;
        let swaps = |pod: &Pod, container: &Container| may_swap(launch, pod, container);
        feasible(&turn.desired, &turn.allocated, swaps)
            .map_err(|infeasible| (INFEASIBLE, "ResizeInfeasible", infeasible.message))?;
        let node = self.node.now();
        let others = self.allocations_beside(&turn.uid);
        admit(&self.node.admit_view(&node), &turn.desired, &others)
            .map_err(|rejection| (DEFERRED, "ResizeDeferred", rejection.message))
    }
}
