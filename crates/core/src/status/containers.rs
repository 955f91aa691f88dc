//! The list of container statuses (PST-01 … PST-05).

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, EphemeralContainer,
    Pod, PodStatus,
};

use super::StatusView;
use super::instance::{self, Instance};
use crate::observe::{ContainerObservation, ContainerStateKind, PodObservation};
use crate::plan::should_start;
use crate::pod::{PodExt, is_sidecar};
use crate::reason::WaitingReason;

/// Exit code of a container whose end nobody saw.
const UNSEEN_EXIT: i32 = 137;
const REMOVED_TO_RESTART: &str = "The container is removed because RestartAllContainers in place";
const GONE_WHILE_RUNNING: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
const TREATED_AS_DONE: &str = "Unable to get init container status from container runtime and pod has been \
                               initialized, treat it as exited normally";

/// Which of a pod's three lists of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerList {
    /// Regular containers: listed by name.
    Regular,
    /// Init containers and sidecars: listed in order of the spec.
    Init,
    /// Ephemeral containers: listed by name.
    Ephemeral,
}

impl ContainerList {
    fn specs(self, pod: &Pod) -> Vec<Cow<'_, Container>> {
        match self {
            Self::Regular => pod.regular().iter().map(Cow::Borrowed).collect(),
            Self::Init => pod.init().iter().map(Cow::Borrowed).collect(),
            Self::Ephemeral => pod.ephemeral().iter().map(|c| Cow::Owned(as_container(c))).collect(),
        }
    }

    pub(super) fn of(self, status: &PodStatus) -> &[ContainerStatus] {
        let list = match self {
            Self::Regular => &status.container_statuses,
            Self::Init => &status.init_container_statuses,
            Self::Ephemeral => &status.ephemeral_container_statuses,
        };
        list.as_deref().unwrap_or_default()
    }
}

/// The part of an ephemeral container that a status shows.
fn as_container(from: &EphemeralContainer) -> Container {
    Container {
        name: from.name.clone(),
        image: from.image.clone(),
        resources: from.resources.clone(),
        volume_mounts: from.volume_mounts.clone(),
        ..Container::default()
    }
}

/// As `statuses`, but an empty list is left out of the status.
pub(super) fn statuses_or_none(
    view: &StatusView<'_>,
    seen: &PodObservation,
    list: ContainerList,
    restarting: bool,
) -> Option<Vec<ContainerStatus>> {
    Some(statuses(view, seen, list, restarting)).filter(|all| !all.is_empty())
}

/// The statuses of one list. `restarting` says that every container of the pod is being restarted.
#[doc(alias = "convertToAPIContainerStatuses")]
pub(super) fn statuses(
    view: &StatusView<'_>,
    seen: &PodObservation,
    list: ContainerList,
    restarting: bool,
) -> Vec<ContainerStatus> {
    let old = list.of(view.previous);
    let mut all: Vec<ContainerStatus> = list
        .specs(view.inputs.pod)
        .iter()
        .map(|spec| {
            let old = old.iter().find(|s| s.name == spec.name);
            let mut status = match seen.current(&spec.name) {
                Some(newest) => seen_status(&Instance { view, spec, old, restarting }, newest, seen),
                None => unseen_status(&Instance { view, spec, old, restarting }),
            };
            if !restarting && list == ContainerList::Init && is_past(view.inputs.pod, spec, seen) {
                infer_end(&mut status);
            } else {
                show_failure(view, seen, list, spec, &mut status);
            }
            status
        })
        .collect();
    if list != ContainerList::Init {
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    all
}

/// The newest instance is the state, the one before it the last state (PST-02).
fn seen_status(instance: &Instance<'_>, newest: &ContainerObservation, seen: &PodObservation) -> ContainerStatus {
    let mut status = instance::convert(instance, newest);
    let before = seen.instances(&newest.name).find(|c| c.id != newest.id).and_then(|c| c.state.exit().map(|e| (c, e)));
    if let Some((before, exit)) = before {
        status.last_state = Some(instance::ended(before, exit, instance.view.inputs.node.runtime_name));
    }
    status
}

/// The runtime knows no instance: it was never made, or its record is gone (PST-01).
fn unseen_status(instance: &Instance<'_>) -> ContainerStatus {
    let Instance { view, spec, old, restarting } = instance;
    let fresh = ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone().unwrap_or_default(),
        state: Some(waiting(default_reason(view.inputs.pod), None)),
        volume_mounts: instance::volume_mounts(view, spec),
        ..ContainerStatus::default()
    };
    let Some(old) = *old else { return fresh };
    let state = old.state.as_ref();
    let (was_running, was_terminated) =
        (state.is_some_and(|s| s.running.is_some()), state.is_some_and(|s| s.terminated.is_some()));
    let reason = WaitingReason::RestartingAllContainers.as_str();
    let was_removed = state.and_then(|s| s.waiting.as_ref()).is_some_and(|w| w.reason.as_deref() == Some(reason));
    let mut status = if was_terminated || (*restarting && was_removed) {
        old.clone()
    } else if was_running {
        ContainerStatus { restart_count: old.restart_count, last_state: old.last_state.clone(), ..fresh }
    } else {
        // It still waits, and what is known of its last instance stays.
        ContainerStatus { state: fresh.state, image: fresh.image, ..old.clone() }
    };
    if *restarting && (was_running || was_terminated) {
        status.state = Some(waiting(reason, Some(REMOVED_TO_RESTART)));
        status.last_state = Some(unseen_end(reason, REMOVED_TO_RESTART));
        status.restart_count = old.restart_count.saturating_add(1);
    } else if was_running && !has_ended_before(&status) {
        // It ran and nobody saw its end. The last state keeps the pod from falling back to Pending.
        status.last_state = Some(unseen_end(instance::STATUS_UNKNOWN, GONE_WHILE_RUNNING));
        if !view.inputs.pod.is_deleted() {
            status.restart_count = status.restart_count.saturating_add(1);
        }
    }
    status
}

