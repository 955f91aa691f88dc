//! Pod statuses, as the node decides them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
pub use rubelet_core::status::EndProgress;

/// Sees every pod status that the node decides, in order. The program needs none; the simulation checks its laws with one.
pub trait StatusObserver: Send + Sync {
    /// Sees one. Must not wait.
    fn observe(&self, report: &StatusReport);
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
    /// Whether `self` and the other report would lead to the same status write.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod)
            && self.progress == other.progress
            && (Arc::ptr_eq(&self.status, &other.status) || self.status == other.status)
    }
}
