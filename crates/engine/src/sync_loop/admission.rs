//! Admission: which pods get an allocation, which are rejected, which are preempted (sections 3 and 15).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::admit::{Allocation, Rejection, admit, victims};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{Arrival, Ending, Stage};
use rubelet_core::pod::{PodExt, Source};
use rubelet_core::shutdown::NODE_SHUTDOWN;
use rubelet_core::status::{EndReason, rejected};
use rubelet_core::time::Instant;
use tracing::{info, warn};

use super::{Rejected, SyncLoop};
use crate::allocations::{PendingAdmission, Wait};
use crate::node_now::NodeNow;
use crate::pod_worker::Outcome;
use crate::ports::{EndProgress, EventKind, PodEvent, StatusReport};

/// The additions of one delivery. They share one view of the node and of the other allocations: collecting these anew for
/// each of a thousand pods would hold up the loop for a second.
#[derive(Default)]
pub(super) struct AdmissionBatch {
    others: Option<Vec<Allocation>>,
    node: Option<Arc<NodeNow>>,
}

/// How long the watch of the node may lag behind the watch of pods: the scheduler may have bound a pod to this node for a
/// label that the loop does not see yet. Upstream gets the node from the API server instead, and its loop waits for it.
const CATCH_UP: Duration = Duration::from_secs(1);

impl SyncLoop {
    #[doc(alias = "HandlePodAdditions")]
    pub(super) fn add(&mut self, desired: Arc<Pod>, batch: &mut AdmissionBatch) {
        let uid = PodRef::of(&desired).uid;
        // A pod that was admitted before a restart is admitted with its allocation (ADM-09).
        let pod = self.allocations.apply(&desired);
        self.rejected.remove(&uid);
        let is_new = !self.workers.knows(&uid);
        if !is_new {
            // The batch may contain the allocation of this very pod, which must not count against it.
            batch.others = None;
        }
        let allocation = if pod.is_terminal() || pod.is_deleted() {
            None
        } else {
            let node = batch.node.get_or_insert_with(|| self.node.now());
            let others = batch.others.get_or_insert_with(|| self.allocations_beside(&uid));
            let mut view = self.node.admit_view(node);
            // After a restart in the middle of a shutdown, pods that run are not new: they end like all others, and their
            // status says why.
            view.shutting_down &= !self.is_here(&uid);
            // Pressure refuses new pods, and ends none that runs: eviction chooses which one ends.
            if self.is_here(&uid) {
                view.pressure = rubelet_core::node::Pressure::default();
            }
            match admit(&view, &pod, others) {
                Ok(allocation) => Some(allocation),
                Err(rejection) => {
                    let victims = victims(&pod, others, &rejection.shortages).unwrap_or_default();
                    batch.others = None;
                    self.not_admitted(desired, rejection, victims);
                    return;
                }
            }
        };
        self.allocations.stop_waiting(&uid);
        if let Some(allocation) = &allocation {
            self.allocations.allocate(&uid, allocation);
            if !Arc::ptr_eq(&desired, &pod) {
                self.allocations.request_resize(&desired);
            }
        }
        self.workers.desired(pod, Arrival::Added);
        match (batch.others.as_mut(), allocation) {
            (Some(others), Some(allocation)) if is_new => others.push(allocation),
            // The resources of a pod that was known before may have changed: collect the allocations again for the next
            // pod.
            _ => batch.others = None,
        }
    }

    /// The pod gets no allocation now: others make room for it, or it waits, or it is rejected.
    fn not_admitted(&mut self, pod: Arc<Pod>, rejection: Rejection, victims: Vec<Arc<Pod>>) {
        if !victims.is_empty() {
            self.preempt(pod, victims, rejection.shortages.first().map_or("", |shortage| &shortage.resource));
        } else if self.may_lag(&pod, &rejection) {
            self.wait_for_node(pod);
        } else {
            self.reject(pod, rejection);
        }
    }

    /// Allocations in use, other than that of `uid`: also of terminating pods, until they have stopped. Pods that no
    /// source has do not count, as with upstream.
    ///
    /// Neither does a pod that is terminal in the API and has nothing running in the runtime's list: after a restart the
    /// pods that ended long ago come in one delivery with those bound meanwhile, and must not take their room (WORK-09).
    #[doc(alias = "filterOutInactivePods")]
    pub(super) fn allocations_beside(&self, uid: &PodUid) -> Vec<Allocation> {
        let using = self.workers.using_resources().filter(|(other, pod)| {
            *other != uid && self.is_wanted(other) && (!pod.is_terminal() || self.is_listed_as_running(other))
        });
        using.map(|(_, pod)| Allocation::of(Arc::clone(pod))).collect()
    }

    /// Releases the allocation of a pod that has ended. If the pod was recreated with the same UID, the new pod gets its
    /// own allocation here.
    pub(super) fn release(&mut self, uid: &PodUid) {
        self.allocations.release(uid);
        self.workers.forget_actuated_before(uid);
        let recreated = self.workers.active_pod(uid).cloned();
        if let Some(pod) = recreated {
            self.allocations.allocate(uid, &Allocation::of(pod));
        }
    }

