//! Who has been given what, and who waits for more (section 16).
//!
//! Every pod that the workers see has the resources that it was given, not those that it asks for; the two differ while a
//! resize waits. The decisions are `core::resize`'s and admission's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_core::admit::admit;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::launch::may_swap;
use rubelet_core::lifecycle::Arrival;
use rubelet_core::pod::PodExt;
use rubelet_core::resize::{
    DEFERRED, INFEASIBLE, Pending, PodAllocation, ResizeCondition, by_turn, feasible, pending, requested, started,
    with_allocation,
};
use rubelet_core::time::Instant;
use tokio::sync::watch;
use tracing::info;

use super::SyncLoop;
use super::records::{Changes, Known, Record, RecordKeeper, read};
use crate::metrics::Trigger;
use crate::ports::{Checkpoints, EventKind};

/// How long a resize that nothing made possible waits before it is looked at again (RSZ-04).
const RETRY: Duration = Duration::from_secs(3 * 60);
/// What was given to whom, and who asks for something else.
pub(super) struct Resizes {
    given: BTreeMap<PodUid, Arc<PodAllocation>>,
    /// What the runtime was told before we were started, of pods that have not come yet.
    told_before: BTreeMap<PodUid, Arc<PodAllocation>>,
    /// As they ask.
    waiting: BTreeMap<PodUid, Arc<Pod>>,
    /// Versions of pods that ask for something else, as they were given, that their workers have not seen yet.
    held: BTreeMap<PodUid, Arc<Pod>>,
    retry_at: Option<Instant>,
    changes: watch::Sender<Changes>,
}

impl Default for Resizes {
    fn default() -> Self {
        Self {
            given: Known::new(),
            told_before: Known::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            retry_at: None,
            changes: watch::Sender::new(Changes::new()),
        }
    }
}

impl Resizes {
    /// What the files say, and the task that keeps them true. A file that cannot be used is as good as none: what runs
    /// is looked at, and what it was given is what its spec says (upstream does not start then, CKP-05).
    pub(super) async fn load(checkpoints: Arc<dyn Checkpoints>) -> (Self, RecordKeeper) {
        let given = read(&*checkpoints, Record::Given).await;
        let mut told = read(&*checkpoints, Record::Told).await;
        for (uid, what) in &mut told {
            // Mostly they are the same: one object serves both.
            if let Some(given) = given.get(uid).filter(|given| *given == what) {
                *what = Arc::clone(given);
            }
        }
        let changes = watch::Sender::new(Changes::new());
        let known = BTreeMap::from([(Record::Given, given.clone()), (Record::Told, told.clone())]);
        let keeper = RecordKeeper::new(checkpoints, known, changes.clone());
        (Self { given, told_before: told, changes, ..Self::default() }, keeper)
    }

    fn give(&mut self, uid: &PodUid, allocation: PodAllocation) {
        if self.given.get(uid).is_some_and(|before| **before == allocation) {
            return;
        }
        let allocation = Arc::new(allocation);
        self.given.insert(uid.clone(), Arc::clone(&allocation));
        self.record(Record::Given, uid, Some(allocation));
    }

    fn record(&self, which: Record, uid: &PodUid, what: Option<Arc<PodAllocation>>) {
        self.changes.send_modify(|changes| {
            changes.insert((which, uid.clone()), what);
        });
    }

    /// The pod as it was given.
    pub(super) fn given(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let allocation = self.given.get(&PodRef::of(pod).uid);
        allocation.and_then(|allocation| with_allocation(pod, allocation)).unwrap_or_else(|| Arc::clone(pod))
    }

    /// The pod was admitted, by this process or by one before it.
    pub(super) fn is_admitted(&self, uid: &PodUid) -> bool {
        self.given.contains_key(uid)
    }

    /// What the runtime was told of this pod by a process before this one; asked for once.
    pub(super) fn told_before(&mut self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        self.told_before.remove(uid)
    }

    /// What the runtime has been told. Mostly that is what was given: the answer is the one object that all may hold.
    pub(super) fn told(&self, uid: &PodUid, told: &Arc<PodAllocation>) -> Arc<PodAllocation> {
        let told = Arc::clone(self.given.get(uid).filter(|given| *given == told).unwrap_or(told));
        self.record(Record::Told, uid, Some(Arc::clone(&told)));
        told
    }

