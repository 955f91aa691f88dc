//! Whether the node can enforce the pod's AppArmor profiles (ADM-06).

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod};

use super::{AdmitView, Rejection};
use crate::pod::PodExt;

/// The prefix of the old annotation that held a container's profile; the name of the container follows.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// upstream: pkg/security/apparmor/validate.go Validate (v1.36)
pub(super) fn check(view: &AdmitView<'_>, pod: &Pod) -> Result<(), Rejection> {
    // Checked only before a pod first runs: a running pod is not stopped for this.
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase.is_some_and(|phase| phase != "Pending") || !is_required(pod) {
        return Ok(());
    }
    let refuse = |why: &str| Err(Rejection::new("AppArmor", format!("Cannot enforce AppArmor: {why}")));
    if !view.apparmor {
        return refuse("AppArmor is not enabled on the host");
    }
    let unnamed = |profile: &AppArmorProfile| {
        let name = profile.localhost_profile.as_deref().unwrap_or_default();
        profile.type_ == "Localhost" && name.trim().is_empty()
    };
    let in_fields = profiles(pod).any(unnamed);
    let in_annotations = annotations(pod).any(|value| value.strip_prefix("localhost/").is_some_and(str::is_empty));
    if in_fields || in_annotations { refuse("invalid empty AppArmor profile name: \"\"") } else { Ok(()) }
}

/// The pod requests a profile other than `unconfined`.
fn is_required(pod: &Pod) -> bool {
    profiles(pod).any(|profile| profile.type_ != "Unconfined") || annotations(pod).any(|value| value != "unconfined")
}

fn profiles(pod: &Pod) -> impl Iterator<Item = &AppArmorProfile> {
    let own = pod.pod_spec().and_then(|spec| spec.security_context.as_ref());
    let plain = pod.regular().iter().chain(pod.init()).map(|c| c.security_context.as_ref());
    let ephemeral = pod.ephemeral().iter().map(|c| c.security_context.as_ref());
    let of_containers = plain.chain(ephemeral).flatten().filter_map(|sc| sc.app_armor_profile.as_ref());
    own.and_then(|sc| sc.app_armor_profile.as_ref()).into_iter().chain(of_containers)
}

fn annotations(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| key.starts_with(ANNOTATION)).map(|(_, value)| value.as_str())
}
