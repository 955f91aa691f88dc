//! How a resize stands, as its conditions tell it (RSZ-06).

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

/// The condition of a resize that was not begun.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of one that was not finished.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";
/// There is no room now.
pub const DEFERRED: &str = "Deferred";
/// There never will be.
pub const INFEASIBLE: &str = "Infeasible";
/// The runtime or the kernel refused.
pub const ERROR: &str = "Error";

/// How a pod's resize stands. A new one may wait while an older one is still being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeState {
    /// What it asks for has not been given to it.
    pub pending: Option<ResizeCondition>,
    /// What was given to it is not in force everywhere.
    pub progress: Option<ResizeCondition>,
}

/// Why, and of which version of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error`, or empty.
    pub reason: String,
    /// In words.
    pub message: String,
    /// `metadata.generation` of the pod that asked for it.
    pub generation: i64,
}

impl ResizeState {
    /// As a status tells it: all that is left of it after a restart.
    #[doc(alias = "BackfillPodResizeConditions")]
    pub fn of(status: &PodStatus) -> Self {
        let find = |name: &str| {
            let conditions = status.conditions.as_deref().unwrap_or_default();
            conditions.iter().find(|c| c.type_ == name && c.status == "True").map(condition)
        };
        Self { pending: find(RESIZE_PENDING), progress: find(RESIZE_IN_PROGRESS) }
    }
}

fn condition(of: &PodCondition) -> ResizeCondition {
    ResizeCondition {
        reason: of.reason.clone().unwrap_or_default(),
        message: of.message.clone().unwrap_or_default(),
        generation: of.observed_generation.unwrap_or_default(),
    }
}
