//! What the sync loop and the workers exchange about resizes.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::Event;
use rubelet_core::resize::{PodAllocation, RESIZE_PENDING, ResizeCondition};

use super::PodWorkers;
use crate::allocations::PodResources;

impl PodWorkers {
    /// Sets or clears the pending resize of a pod. Returns whether that is a change; a job then writes it to the status.
    pub(crate) fn set_pending_resize(&mut self, uid: &PodUid, pending: Option<ResizeCondition>) -> bool {
        let Some(worker) = self.workers.get_mut(uid) else { return false };
        if worker.resize.pending == pending {
            return false;
        }
        worker.resize.pending = pending;
        self.write_status(uid);
        self.event(uid, Event::Hint);
        true
    }

    /// The resize of this generation is allocated. The next job begins to actuate it.
    pub(crate) fn resize_allocated(&mut self, uid: &PodUid, generation: i64) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.resize.allocate(generation);
    }

    /// Since when the status shows a pending resize.
    pub(crate) fn resize_pending_since(&self, uid: &PodUid) -> Option<Timestamp> {
        let conditions = self.workers.get(uid)?.status.conditions.as_deref()?;
        let pending = conditions.iter().find(|c| c.type_ == RESIZE_PENDING)?;
        pending.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Takes over the actuated resources of the process before this one. The first job of each pod needs its own: it
    /// would take what runs to have the allocated resources otherwise.
    pub(crate) fn set_actuated_before(&mut self, actuated: PodResources) {
        self.actuated_before = actuated;
    }

    /// Pods of the process before this one that have not come back.
    pub(crate) fn actuated_before(&self) -> impl Iterator<Item = &PodUid> {
        self.actuated_before.keys()
    }

    /// The pod does not come back, or its life was over.
    pub(crate) fn forget_actuated_before(&mut self, uid: &PodUid) {
        self.actuated_before.remove(uid);
    }

    /// The pod, unless it is terminating or over.
    pub(crate) fn active_pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        let worker = self.workers.get(uid).filter(|worker| !worker.life.stage().is_past_syncing());
        worker.and_then(|worker| worker.life.subject().pod())
    }

    /// The actuated resources of this pod, if they are others than those that were recorded on disk.
    pub(crate) fn unrecorded(&self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        let worker = self.workers.get(uid)?;
        let is_recorded = |actuated: &Arc<PodAllocation>| {
            worker.recorded.as_ref().is_some_and(|recorded| Arc::ptr_eq(recorded, actuated) || recorded == actuated)
        };
        worker.memory.actuated.clone().filter(|actuated| !is_recorded(actuated))
    }

    /// The actuated resources of this pod have been recorded on disk. Others hold the same object: one serves all.
    pub(crate) fn recorded(&mut self, uid: &PodUid, actuated: Arc<PodAllocation>) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.recorded = Some(actuated);
        }
    }
}
