//! Resource claims (section 20): a pod that has any is rejected, because this node does not prepare devices for claims.

use k8s_openapi::api::core::v1::Pod;

use super::Rejection;
use crate::pod::PodExt;

/// A pod must not run without its claims. Upstream prepares claims when it syncs the pod; the message is that of its
/// admission when devices cannot be allocated. upstream: cm/admission/errors.go GetPodAdmitResult (v1.36)
pub(super) fn check(pod: &Pod) -> Result<(), Rejection> {
    let claims = pod.pod_spec().and_then(|spec| spec.resource_claims.as_deref()).unwrap_or_default();
    let of_pod = claims.iter().map(|claim| claim.name.as_str());
    let containers = pod.init().iter().chain(pod.regular()).filter_map(|c| c.resources.as_ref());
    let of_containers = containers.flat_map(|r| r.claims.iter().flatten()).map(|claim| claim.name.as_str());
    let Some(name) = of_pod.chain(of_containers).next() else { return Ok(()) };
    let why = format!("resource claim {name:?} cannot be prepared: this node has no dynamic resource allocation");
    Err(Rejection::new("UnexpectedAdmissionError", format!("Allocate failed due to {why}, which is unexpected")))
}
