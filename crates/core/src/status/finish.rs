//! The final status of a pod of which nothing is left (STAT-10).

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::instance::{LOST_WHEN_TERMINATED, STATUS_UNKNOWN};
use super::{Phase, containers};
use crate::pod::{PodExt, is_sidecar};

/// Makes `status` final: a container of which no end is known counts as failed, and the phase becomes terminal.
///
/// Containers that never had their turn because initialisation did not get that far stay as they are.
#[doc(alias = "TerminatePod")]
pub(super) fn finish(pod: &Pod, status: &mut PodStatus) {
    if has_initialised(pod, status) {
        status.container_statuses.iter_mut().flatten().for_each(end_unseen);
    }
    let init = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    // All but the last ones that show no sign of a start.
    let begun = init.iter().rposition(has_begun).map_or(init.len().min(1), |last| last + 1);
    init.iter_mut().take(begun).for_each(end_unseen);
    let phase = status.phase.as_deref().and_then(Phase::parse);
    if !pod.is_static() && !phase.is_some_and(Phase::is_terminal) {
        status.phase = Some(Phase::Failed.as_str().to_owned());
    }
}

fn end_unseen(status: &mut ContainerStatus) {
    if status.state.as_ref().is_none_or(|s| s.terminated.is_none()) {
        status.state = Some(containers::unseen_end(STATUS_UNKNOWN, LOST_WHEN_TERMINATED));
    }
}

fn has_begun(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|s| s.waiting.is_none())
        || status.last_state.as_ref().is_some_and(|s| s.terminated.is_some())
}

/// A regular container may have had its turn.
#[doc(alias = "hasPodInitialized")]
fn has_initialised(pod: &Pod, status: &PodStatus) -> bool {
    let Some(last) = pod.init().last() else { return true };
    if status.container_statuses.iter().flatten().any(has_begun) {
        return true;
    }
    let at = status.init_container_statuses.iter().flatten().find(|s| s.name == last.name);
    let ended_well = |s: &ContainerStatus| {
        let end = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state.as_ref().and_then(|s| s.terminated.as_ref()).is_some_and(|end| end.exit_code == 0)
        };
        end(&s.state) || end(&s.last_state)
    };
    at.is_some_and(|s| if is_sidecar(last) { s.started == Some(true) } else { ended_well(s) })
}