    /// The pod is gone.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
        if self.given.remove(uid).is_some() {
            self.record(Record::Given, uid, None);
            self.record(Record::Told, uid, None);
        }
    }

    /// Every source has been read: what no pod has is forgotten (RSZ-02).
    #[doc(alias = "RemoveOrphanedPods")]
    pub(super) fn retain(&mut self, wanted: impl Fn(&PodUid) -> bool) {
        let gone: Vec<PodUid> = self.given.keys().filter(|uid| !wanted(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.forget(uid));
        self.told_before.retain(|uid, _| wanted(uid));
    }

    /// Keeps back a version of a pod until what it asks for has been decided; answers whether it asks for anything.
    pub(super) fn hold(&mut self, uid: &PodUid, given: &Arc<Pod>) -> bool {
        let asks = self.waiting.contains_key(uid);
        if asks {
            self.held.insert(uid.clone(), Arc::clone(given));
        }
        asks
    }

    /// When to look again at those that wait.
    pub(super) fn due(&self) -> Option<Instant> {
        self.retry_at.filter(|_| !self.waiting.is_empty())
    }

    pub(super) fn nobody_waits(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// One that waits.
struct Turn {
    uid: PodUid,
    desired: Arc<Pod>,
    given: Arc<Pod>,
    since: Option<Timestamp>,
}

impl Turn {
    fn pending(&self) -> Pending<'_> {
        Pending { desired: &self.desired, allocated: &self.given, deferred_since: self.since }
    }
}

impl SyncLoop {
    /// A pod was let in with what it asks for, or with what it had before: that is what it has now.
    pub(super) fn allocated(&mut self, desired: &Arc<Pod>, given: &Arc<Pod>) {
        let uid = PodRef::of(given).uid;
        self.resizes.give(&uid, PodAllocation::of(given));
        if Arc::ptr_eq(desired, given) {
            self.resizes.waiting.remove(&uid);
        } else {
            self.resizes.waiting.insert(uid, Arc::clone(desired));
        }
    }

    /// A newer version of a pod that is here: the workers see it with what it was given; what it asks for beyond that is
    /// decided at once (RSZ-03).
    pub(super) fn resized(&mut self, pod: &Arc<Pod>) -> Arc<Pod> {
        let uid = PodRef::of(pod).uid;
        let given = self.resizes.given(pod);
        let asked = self.resizes.waiting.get(&uid).unwrap_or(&given);
        for change in requested(asked, pod) {
            self.node.metrics.resize_requested(change);
        }
        if Arc::ptr_eq(&given, pod) || pod.is_deleted() || pod.is_terminal() {
            // Also of a resize that waits no longer because it can never be: taken back, it is no pending resize.
            self.resizes.waiting.remove(&uid);
            self.workers.set_pending_resize(&uid, None);
        } else {
            self.resizes.waiting.insert(uid, Arc::clone(pod));
        }
        given
    }

    /// Looks at all that wait, in their turn: something that may have made room has happened, or enough time has passed.
    #[doc(alias = "RetryPendingResizes")]
    pub(super) fn retry_resizes(&mut self, trigger: Trigger) {
        if self.resizes.nobody_waits() || !self.desired.all_sources_seen() {
            return;
        }
        self.resizes.retry_at = Some(self.node.clock.mono() + RETRY);
        let turn = |(uid, desired): (&PodUid, &Arc<Pod>)| Turn {
            uid: uid.clone(),
            desired: Arc::clone(desired),
            given: self.resizes.given(desired),
            since: self.workers.resize_pending_since(uid),
        };
        let mut queue: Vec<Turn> = self.resizes.waiting.iter().map(turn).collect();
        queue.sort_by(|a, b| by_turn(&a.pending(), &b.pending()));
        for turn in queue {
            self.try_resize(&turn, trigger);
        }
    }

    /// Decides what pods ask for that have just come in another version, and shows those to their workers that have to
    /// go on with what they have.
    pub(super) fn decide_resizes(&mut self, trigger: Trigger) {
        self.retry_resizes(trigger);
        for given in std::mem::take(&mut self.resizes.held).into_values() {
            self.workers.desired(given, Arrival::Updated);
        }
    }

    #[doc(alias = "handlePodResourcesResize")]
    fn try_resize(&mut self, turn: &Turn, trigger: Trigger) {
        let Turn { uid, desired, given, since } = turn;
        let generation = desired.metadata.generation.unwrap_or_default();
        let launch = &self.node.settings.launch;
        let swaps = |pod: &Pod, container: &Container| may_swap(launch, pod, container);
        let refused = match feasible(desired, given, swaps) {
            Err(infeasible) => Some((INFEASIBLE, "ResizeInfeasible", infeasible.message)),
            Ok(()) => {
                let node = self.node.now();
                let beside = self.counted(uid);
                let fits = admit(&self.node.admit_view(&node), desired, &beside);
                fits.err().map(|rejection| (DEFERRED, "ResizeDeferred", rejection.message))
            }
        };
        let Some((reason, event, message)) = refused else {
            info!(pod = %PodRef::of(desired), generation, "A resize was given");
            self.resizes.waiting.remove(uid);
            self.resizes.held.remove(uid);
            self.resizes.give(uid, PodAllocation::of(desired));
            if since.is_some() {
                self.node.metrics.deferred_accepted(trigger);
            }
            self.workers.resize_allocated(uid, generation);
            self.record(desired, EventKind::Normal, "ResizeStarted", started(desired, generation));
            self.workers.desired(Arc::clone(desired), Arrival::Updated);
            self.housekeeping.pods_changed(&self.node, &self.workers);
            return;
        };
        if reason == INFEASIBLE {
            self.node.metrics.resize_infeasible();
            self.resizes.waiting.remove(uid);
        }
        let condition = ResizeCondition { reason: reason.to_owned(), message: message.clone(), generation };
        if self.workers.set_pending_resize(uid, Some(condition)) {
            self.record(desired, EventKind::Warning, event, pending(desired, generation, reason, &message));
        }
    }
}
