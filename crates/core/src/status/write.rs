//! What to ask of the API server for one pod: to change its status, to remove it, or nothing (section 12).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::{is_terminal, merge, status_patch};
use crate::pod::PodExt;

/// The inputs of a pod's next status write.
#[derive(Clone, Copy, Debug)]
pub struct WriteInputs<'a> {
    /// The pod as the API has it: for a static pod its mirror.
    pub api: &'a Pod,
    /// The status that was decided.
    pub status: &'a PodStatus,
    /// How far its end has come.
    pub end: EndProgress,
    /// A patch that the API server took without any effect: it is not sent again.
    pub refused: Option<&'a str>,
    /// The wall clock.
    pub now: Timestamp,
}

/// How far a pod's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndProgress {
    /// Containers may run.
    MayRun,
    /// No container runs, nor will one.
    Stopped,
    /// Nothing of the pod is left but its logs: the object may go.
    Finished,
}

/// What to ask of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing: the API shows this status.
    Nothing,
    /// Change the status by this patch.
    Patch {
        /// JSON text.
        patch: String,
        /// Others wait for it: it turns ready or unready, or ends.
        urgent: bool,
    },
    /// Remove the object: its status is final and nothing is left of the pod (STAT-09).
    Delete,
}

/// The next request for this pod.
pub fn next_write(inputs: &WriteInputs<'_>) -> Write {
    let WriteInputs { api, status, end, refused, now } = *inputs;
    let new = merge(api, status, end == EndProgress::MayRun, now);
    let patch = status_patch(api, &new).filter(|patch| Some(patch.as_str()) != refused);
    match patch {
        Some(patch) => Write::Patch { patch, urgent: is_urgent(api, &new) },
        None if can_be_deleted(api, end) => Write::Delete,
        None => Write::Nothing,
    }
}

fn is_urgent(api: &Pod, new: &PodStatus) -> bool {
    let ready = |status: Option<&PodStatus>| {
        status.is_some_and(|s| s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    is_terminal(new) || api.is_deleted() || ready(api.status.as_ref()) != ready(Some(new))
}

/// TRAP-01, STAT-09. Mirrors are not ours to end: who deleted one will see it again.
fn can_be_deleted(api: &Pod, end: EndProgress) -> bool {
    // With no grace left and still there, it waits for its finalizers: to ask again changes nothing.
    let finalizers = api.metadata.finalizers.iter().flatten().next().is_some();
    let asked = finalizers && api.metadata.deletion_grace_period_seconds == Some(0);
    api.is_deleted() && !api.is_mirror() && api.is_terminal() && end == EndProgress::Finished && !asked
}

#[cfg(test)]
mod tests;
