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
        if worker.memory.resize.pending == pending {
            return false;
        }
        worker.memory.resize.pending = pending;
        self.event(uid, Event::Hint);
        true
    }

    /// The resize of this generation is allocated. The next job begins to actuate it.
    pub(crate) fn resize_allocated(&mut self, uid: &PodUid, generation: i64) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.memory.resize.allocate(generation);
    }

    /// Since when it has been told to wait.
    pub(crate) fn resize_pending_since(&self, uid: &PodUid) -> Option<Timestamp> {
        let conditions = self.workers.get(uid)?.memory.status.conditions.as_deref()?;
        let pending = conditions.iter().find(|c| c.type_ == RESIZE_PENDING)?;
        pending.last_transition_time.as_ref().map(|time| time.0)
    }

    /// What a process before this one told the runtime of this pod, whose life here is about to begin.
    pub(crate) fn remember_told(&mut self, uid: &PodUid, told: Arc<PodAllocation>) {
        self.actuated_before.insert(uid.clone(), told);
    }

    /// What the runtime has been told of this pod.
    pub(crate) fn told(&self, uid: &PodUid) -> Option<&Arc<PodAllocation>> {
        self.workers.get(uid)?.memory.actuated.as_ref()
    }

    /// The same, held by others too: one object serves all.
    pub(crate) fn share_told(&mut self, uid: &PodUid, told: Arc<PodAllocation>) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.memory.actuated = Some(told);
        }
    }
}
