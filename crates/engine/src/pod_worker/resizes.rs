//! The state of a pod's resize: the sync loop's decision, and the actuated resources.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::Event;
use rubelet_core::resize::{PodAllocation, RESIZE_PENDING, ResizeCondition};

use super::PodWorkers;
use crate::allocations::PodResources;

impl PodWorkers {
    /// Sets or clears the pending resize of a pod, and writes the status. Returns whether the pending resize changed.
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

    /// Sets the actuated resources that were recorded before a restart. Without them, the first job of a pod would assume
    /// that its containers run with the allocated resources.
    pub(crate) fn set_actuated_before(&mut self, actuated: PodResources) {
        self.actuated_before = actuated;
    }

    /// Pods with actuated resources from before a restart that no source has delivered since.
    pub(crate) fn actuated_before(&self) -> impl Iterator<Item = &PodUid> {
        self.actuated_before.keys()
    }

    /// Drops the actuated resources from before a restart of a pod that is gone or has ended.
    pub(crate) fn forget_actuated_before(&mut self, uid: &PodUid) {
        self.actuated_before.remove(uid);
    }

    /// The pod, unless it is terminating or over.
    pub(crate) fn active_pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        let worker = self.workers.get(uid).filter(|worker| !worker.life.stage().is_past_syncing());
        worker.and_then(|worker| worker.life.subject().pod())
    }

    /// The actuated resources of this pod, if they differ from those that are recorded on disk.
    pub(crate) fn unrecorded(&self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        let worker = self.workers.get(uid)?;
        let is_recorded = |actuated: &Arc<PodAllocation>| {
            worker.recorded.as_ref().is_some_and(|recorded| Arc::ptr_eq(recorded, actuated) || recorded == actuated)
        };
        worker.memory.actuated.clone().filter(|actuated| !is_recorded(actuated))
    }

    /// The actuated resources of this pod have been recorded on disk. `actuated` is shared with the record.
    pub(crate) fn recorded(&mut self, uid: &PodUid, actuated: Arc<PodAllocation>) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.recorded = Some(actuated);
        }
    }
}
