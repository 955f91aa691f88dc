//! `/pods` and `/runningpods/`, and lookups for sessions.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_core::id::PodRef;
use rubelet_core::observe::{ContainerStateKind, PodSummary, SandboxState};
use rubelet_engine::ports::RpcError;
use rubelet_engine::sync_loop::{KnownPod, NodeView};

use super::answers::{Answer, json, text};

/// The name of a pod as upstream writes it in errors of sessions.
#[doc(alias = "GetPodFullName")]
pub(super) fn full_name(pod: &KnownPod) -> String {
    format!("{}_{}", pod.reference.name, pod.reference.namespace)
}

/// Whether the container, of any kind, has a terminal; `None` if the pod has no such container.
#[doc(alias = "GetContainerSpec")]
pub(super) fn tty(pod: &KnownPod, container: &str) -> Option<bool> {
    let spec = pod.pod.spec.as_ref()?;
    let plain = |containers: &[Container]| containers.iter().find(|c| c.name == container).map(|c| c.tty);
    let ephemeral = |containers: &[EphemeralContainer]| containers.iter().find(|c| c.name == container).map(|c| c.tty);
    let tty = plain(&spec.containers)
        .or_else(|| plain(spec.init_containers.as_deref()?))
        .or_else(|| ephemeral(spec.ephemeral_containers.as_deref()?))?;
    Some(tty.unwrap_or(false))
}

/// `/pods`: every pod of the node's sources, with its newest status.
#[doc(alias = "GetPods")]
pub(super) fn list(view: &NodeView) -> Answer {
    let workers = view.pods.iter().filter_map(|worker| Some((worker.spec.as_ref()?, &worker.status)));
    let rejected = view.rejected.iter().map(|rejected| (&rejected.pod, &rejected.status));
    let with_status = |(pod, status): (&Arc<Pod>, &Arc<PodStatus>)| {
        let (metadata, spec) = (pod.metadata.clone(), pod.spec.clone());
        Pod { metadata, spec, status: Some(status.as_ref().clone()) }
    };
    encoded(workers.chain(rejected).map(with_status).collect())
}

/// `/runningpods/`: the pods that have a ready sandbox or a running container, with the fields that the runtime knows.
/// upstream: container/runtime.go ToAPIPod (v1.36)
pub(super) fn running(pods: Result<Vec<PodSummary>, RpcError>) -> Answer {
    let pods = match pods {
        Ok(pods) => pods,
        Err(err) => return text(StatusCode::INTERNAL_SERVER_ERROR, err.detail),
    };
    let bare = |summary: PodSummary| {
        let ready = summary.sandboxes.values().any(|sandbox| sandbox.state == SandboxState::Ready);
        let runs = summary.containers.into_values().filter(|c| c.state == ContainerStateKind::Running);
        let container = |c: rubelet_core::observe::ContainerSummary| Container {
            name: c.name,
            image: Some(c.image_id),
            ..Container::default()
        };
        let containers: Vec<_> = runs.map(container).collect();
        let PodRef { namespace, name, uid } = summary.pod;
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_string()),
            name: Some(name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectMeta::default()
        };
        let spec = PodSpec { containers, ..PodSpec::default() };
        (ready || !spec.containers.is_empty()).then(|| Pod {
            metadata,
            spec: Some(spec),
            status: Some(PodStatus::default()),
        })
    };
    encoded(pods.into_iter().filter_map(bare).collect())
}

fn encoded(items: Vec<Pod>) -> Answer {
    let list: List<Pod> = List { items, metadata: Default::default() };
    match serde_json::to_vec(&list) {
        Ok(body) => json(body),
        Err(err) => text(StatusCode::INTERNAL_SERVER_ERROR, err.to_string()),
    }
}