    /// Releases the allocation of a pod that no source has, or that was rejected. If the pod has a worker or runs, its
    /// allocation is released when it has ended.
    fn release_unused(&mut self, uid: &PodUid) {
        self.allocations.stop_waiting(uid);
        if !self.may_use_resources(uid) {
            self.release(uid);
        }
    }

    /// Releases allocations from before a restart whose pods are gone; called when every source has been read (RSZ-02).
    #[doc(alias = "RemoveOrphanedPods")]
    pub(super) fn release_leftovers(&mut self) {
        let uids = self.allocations.uids().chain(self.workers.actuated_before());
        let gone: Vec<PodUid> = uids.filter(|uid| !self.may_use_resources(uid)).cloned().collect();
        gone.iter().for_each(|uid| self.release(uid));
    }

    fn may_use_resources(&self, uid: &PodUid) -> bool {
        self.is_wanted(uid) || self.workers.knows(uid) || self.is_listed_as_running(uid)
    }

    /// The pod runs here, or was admitted before.
    pub(super) fn is_here(&self, uid: &PodUid) -> bool {
        self.is_listed_as_running(uid) || self.allocations.has(uid)
    }

    /// The last list of the runtime shows a running sandbox or container of this pod.
    pub(super) fn is_listed_as_running(&self, uid: &PodUid) -> bool {
        self.listing.as_ref().and_then(|listing| listing.get(uid)).is_some_and(|pod| pod.is_running())
    }

    #[doc(alias = "HandlePodUpdates")]
    pub(super) fn update(&mut self, pod: Arc<Pod>) {
        let uid = PodRef::of(&pod).uid;
        if self.rejected.contains_key(&uid) {
            self.report_rejected(&uid, Some(pod));
        } else if self.allocations.pending_admission(&uid).is_some() {
            self.add(pod, &mut AdmissionBatch::default());
        } else {
            let allocated = self.request_resize(&pod);
            // The worker gets an update with a pending resize when the resize is decided: a status that observed the new
            // generation must show the resize.
            if !self.allocations.hold(&uid, &allocated) {
                self.workers.desired(allocated, Arrival::Updated);
            }
        }
    }

    /// The status in the API differs from the one that was written: it is written again (SRC-08).
    #[doc(alias = "HandlePodReconcile")]
    pub(super) fn reconcile(&mut self, pod: Arc<Pod>) {
        let uid = PodRef::of(&pod).uid;
        if self.rejected.contains_key(&uid) {
            self.report_rejected(&uid, Some(pod));
        } else if let Some(pending) = self.allocations.pending_admission(&uid) {
            pending.pod = pod;
        } else {
            let allocated = self.request_resize(&pod);
            self.workers.reconcile(allocated);
        }
    }

    #[doc(alias = "HandlePodRemoves")]
    pub(super) fn remove(&mut self, pod: &Pod) {
        let uid = PodRef::of(pod).uid;
        // Another source may have a pod with the same UID, which was shadowed so far.
        let heir = self.desired.get(&uid).filter(|heir| heir.source() != pod.source()).cloned();
        if heir.as_ref().is_some_and(|heir| heir.source() < pod.source()) {
            return;
        }
        if self.rejected.remove(&uid).is_some() && !self.workers.knows(&uid) {
            self.node.status.forget(&uid);
        }
        self.allocations.stop_waiting(&uid);
        // Before every source has been read, another source may have the pod (LOOP-07); housekeeping ends it if none has.
        if heir.is_none() && !self.desired.all_sources_seen() {
            return;
        }
        if let Outcome::Forgotten(_) = self.workers.removed(&uid) {
            self.housekeeping.soon(self.node.clock.mono());
        }
        self.release_unused(&uid);
        if let Some(heir) = heir {
            self.add(heir, &mut AdmissionBatch::default());
        }
    }

    /// Rejects a pod: its phase becomes `Failed`, with the reason in its status and in an event (LOOP-05).
    #[doc(alias = "rejectPod")]
    fn reject(&mut self, pod: Arc<Pod>, rejection: Rejection) {
        let message = format!("Pod was rejected: {}", rejection.message);
        warn!(pod = %PodRef::of(&pod), reason = %rejection.reason, "{message}");
        self.node.metrics.decisions().rejected(&rejection.reason);
        self.record(&pod, EventKind::Warning, rejection.reason.clone(), rejection.message);
        let status = Arc::new(rejected(&pod, &rejection.reason, &message, self.node.clock.wall()));
        let uid = PodRef::of(&pod).uid;
        self.rejected.insert(uid.clone(), Rejected { pod, status });
        // The pod may run already, if its spec was changed or the node was configured anew. Then it ends.
        self.workers.removed(&uid);
        self.release_unused(&uid);
        self.report_rejected(&uid, None);
        self.housekeeping.soon(self.node.clock.mono());
    }

