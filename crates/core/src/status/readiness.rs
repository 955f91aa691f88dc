//! `started` and `ready` of each container (PRB-04, PRB-11).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use super::{ContainerList, StatusView};
use crate::id::ContainerId;
use crate::plan::Verdict;
use crate::pod::{PodExt, is_sidecar};

/// Sets `started` and `ready` of regular and init containers; ephemeral ones have neither.
#[doc(alias = "probeManager.UpdatePodStatus")]
pub(super) fn set(view: &StatusView<'_>, status: &mut PodStatus) {
    for at in status.container_statuses.iter_mut().flatten() {
        let spec = view.inputs.pod.regular().iter().find(|c| c.name == at.name);
        set_long_running(view, ContainerList::Regular, spec, at);
    }
    for at in status.init_container_statuses.iter_mut().flatten() {
        let spec = view.inputs.pod.init().iter().find(|c| c.name == at.name);
        if spec.is_some_and(is_sidecar) {
            set_long_running(view, ContainerList::Init, spec, at);
        } else {
            at.started = Some(is_running(at));
            let end = at.state.as_ref().and_then(|s| s.terminated.as_ref());
            at.ready = end.is_some_and(|end| end.exit_code == 0);
        }
    }
}

fn set_long_running(view: &StatusView<'_>, list: ContainerList, spec: Option<&Container>, at: &mut ContainerStatus) {
    // What was true of this very instance holds until a probe says otherwise: a restart of ours turns nobody unready.
    let before = list.of(view.previous).iter().find(|old| old.name == at.name && old.container_id == at.container_id);
    let id = instance_id(at);
    let running = is_running(at);
    let started = running
        && match id.as_ref().and_then(|id| view.inputs.probes.startup.get(id)) {
            Some(verdict) => *verdict == Verdict::Success,
            None => {
                before.is_some_and(|old| old.started == Some(true)) || spec.is_none_or(|c| c.startup_probe.is_none())
            }
        };
    at.started = Some(started);
    at.ready = started
        && match id.as_ref().and_then(|id| view.inputs.probes.readiness.get(id)) {
            Some(verdict) => *verdict == Verdict::Success,
            None => before.is_some_and(|old| old.ready) || spec.is_none_or(|c| c.readiness_probe.is_none()),
        };
}

fn is_running(at: &ContainerStatus) -> bool {
    at.state.as_ref().is_some_and(|s| s.running.is_some())
}

/// The runtime's id in `containerd://1234`.
fn instance_id(at: &ContainerStatus) -> Option<ContainerId> {
    let (_, id) = at.container_id.as_deref()?.split_once("://")?;
    Some(ContainerId::from(id))
}