fn has_ended_before(status: &ContainerStatus) -> bool {
    status.last_state.as_ref().is_some_and(|s| s.terminated.is_some())
}

fn default_reason(pod: &Pod) -> &'static str {
    if pod.init().is_empty() { WaitingReason::ContainerCreating } else { WaitingReason::PodInitializing }.as_str()
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: message.filter(|m| !m.is_empty()).map(str::to_owned),
        }),
        ..ContainerState::default()
    }
}

/// The end of a container that nobody saw.
pub(super) fn unseen_end(reason: &str, message: &str) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: UNSEEN_EXIT,
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// An ordinary init container without a record, in a pod whose regular containers were made: it had its turn.
fn is_past(pod: &Pod, spec: &Container, seen: &PodObservation) -> bool {
    let made = |c: &Container| {
        seen.current(&c.name).is_some_and(|c| match c.state.kind() {
            ContainerStateKind::Created | ContainerStateKind::Running | ContainerStateKind::Exited => true,
            ContainerStateKind::Unknown => false,
        })
    };
    !is_sidecar(spec) && seen.current(&spec.name).is_none() && pod.regular().iter().any(made)
}

/// It must have ended well, if nothing else is known of it (PST-04).
fn infer_end(status: &mut ContainerStatus) {
    if status.state.as_ref().is_some_and(|s| s.waiting.is_some()) {
        status.state = Some(ContainerState {
            // The exit code is zero by default.
            terminated: Some(ContainerStateTerminated {
                reason: Some("Completed".to_owned()),
                message: Some(TREATED_AS_DONE.to_owned()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        });
    }
}

/// A container that could not be started is shown as waiting, with the reason. Without a failure its end is shown until it runs
/// again (PST-02, PST-03).
fn show_failure(
    view: &StatusView<'_>,
    seen: &PodObservation,
    list: ContainerList,
    spec: &Container,
    status: &mut ContainerStatus,
) {
    let Some(failure) = view.inputs.failures.get(&spec.name) else { return };
    let at = seen.current(&spec.name);
    let ended_well = match at {
        Some(at) => at.state.exit().is_some_and(|exit| exit.code == 0),
        None => status.state.as_ref().and_then(|s| s.terminated.as_ref()).is_some_and(|end| end.exit_code == 0),
    };
    // An init container that ended well is done, whatever the policy says. A sidecar is not, and is shown so all the same.
    let done = list == ContainerList::Init && ended_well;
    if done || !should_start(view.inputs.pod, spec, at, view.inputs.node.gates) {
        return;
    }
    if status.state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        status.last_state = status.state.take();
    }
    status.state = Some(waiting(failure.reason.as_str(), Some(&failure.message)));
}
