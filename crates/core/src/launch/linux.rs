//! CPU, memory, huge pages and swap of a container in the kernel's units (RT-90 … RT-94).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{LaunchContext, LinuxResources};
use crate::pod::{PodExt, is_sidecar};
use crate::qos::{
    CgroupVersion, QosClass, is_critical, is_node_critical, milli_cpu_to_quota, milli_cpu_to_shares, qos_class,
};
use crate::resources::{
    Amount, Amounts, CPU, MEMORY, amounts, container_requests, has_pod_level_requests, has_pod_level_resources,
    hugepage_size, hugepage_unit,
};

/// Score of processes that the OOM killer takes last.
const GUARANTEED_SCORE: i64 = -997;
/// Score of processes that the OOM killer takes first.
const BEST_EFFORT_SCORE: i64 = 1000;

/// The amounts that CPU and memory settings are derived from.
pub(super) struct LinuxLimits {
    /// `None` if nothing is requested: the limit counts instead.
    pub(super) cpu_request: Option<Amount>,
    /// Zero is none.
    pub(super) cpu_limit: Amount,
    /// Zero is none.
    pub(super) memory_limit: Amount,
}

/// The resources of one container.
///
/// upstream: kuberuntime_container_linux.go generateLinuxContainerResources (v1.36)
pub fn container_resources(
    ctx: &LaunchContext,
    pod: &Pod,
    container: &Container,
    exclusive_cpus: bool,
) -> LinuxResources {
    let own = Own::of(pod, container);
    let limits = LinuxLimits {
        cpu_request: own.requests.get(CPU).copied(),
        cpu_limit: own.limit(CPU),
        memory_limit: own.limit(MEMORY),
    };
    let mut resources = linux_resources(ctx, &limits, exclusive_cpus);
    resources.oom_score_adj = oom_score_adj(pod, container, ctx.memory_bytes);
    resources.hugepage_limits = hugepage_limits(ctx, &own);
    swap(ctx, pod, &own, &mut resources);
    resources
}

/// CPU, memory limit and OOM group (RT-90, RT-91, RT-93).
///
/// upstream: kuberuntime_container_linux.go calculateLinuxResources (v1.36)
pub(super) fn linux_resources(ctx: &LaunchContext, limits: &LinuxLimits, exclusive_cpus: bool) -> LinuxResources {
    let cpu_request = limits.cpu_request.unwrap_or(limits.cpu_limit);
    let mut resources = LinuxResources {
        cpu_shares: i64::try_from(milli_cpu_to_shares(cpu_request.millis())).unwrap_or(i64::MAX),
        memory_limit_in_bytes: limits.memory_limit.value(),
        ..LinuxResources::default()
    };
    if ctx.cpu.quota {
        let quota = milli_cpu_to_quota(limits.cpu_limit.millis(), ctx.cpu.period);
        resources.cpu_quota = if exclusive_cpus { -1 } else { quota };
        resources.cpu_period = i64::from(ctx.cpu.period);
    }
    match ctx.cgroups {
        // A container that lost one process is rarely of use: all its processes are killed, unless configured otherwise.
        CgroupVersion::V2 if !ctx.single_process_oom_kill.unwrap_or(false) => {
            resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
        }
        CgroupVersion::V1 | CgroupVersion::V2 => {}
    }
    resources
}

/// A container's resources, and the pod's own where it has any.
struct Own {
    requests: Amounts,
    limits: Amounts,
    pod_limits: Amounts,
}

impl Own {
    fn of(pod: &Pod, container: &Container) -> Self {
        let own = container.resources.as_ref();
        let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
        let pod_level = pod_level.filter(|_| has_pod_level_resources(pod));
        Self {
            requests: amounts(own.and_then(|r| r.requests.as_ref())),
            limits: amounts(own.and_then(|r| r.limits.as_ref())),
            pod_limits: amounts(pod_level.and_then(|r| r.limits.as_ref())),
        }
    }

    /// The container's limit, or else the pod's.
    fn limit(&self, name: &str) -> Amount {
        let of = |list: &Amounts| list.get(name).copied().filter(|limit| !limit.is_zero());
        of(&self.limits).or_else(|| of(&self.pod_limits)).unwrap_or_default()
    }
}

