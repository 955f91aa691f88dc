//! A container's status.

use rubelet_core::id::SandboxId;
use rubelet_core::observe::{ContainerObservation, ContainerState, ContainerUser, Exit, ObservedResources};
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use super::marks::container_marks;
use super::{container_name, timestamp};
use crate::error::garbage;
use crate::metrics::Operation;

/// Converts a status; `None` if the container does not have our labels.
///
/// The exit message is the runtime's own: adding the termination message needs file access (RT-110).
pub(crate) fn container_observation(
    status: cri::ContainerStatus,
    sandbox: SandboxId,
) -> Result<Option<ContainerObservation>, RpcError> {
    if let Some(missing) = missing_field(&status) {
        let detail = format!("the status of container {:?} has no {missing}", status.id);
        return Err(garbage(Operation::ContainerStatus, detail));
    }
    let Some(name) = container_name(&status.labels) else { return Ok(None) };
    Ok(Some(ContainerObservation {
        name: name.to_owned(),
        state: state(&status),
        created_at: timestamp(status.created_at),
        marks: container_marks(&status.annotations, &status.mounts),
        resources: status.resources.and_then(|resources| resources.linux).and_then(|linux| observed(&linux)),
        user: status.user.and_then(|user| user.linux).map(user),
        id: status.id.into(),
        sandbox,
        image: status.image.map(|image| image.image).unwrap_or_default(),
        // The API shows the image reference with its digest here. upstream: kubelet_pods.go convertContainerStatus
        // (v1.36)
        image_id: status.image_ref,
        log_path: status.log_path,
    }))
}

/// upstream: cri-client utils.go verifyContainerStatus (v1.36)
fn missing_field(status: &cri::ContainerStatus) -> Option<&'static str> {
    let no_name = status.metadata.as_ref().is_none_or(|metadata| metadata.name.is_empty());
    let no_image = status.image.as_ref().is_none_or(|image| image.image.is_empty());
    let checks = [
        (status.id.is_empty(), "id"),
        (no_name, "name"),
        (status.created_at == 0, "creation time"),
        (no_image, "image"),
        (status.image_ref.is_empty(), "image reference"),
    ];
    checks.into_iter().find_map(|(missing, what)| missing.then_some(what))
}

fn state(status: &cri::ContainerStatus) -> ContainerState {
    let started_at = timestamp(status.started_at);
    // A state that the protocol does not define counts as unknown, not as never started.
    match cri::ContainerState::try_from(status.state).unwrap_or(cri::ContainerState::ContainerUnknown) {
        cri::ContainerState::ContainerCreated => ContainerState::Created,
        cri::ContainerState::ContainerRunning => ContainerState::Running { started_at },
        cri::ContainerState::ContainerExited => ContainerState::Exited(Exit {
            code: status.exit_code,
            started_at,
            finished_at: timestamp(status.finished_at),
            reason: status.reason.clone(),
            message: status.message.clone(),
        }),
        cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

fn observed(linux: &cri::LinuxContainerResources) -> Option<ObservedResources> {
    let set = |value: i64| (value != 0).then_some(value);
    let resources = ObservedResources {
        cpu_shares: set(linux.cpu_shares),
        cpu_quota: set(linux.cpu_quota),
        cpu_period: set(linux.cpu_period),
        memory_limit: set(linux.memory_limit_in_bytes),
    };
    (resources != ObservedResources::default()).then_some(resources)
}

fn user(linux: cri::LinuxContainerUser) -> ContainerUser {
    ContainerUser { uid: linux.uid, gid: linux.gid, supplemental_groups: linux.supplemental_groups }
}
