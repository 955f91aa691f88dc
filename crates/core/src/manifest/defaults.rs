//! What the API server fills in when a pod is created, for pods that never see an API server.
//!
//! The order matters where one default is made of another: requests come from limits, pod requests from containers.
//! upstream: v1/defaults.go, v1/zz_generated.defaults.go SetObjectDefaults_Pod (v1.36)

use k8s_openapi::api::core::v1::{Container, Pod, PodIP, PodSpec};

use super::gates::{Gate, Gates};

mod containers;
mod resources;
mod volumes;

pub(super) use resources::{Derived, aggregate_limits, aggregate_requests, is_huge_page, is_pod_level};

const GRACE_PERIOD_SECONDS: i64 = 30;

/// Annotations that once carried init containers; upstream drops them whenever it converts a pod.
const OLD_INIT_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-container-statuses",
];

/// Fills in every default. Sums of quantities are returned as well, because their text alone loses how they are held.
pub(super) fn apply(pod: &mut Pod, gates: &Gates) -> Derived {
    let spec = pod.spec.get_or_insert_default();
    for container in all_containers(spec) {
        resources::requests_from_limits(container);
    }
    let derived =
        if gates.on(Gate::PodLevelResources) { resources::pod_level_resources(spec) } else { Derived::default() };
    spec.enable_service_links.get_or_insert(true);
    if spec.host_network == Some(true) {
        all_containers(spec).for_each(containers::host_ports_from_container_ports);
    }

    spec.dns_policy.get_or_insert_with(|| "ClusterFirst".to_owned());
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(GRACE_PERIOD_SECONDS);
    spec.scheduler_name.get_or_insert_with(|| "default-scheduler".to_owned());

    spec.volumes.iter_mut().flatten().for_each(volumes::apply);
    all_containers(spec).for_each(containers::apply);
    derived
}

/// What changes when upstream turns a v1 pod into its internal form and back.
/// upstream: v1/conversion.go Convert_v1_Pod_To_core_Pod, Convert_v1_PodSpec_To_core_PodSpec, Convert_v1_PodStatus_To_core_PodStatus (v1.36)
pub(super) fn convert(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| !OLD_INIT_ANNOTATIONS.contains(&key.as_str()));
    }
    let spec = pod.spec.get_or_insert_default();
    if spec.termination_grace_period_seconds.is_some_and(|grace| grace < 0) {
        spec.termination_grace_period_seconds = Some(1);
    }
    let account = spec.service_account_name.take().or(spec.service_account.take());
    spec.service_account.clone_from(&account);
    spec.service_account_name = account;
    if let Some(status) = &mut pod.status
        && let Some(ip) = status.pod_ip.clone()
    {
        let first = status.pod_ips.iter().flatten().next().map(|first| &first.ip);
        if first != Some(&ip) {
            status.pod_ips = Some(vec![PodIP { ip }]);
        }
    } else if let Some(status) = &mut pod.status {
        status.pod_ip = status.pod_ips.iter().flatten().next().map(|first| first.ip.clone());
    }
}

fn all_containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten())
}