/// A limit for every huge page size of the host, zero by default (RT-91).
///
/// upstream: kuberuntime_container_linux.go GetHugepageLimitsFromResources (v1.36)
fn hugepage_limits(ctx: &LaunchContext, own: &Own) -> Vec<(String, u64)> {
    let limit = |size: u64| {
        let names = |list: &Amounts| {
            let found = list.iter().find(|(name, _)| hugepage_size(name) == Some(size));
            found.map(|(_, amount)| u64::try_from(amount.value()).unwrap_or(0))
        };
        names(&own.limits).or_else(|| names(&own.pod_limits)).unwrap_or(0)
    };
    ctx.hugepage_sizes.iter().map(|size| (hugepage_unit(*size), limit(*size))).collect()
}

/// RT-94.
///
/// upstream: kuberuntime_container_linux.go configureContainerSwapResources (v1.36)
fn swap(ctx: &LaunchContext, pod: &Pod, own: &Own, resources: &mut LinuxResources) {
    if !ctx.swap.controller {
        return;
    }
    match ctx.cgroups {
        // Memory plus swap: with both limits the same, none is left for swap.
        CgroupVersion::V1 => resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes,
        CgroupVersion::V2 => {
            let bytes = limited_swap(ctx, pod, own);
            resources.unified.insert("memory.swap.max".to_owned(), bytes.to_string());
        }
    }
}

/// Whether the container may use swap: under `LimitedSwap` that is decided container by container.
///
/// upstream: kuberuntime_container_linux.go GetContainerSwapBehavior (v1.36)
#[doc(alias = "GetContainerSwapBehavior")]
pub fn may_swap(ctx: &LaunchContext, pod: &Pod, container: &Container) -> bool {
    gets_swap(ctx, pod, &Own::of(pod, container))
}

fn gets_swap(ctx: &LaunchContext, pod: &Pod, own: &Own) -> bool {
    let amount = |list: &Amounts| list.get(MEMORY).copied().unwrap_or_default();
    let (request, limit) = (amount(&own.requests), amount(&own.limits));
    // A container whose memory request equals its limit, both may be zero, gets no swap.
    ctx.swap.limited
        && ctx.swap.controller
        && ctx.cgroups == CgroupVersion::V2
        && !is_critical(pod)
        && qos_class(pod) == QosClass::Burstable
        && request != limit
}

/// The container's share of the node's swap is its share of the node's memory.
fn limited_swap(ctx: &LaunchContext, pod: &Pod, own: &Own) -> i64 {
    if !gets_swap(ctx, pod, own) {
        return 0;
    }
    let request = own.requests.get(MEMORY).map_or(0, |memory| memory.value());
    if ctx.memory_bytes <= 0 || request > ctx.memory_bytes {
        return 0;
    }
    let share = i128::from(request) * i128::from(ctx.swap.bytes) / i128::from(ctx.memory_bytes);
    i64::try_from(share).unwrap_or(0)
}

/// The `oom_score_adj` of the container's processes (RT-92).
///
/// upstream: qos/policy.go GetContainerOOMScoreAdjust (v1.36)
#[doc(alias = "GetContainerOOMScoreAdjust")]
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_bytes: i64) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED_SCORE;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED_SCORE,
        QosClass::BestEffort => return BEST_EFFORT_SCORE,
        QosClass::Burstable => {}
    }
    // The pod's request beyond those of its containers protects each of them alike.
    let shared = if has_pod_level_requests(pod) { unassigned_memory_per_container(pod) } else { 0 };
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request.saturating_add(shared)) / memory_bytes.max(1);
    let mut adj = score(memory_request(container));
    let sidecar = is_sidecar(container) && pod.init().iter().any(|init| init.name == container.name);
    if sidecar {
        // A sidecar must not be killed before the containers that need it.
        let least = pod.regular().iter().map(memory_request).min().unwrap_or(0);
        adj = adj.min(score(least));
    }
    adj.clamp(1000 + GUARANTEED_SCORE, BEST_EFFORT_SCORE - 1)
}

fn memory_request(container: &Container) -> i64 {
    let requests = amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()));
    requests.get(MEMORY).map_or(0, |memory| memory.value())
}

/// upstream: qos/helpers.go remainingPodMemReqPerContainer (v1.36)
fn unassigned_memory_per_container(pod: &Pod) -> i64 {
    let memory = |list: &Amounts| list.get(MEMORY).map_or(0, |memory| memory.value());
    let asked =
        memory(&amounts(pod.pod_spec().and_then(|spec| spec.resources.as_ref()).and_then(|r| r.requests.as_ref())));
    if asked == 0 {
        return 0;
    }
    let count = i64::try_from(pod.regular().len() + pod.init().len()).unwrap_or(i64::MAX);
    asked.saturating_sub(memory(&container_requests(pod))) / count.max(1)
}
