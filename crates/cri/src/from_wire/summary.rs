//! Lists of sandboxes and containers, grouped by pod.

use std::collections::BTreeMap;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::observe::{ContainerStateKind, ContainerSummary, PodSummary, SandboxSummary};
use rubelet_proto::cri;

use super::marks::restart_count;
use super::sandbox::sandbox_state;
use super::{container_name, pod_of, timestamp};

pub(crate) fn pod_summaries(sandboxes: Vec<cri::PodSandbox>, containers: Vec<cri::Container>) -> Vec<PodSummary> {
    let mut pods = BTreeMap::new();
    for sandbox in sandboxes {
        let Some(pod) = pod_of(&sandbox.labels) else { continue };
        let summary = SandboxSummary {
            state: sandbox_state(sandbox.state),
            attempt: sandbox.metadata.as_ref().map(|metadata| metadata.attempt).unwrap_or_default(),
            created_at: timestamp(sandbox.created_at),
        };
        entry(&mut pods, pod).sandboxes.insert(sandbox.id.into(), summary);
    }
    for container in containers {
        let (Some(pod), Some(name)) = (pod_of(&container.labels), container_name(&container.labels)) else { continue };
        let summary = ContainerSummary {
            name: name.to_owned(),
            state: state_kind(container.state),
            created_at: timestamp(container.created_at),
            restart_count: restart_count(&container.annotations),
            sandbox: container.pod_sandbox_id.into(),
            // Runtimes from before 1.30 send no image id. upstream: kuberuntime_container.go toKubeContainerStatus
            // (v1.36)
            image_id: if container.image_id.is_empty() { container.image_ref } else { container.image_id },
        };
        entry(&mut pods, pod).containers.insert(container.id.into(), summary);
    }
    pods.into_values().collect()
}

fn entry(pods: &mut BTreeMap<PodUid, PodSummary>, pod: PodRef) -> &mut PodSummary {
    pods.entry(pod.uid.clone()).or_insert_with(|| PodSummary {
        pod,
        sandboxes: BTreeMap::new(),
        containers: BTreeMap::new(),
    })
}

fn state_kind(state: i32) -> ContainerStateKind {
    match cri::ContainerState::try_from(state) {
        Ok(cri::ContainerState::ContainerCreated) => ContainerStateKind::Created,
        Ok(cri::ContainerState::ContainerRunning) => ContainerStateKind::Running,
        Ok(cri::ContainerState::ContainerExited) => ContainerStateKind::Exited,
        Ok(cri::ContainerState::ContainerUnknown) | Err(_) => ContainerStateKind::Unknown,
    }
}
