//! Where pod statuses go.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::PodUid;
pub use rubelet_core::status::EndProgress;

/// Takes the newest status of a pod. Never waits; a later report of the same pod replaces an earlier one.
#[doc(alias = "statusManager")]
pub trait StatusSink: Send + Sync {
    /// Takes one.
    fn report(&self, report: StatusReport);
    /// The pod is known no more: no source has it, and nothing of it is left.
    #[doc(alias = "RemoveOrphanedStatuses")]
    fn forget(&self, _uid: &PodUid) {}
}

/// A pod's status as this node sees it now.
#[derive(Clone, Debug)]
pub struct StatusReport {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its status.
    pub status: Arc<PodStatus>,
    /// How far its end has come: decides when a terminal phase may be shown and the object deleted (TRAP-01).
    pub progress: EndProgress,
}

impl StatusReport {
    /// Telling it again would tell nothing new.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod)
            && self.progress == other.progress
            && (Arc::ptr_eq(&self.status, &other.status) || self.status == other.status)
    }
}