    /// Adds static pods again that a shutdown of the machine ended or rejected, and that is off now.
    pub(super) fn resume_static_pods(&mut self) {
        let by_shutdown = |uid: &PodUid| match self.rejected.get(uid) {
            Some(rejected) => rejected.status.reason.as_deref() == Some(NODE_SHUTDOWN),
            None => self.workers.ended_by_shutdown(uid),
        };
        let pods = self.desired.pods().filter(|pod| pod.is_static() && by_shutdown(&PodRef::of(pod).uid));
        let pods: Vec<Arc<Pod>> = pods.cloned().collect();
        let mut batch = AdmissionBatch::default();
        for pod in pods {
            info!(pod = %PodRef::of(&pod), "The machine stays up: running the pod again");
            self.add(pod, &mut batch);
        }
    }

    /// Writes the status of a rejected pod. While one of its containers may run, the status is not final (TRAP-01).
    pub(super) fn report_rejected(&mut self, uid: &PodUid, newer: Option<Arc<Pod>>) {
        let runs = self.is_listed_as_running(uid);
        // The list may be older than the end of the pod, so its stage counts too.
        let known = self.workers.stage(uid).is_some_and(|stage| *stage != Stage::Finished);
        let Some(rejected) = self.rejected.get_mut(uid) else { return };
        if let Some(pod) = newer {
            rejected.pod = pod;
        }
        let progress = if known || runs { EndProgress::MayRun } else { EndProgress::Finished };
        let (pod, status) = (Arc::clone(&rejected.pod), Arc::clone(&rejected.status));
        self.node.status.report(StatusReport { pod, status, progress });
    }

    /// Ends the victims. Admission of the pod is tried again when they have stopped (ADM-31).
    #[doc(alias = "evictPodsToFreeRequests")]
    fn preempt(&mut self, pod: Arc<Pod>, victims: Vec<Arc<Pod>>, lacking: &str) {
        let mut waits_for = BTreeSet::new();
        for victim in victims {
            let name = PodRef::of(&victim);
            info!(pod = %name, critical = %PodRef::of(&pod), "Ending a pod to make room for a critical one");
            let EndReason { reason, message, .. } = EndReason::preempted();
            self.record(&victim, EventKind::Warning, reason, message.into_owned());
            self.node.metrics.decisions().preempted(lacking);
            self.workers.terminate(&name.uid, Ending::preempted(), None);
            waits_for.insert(name.uid);
        }
        self.allocations.wait(pod, Wait::Preemption(waits_for));
    }

    /// The pod was rejected for the labels of the node, which may be older than the pod, and it has not waited for newer
    /// ones yet (ADM-05).
    fn may_lag(&mut self, pod: &Pod, rejection: &Rejection) -> bool {
        let now = self.node.clock.mono();
        let waited = self.node_wait(&PodRef::of(pod).uid).is_some_and(|due| due <= now);
        rejection.reason == "NodeAffinity" && pod.source() == Some(Source::Api) && !waited
    }

    fn wait_for_node(&mut self, pod: Arc<Pod>) {
        let due = self.node_wait(&PodRef::of(&pod).uid).unwrap_or(self.node.clock.mono() + CATCH_UP);
        self.allocations.wait(pod, Wait::Node(due));
    }

    /// Until when the admission of this pod waits for the node, if it does.
    fn node_wait(&mut self, uid: &PodUid) -> Option<Instant> {
        self.allocations.pending_admission(uid).and_then(|pending| pending.wait.due())
    }

    /// When the next pending admission is decided, even if the node has not changed by then.
    pub(super) fn admissions_due(&self) -> Option<Instant> {
        self.allocations.pending_admissions().filter_map(|pending| pending.wait.due()).min()
    }

    /// Decides the pending admissions whose wait is over.
    pub(super) fn retry_admissions(&mut self) {
        let now = self.node.clock.mono();
        let stopped = |uid: &PodUid| {
            self.workers.stage(uid).is_none_or(|stage| matches!(stage, Stage::Terminated { .. } | Stage::Finished))
        };
        let is_over = |pending: &&PendingAdmission| match &pending.wait {
            Wait::Preemption(victims) => victims.iter().all(stopped),
            Wait::Node(due) => *due <= now,
        };
        let pods = self.allocations.pending_admissions().filter(is_over).map(|pending| Arc::clone(&pending.pod));
        let pods: Vec<Arc<Pod>> = pods.collect();
        if pods.is_empty() {
            return;
        }
        let mut batch = AdmissionBatch::default();
        for pod in pods {
            self.add(pod, &mut batch);
        }
        self.housekeeping.pods_changed(&self.node, &self.workers);
    }

    pub(super) fn record(
        &self,
        pod: &Arc<Pod>,
        kind: EventKind,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        let (pod, reason) = (Arc::clone(pod), reason.into());
        self.node.ports.events.record(PodEvent {
            pod,
            field_path: None,
            kind,
            reason,
            message,
            annotations: std::collections::BTreeMap::new(),
        });
    }
}
