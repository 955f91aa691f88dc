//! What the sync loop tells the workers of resizes.

use std::sync::Arc;

use jiff::Timestamp;
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::Event;
use rubelet_core::resize::{PodAllocation, RESIZE_PENDING, ResizeCondition};

use super::PodWorkers;

impl PodWorkers {
    /// What it asks for has to wait, or no longer does. Answers whether that is news; the status then tells it.
    pub(crate) fn set_pending_resize(&mut self, uid: &PodUid, pending: Option<ResizeCondition>) -> bool {
        let Some(worker) = self.workers.get_mut(uid) else { return false };
        if worker.resize_pending == pending {
            return false;
        }
        worker.resize_pending = pending;
        self.write_status(uid);
        self.event(uid, Event::Hint);
        true
    }

    /// It has been given what it asks for; what an earlier resize complained of is over.
    pub(crate) fn resize_given(&mut self, uid: &PodUid, generation: i64) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.resize_pending = None;
        worker.resize_allocated = Some(generation);
    }

    /// Since when it has been told to wait.
    pub(crate) fn resize_pending_since(&self, uid: &PodUid) -> Option<Timestamp> {
        let conditions = self.workers.get(uid)?.status.conditions.as_deref()?;
        let pending = conditions.iter().find(|c| c.type_ == RESIZE_PENDING)?;
        pending.last_transition_time.as_ref().map(|time| time.0)
    }

    /// What a process before this one told the runtime of this pod, whose life here is about to begin.
    pub(crate) fn remember_told(&mut self, uid: &PodUid, told: Arc<PodAllocation>) {
        self.told_before.insert(uid.clone(), told);
    }

    /// The actuated resources of this pod, if they are others than those that were written down.
    pub(crate) fn unrecorded(&self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        let worker = self.workers.get(uid)?;
        let is_recorded = |actuated: &Arc<PodAllocation>| {
            worker.recorded.as_ref().is_some_and(|recorded| Arc::ptr_eq(recorded, actuated) || recorded == actuated)
        };
        worker.memory.actuated.clone().filter(|actuated| !is_recorded(actuated))
    }

    /// The actuated resources of this pod have been written down. Others hold the same object: one serves all.
    pub(crate) fn recorded(&mut self, uid: &PodUid, actuated: Arc<PodAllocation>) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.recorded = Some(actuated);
        }
    }
}
