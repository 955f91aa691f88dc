//! The configuration in `RunPodSandbox` (section 7.9).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::linux::{LinuxLimits, linux_resources};
use super::security::{groups_policy, namespaces, selinux_options};
use super::{
    LaunchContext, LaunchError, LinuxResources, PortMapping, Protocol, SandboxConfig, SandboxInputs, SandboxSecurity,
    SecurityProfile,
};
use crate::hostname::{kernel_hostname, pod_hostname};
use crate::id::PodRef;
use crate::pod::PodExt;
use crate::resources::{Amount, CPU, MEMORY, amounts, pod_limits_without_overhead, pod_requests_without_overhead};

/// Label with the pod's name.
pub const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";
/// Label with the pod's namespace.
pub const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
/// Label with the pod's UID.
pub const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// Label with the container's name in the spec.
pub const CONTAINER_NAME_LABEL: &str = "io.kubernetes.container.name";

/// The configuration of a pod's sandbox.
///
/// upstream: kuberuntime_sandbox.go generatePodSandboxConfig (v1.36)
#[doc(alias = "generatePodSandboxConfig")]
pub fn sandbox_config(ctx: &LaunchContext, pod: &Pod, inputs: &SandboxInputs) -> Result<SandboxConfig, LaunchError> {
    let meta = &pod.metadata;
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    let hostname = if pod.host_network() {
        String::new()
    } else {
        kernel_hostname(pod, &pod_hostname(pod, &ctx.cluster_domain, ctx.gates.hostname_override)?)?
    };
    Ok(SandboxConfig {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        attempt: inputs.attempt,
        hostname,
        log_directory: log_directory(ctx, pod).to_string_lossy().into_owned(),
        dns: inputs.dns.clone(),
        port_mappings: pod.regular().iter().flat_map(port_mappings).collect(),
        labels,
        annotations: meta.annotations.clone().unwrap_or_default(),
        cgroup_parent: ctx.tree.cgroup_parent(pod),
        sysctls: sysctls(pod),
        security: security(pod, inputs)?,
        overhead: Some(overhead(ctx, pod)),
        resources: Some(resources(ctx, pod, inputs.exclusive_cpus)),
        runtime_handler: inputs.runtime_handler.clone(),
    })
}

/// Directory of a pod's container logs: `<namespace>_<name>_<uid>` (LOG-01).
#[doc(alias = "BuildPodLogsDirectory")]
pub fn log_directory(ctx: &LaunchContext, pod: &Pod) -> PathBuf {
    let PodRef { namespace, name, uid } = PodRef::of(pod);
    ctx.pod_logs_dir.join(format!("{namespace}_{name}_{uid}"))
}

/// The labels by which a kubelet finds the sandboxes and containers of a pod (section 7.8).
pub(super) fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    let PodRef { namespace, name, uid } = PodRef::of(pod);
    BTreeMap::from([
        (POD_NAME_LABEL.to_owned(), name.to_string()),
        (POD_NAMESPACE_LABEL.to_owned(), namespace.to_string()),
        (POD_UID_LABEL.to_owned(), uid.to_string()),
    ])
}

/// A sysctl's name with dots: the spec may separate its parts by slashes, as the kernel's files do (RT-04). A name whose
/// first separator is a slash has dots within its parts: the two change places.
#[doc(alias = "NormalizeName")]
pub fn normal_sysctl(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'/') => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        Some(_) | None => name.to_owned(),
    }
}

fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let list = pod.pod_spec().and_then(|spec| spec.security_context.as_ref()).and_then(|sc| sc.sysctls.as_ref());
    list.into_iter().flatten().map(|sysctl| (normal_sysctl(&sysctl.name), sysctl.value.clone())).collect()
}

fn security(pod: &Pod, inputs: &SandboxInputs) -> Result<SandboxSecurity, LaunchError> {
    let mut security = SandboxSecurity {
        namespaces: namespaces(pod, (&inputs.runtime_handler, inputs.features), inputs.user_namespace.as_ref())?,
        privileged: has_privileged_container(pod),
        // The pause process needs no more than this profile, whatever profiles the containers have.
        seccomp: SecurityProfile::RuntimeDefault,
        ..SandboxSecurity::default()
    };
    if let Some(sc) = pod.pod_spec().and_then(|spec| spec.security_context.as_ref()) {
        security.run_as_user = sc.run_as_user;
        security.run_as_group = sc.run_as_group;
        security.supplemental_groups.extend(sc.fs_group);
        security.supplemental_groups.extend(&inputs.volume_groups);
        security.supplemental_groups.extend(sc.supplemental_groups.iter().flatten());
        security.supplemental_groups_policy = groups_policy(sc.supplemental_groups_policy.as_deref())?;
        security.selinux = sc.se_linux_options.as_ref().map(selinux_options);
    }
    Ok(security)
}

fn has_privileged_container(pod: &Pod) -> bool {
    let plain = pod.regular().iter().chain(pod.init()).map(|c| c.security_context.as_ref());
    let ephemeral = pod.ephemeral().iter().map(|c| c.security_context.as_ref());
    plain.chain(ephemeral).flatten().any(|sc| sc.privileged.unwrap_or_default())
}

/// The ports of a container, without duplicates.
///
/// upstream: container/helpers.go MakePortMappings (v1.36)
fn port_mappings(container: &Container) -> Vec<PortMapping> {
    let mut seen = BTreeSet::new();
    let mut mappings = Vec::new();
    for port in container.ports.iter().flatten() {
        let word = port.protocol.as_deref().unwrap_or_default();
        let (host_ip, host_port) = (port.host_ip.clone().unwrap_or_default(), port.host_port.unwrap_or_default());
        let family = match host_ip.parse() {
            _ if host_ip.is_empty() => "any",
            Ok(IpAddr::V6(_)) => "v6",
            Ok(IpAddr::V4(_)) | Err(_) => "v4",
        };
        let name = port.name.clone().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("{family}-{word}-{host_ip}:{}:{host_port}", port.container_port));
        if !seen.insert(name) {
            continue;
        }
        let protocol = match word {
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        mappings.push(PortMapping { protocol, container_port: port.container_port, host_port, host_ip });
    }
    mappings
}

/// Resources of the pod that belong to no container: requests and limits are the same.
fn overhead(ctx: &LaunchContext, pod: &Pod) -> LinuxResources {
    let Some(list) = pod.pod_spec().and_then(|spec| spec.overhead.as_ref()) else {
        return LinuxResources::default();
    };
    let list = amounts(Some(list));
    let amount = |name| list.get(name).copied().unwrap_or_default();
    let cpu: Amount = amount(CPU);
    let limits = LinuxLimits { cpu_request: Some(cpu), cpu_limit: cpu, memory_limit: amount(MEMORY) };
    linux_resources(ctx, &limits, false)
}

/// upstream: kuberuntime_sandbox_linux.go calculateSandboxResources (v1.36)
fn resources(ctx: &LaunchContext, pod: &Pod, exclusive_cpus: bool) -> LinuxResources {
    let requests = pod_requests_without_overhead(pod);
    let limits = pod_limits_without_overhead(pod);
    let limit = |name| limits.get(name).copied().unwrap_or_default();
    let limits =
        LinuxLimits { cpu_request: requests.get(CPU).copied(), cpu_limit: limit(CPU), memory_limit: limit(MEMORY) };
    linux_resources(ctx, &limits, exclusive_cpus)
}
