//! The API's status of one instance of a container (PST-05).

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    ContainerUser, LinuxContainerUser, VolumeMount, VolumeMountStatus,
};

use super::{StatusView, containers, resources, time};
use crate::observe::{self, ContainerObservation, Exit};
use crate::reason::WaitingReason;

/// Reason of a container whose end nobody saw.
pub(super) const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
pub(super) const LOST_WHEN_TERMINATED: &str = "The container could not be located when the pod was terminated";

/// What the status of an instance is made from, besides what was seen of it.
pub(super) struct Instance<'a> {
    pub(super) view: &'a StatusView<'a>,
    pub(super) spec: &'a Container,
    /// The status before.
    pub(super) old: Option<&'a ContainerStatus>,
    /// Every container of the pod is being restarted.
    pub(super) restarting: bool,
}

pub(super) fn convert(instance: &Instance<'_>, seen: &ContainerObservation) -> ContainerStatus {
    let Instance { view, spec, old, .. } = instance;
    let id = container_id(view.inputs.node.runtime_name, seen);
    let old_mounts = old.and_then(|old| old.volume_mounts.clone());
    let mut status = ContainerStatus {
        name: seen.name.clone(),
        image: seen.image.clone(),
        image_id: seen.image_id.clone(),
        container_id: Some(id.clone()),
        restart_count: i32::try_from(seen.marks.restart_count).unwrap_or(i32::MAX),
        volume_mounts: old_mounts.or_else(|| volume_mounts(view, spec)),
        // A resource that the runtime does not report keeps its old amount only while a resize is in progress.
        resources: Some(resources::of_container(
            spec,
            seen,
            old.filter(|old| view.inputs.resize_progress.is_some() && old.container_id.as_ref() == Some(&id)),
        )),
        allocated_resources: spec.resources.as_ref().and_then(|r| r.requests.clone()).filter(|r| !r.is_empty()),
        user: seen.user.as_ref().map(user),
        ..ContainerStatus::default()
    };
    if let Some(old) = old.filter(|_| view.inputs.node.gates.restart_all_containers) {
        carry_over(&mut status, old);
    }
    set_state(instance, seen, &mut status);
    status
}

/// An old instance may be gone from the runtime, and then only the status before still knows it: so it is when every
/// container of a pod is restarted.
fn carry_over(status: &mut ContainerStatus, old: &ContainerStatus) {
    status.restart_count = status.restart_count.max(old.restart_count);
    let ended = |state: &Option<ContainerState>| state.as_ref().and_then(|s| s.terminated.clone());
    let replaced = if old.container_id == status.container_id { None } else { ended(&old.state) };
    status.last_state = replaced
        .or_else(|| ended(&old.last_state))
        .map(|end| ContainerState { terminated: Some(end), ..ContainerState::default() });
}

fn set_state(instance: &Instance<'_>, seen: &ContainerObservation, status: &mut ContainerStatus) {
    let old = instance.old;
    let old_state = old.and_then(|old| old.state.as_ref());
    let was_running = old_state.is_some_and(|s| s.running.is_some());
    let old_end = old_state.and_then(|s| s.terminated.as_ref());
    let waiting = || ContainerState { waiting: Some(ContainerStateWaiting::default()), ..ContainerState::default() };
    let state = match &seen.state {
        observe::ContainerState::Running { started_at } => {
            // An end that the count does not know of: the instance was removed, and with it its number.
            let removed = old.filter(|_| old_end.is_some() && instance.view.inputs.node.gates.restart_all_containers);
            let made = i32::try_from(seen.marks.restart_count).unwrap_or(i32::MAX);
            if let Some(old) = removed.filter(|old| old.restart_count >= made) {
                status.restart_count = old.restart_count.saturating_add(1);
            }
            ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(time(*started_at)) }),
                ..ContainerState::default()
            }
        }
        observe::ContainerState::Created => waiting(),
        observe::ContainerState::Exited(exit) => ended(seen, exit, instance.view.inputs.node.runtime_name),
        observe::ContainerState::Unknown if was_running => {
            let reason =
                if instance.restarting { WaitingReason::RestartingAllContainers.as_str() } else { STATUS_UNKNOWN };
            let counted = old.map_or(0, |old| old.restart_count).saturating_add(1);
            status.restart_count = status.restart_count.max(counted);
            containers::unseen_end(reason, LOST_WHEN_TERMINATED)
        }
        // A container that the status has shown as terminated stays so. Upstream falls back to waiting, and the pod to
        // Pending.
        observe::ContainerState::Unknown => match shown_end(status, old) {
            Some(end) => {
                status.restart_count = status.restart_count.max(old.map_or(0, |old| old.restart_count));
                ContainerState { terminated: Some(end.clone()), ..ContainerState::default() }
            }
            None => waiting(),
        },
    };
    status.state = Some(state);
}

/// The terminated state of this instance in the status before: its state, or, if a start failure replaced that, its last
/// state. An end that was not observed has no container ID: it belongs to this instance only if a start failure, whose
/// reason is in the state, moved it to the last state.
fn shown_end<'a>(status: &ContainerStatus, old: Option<&'a ContainerStatus>) -> Option<&'a ContainerStateTerminated> {
    let same = old?.container_id == status.container_id;
    let end = |state: &'a Option<ContainerState>| state.as_ref().and_then(|s| s.terminated.as_ref());
    let lost = |end: &ContainerStateTerminated| end.message.as_deref() == Some(LOST_WHEN_TERMINATED);
    let aside = end(&old?.last_state);
    let waits = old?.state.as_ref().and_then(|s| s.waiting.as_ref());
    let moved = same && waits.is_some_and(|w| w.reason.is_some());
    let aside = aside.filter(|end| end.container_id == status.container_id || (moved && lost(end)));
    end(&old?.state).filter(|_| same).or(aside)
}

/// The API's form of an end.
pub(super) fn ended(seen: &ContainerObservation, exit: &Exit, runtime: &str) -> ContainerState {
    let text = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id(runtime, seen)),
            exit_code: exit.code,
            reason: text(&exit.reason),
            message: text(&exit.message),
            started_at: Some(time(exit.started_at)),
            finished_at: Some(time(exit.finished_at)),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

/// `containerd://1234`.
fn container_id(runtime: &str, seen: &ContainerObservation) -> String {
    format!("{runtime}://{}", seen.id)
}

fn user(from: &observe::ContainerUser) -> ContainerUser {
    ContainerUser {
        linux: Some(LinuxContainerUser {
            uid: from.uid,
            gid: from.gid,
            supplemental_groups: Some(from.supplemental_groups.clone()).filter(|g| !g.is_empty()),
        }),
    }
}

/// How each of the container's volumes is mounted. CRI does not know the volumes' names, so this comes from the spec.
pub(super) fn volume_mounts(view: &StatusView<'_>, spec: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = spec.volume_mounts.as_deref().unwrap_or_default();
    let status = |mount: &VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|r| *r),
        recursive_read_only: mount.read_only.filter(|r| *r).map(|_| {
            if is_recursive(mount, view.inputs.node.recursive_read_only) { "Enabled" } else { "Disabled" }.to_owned()
        }),
        ..VolumeMountStatus::default()
    };
    Some(mounts.iter().map(status).collect()).filter(|all: &Vec<_>| !all.is_empty())
}

/// The mount is read-only all the way down (MNT-03).
#[doc(alias = "resolveRecursiveReadOnly")]
fn is_recursive(mount: &VolumeMount, supported: bool) -> bool {
    let asked = matches!(mount.recursive_read_only.as_deref(), Some("IfPossible" | "Enabled"));
    let propagates = mount.mount_propagation.as_deref().is_some_and(|p| p != "None");
    asked && supported && !propagates
}
