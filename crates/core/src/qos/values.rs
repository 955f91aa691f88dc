//! Values of the cgroups of pods and of the levels above them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::class::{QosClass, qos_class};
use crate::pod::PodExt;
use crate::resources::{
    Amount, Amounts, CPU, MEMORY, PIDS, has_pod_level_resources, hugepage_size, hugepage_unit, limits_per_container,
    pod_limits, pod_requests,
};

/// The fewest CPU shares that the kernel accepts.
pub const MIN_SHARES: u64 = 2;
/// The most CPU shares that the kernel accepts.
pub const MAX_SHARES: u64 = 262_144;
/// CFS period in microseconds, unless configured.
pub const DEFAULT_PERIOD: u32 = 100_000;
/// The shortest CFS quota that the kernel accepts, in microseconds.
const MIN_QUOTA: i64 = 1000;
/// No limit for huge pages: the kernel has no name for it, but rounds this number down to its maximum.
const UNLIMITED_HUGEPAGES: u64 = 1 << 62;

/// Values of one cgroup; `None` leaves a setting as it is. CPU is on v1's scale: the adapter converts for v2 (CG-05).
#[doc(alias = "ResourceConfig")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupValues {
    /// CPU shares.
    pub cpu_shares: Option<u64>,
    /// CFS quota in microseconds per period; -1 is none.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory limit in bytes; -1 is none.
    pub memory_limit: Option<i64>,
    /// The most processes; -1 is no limit.
    pub pids_limit: Option<i64>,
    /// Limit per huge page size, such as (`2MB`, bytes).
    pub hugepages: BTreeMap<String, u64>,
    /// cgroup v2 files by name.
    pub unified: BTreeMap<String, String>,
}

/// How CFS quota is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPolicy {
    /// `cpuCFSQuota`: limits are enforced.
    pub quota: bool,
    /// `cpuCFSQuotaPeriod` in microseconds.
    pub period: u32,
}

impl Default for CpuPolicy {
    /// Enforced, over 100 ms.
    fn default() -> Self {
        Self { quota: true, period: DEFAULT_PERIOD }
    }
}

/// Settings of the node that decide a pod's values.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodCgroupPolicy {
    /// CFS quota. A pod with CPUs of its own gets none (`quota: false`).
    pub cpu: CpuPolicy,
    /// `podPidsLimit`; zero or less is no limit (CG-12).
    pub pids_limit: i64,
    /// Huge page sizes of the host, in bytes: a pod that does not request a size may not use it.
    pub hugepage_sizes: Vec<u64>,
}

/// Values of the levels of burstable and best-effort pods.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QosValues {
    /// Of the level of burstable pods.
    pub burstable: CgroupValues,
    /// Of the level of best-effort pods.
    pub best_effort: CgroupValues,
}

/// Thousandths of a CPU as shares.
///
/// upstream: cm/helpers_linux.go MilliCPUToShares (v1.36)
#[doc(alias = "MilliCPUToShares")]
pub fn milli_cpu_to_shares(millis: i64) -> u64 {
    let shares = u64::try_from(millis).unwrap_or(0).saturating_mul(1024) / 1000;
    shares.clamp(MIN_SHARES, MAX_SHARES)
}

/// Thousandths of a CPU as quota in microseconds per `period`; 0 for no limit.
///
/// upstream: cm/helpers_linux.go MilliCPUToQuota (v1.36)
#[doc(alias = "MilliCPUToQuota")]
pub fn milli_cpu_to_quota(millis: i64, period: u32) -> i64 {
    if millis == 0 { 0 } else { (millis.saturating_mul(i64::from(period)) / 1000).max(MIN_QUOTA) }
}

/// v1's shares (2 … 262144) on v2's scale (1 … 10000) (CG-05).
///
/// upstream: cm/cgroup_manager_linux.go getCPUWeight (v1.36)
#[doc(alias = "getCPUWeight")]
pub fn shares_to_weight(shares: u64) -> u64 {
    if shares >= MAX_SHARES { 10_000 } else { 1 + shares.saturating_sub(MIN_SHARES) * 9999 / 262_142 }
}

/// Values of a pod's cgroup (CG-11, CG-12).
///
/// upstream: cm/helpers_linux.go ResourceConfigForPod, pod_container_manager_linux.go EnsureExists (v1.36)
#[doc(alias = "ResourceConfigForPod")]
pub fn pod_values(pod: &Pod, policy: &PodCgroupPolicy) -> CgroupValues {
    let requests = pod_requests(pod);
    let limits = pod_limits(pod);
    let (cpu_limited, memory_limited) = all_limited(pod);
    let class = qos_class(pod);
    let guaranteed = class == QosClass::Guaranteed;
    let mut values = CgroupValues {
        cpu_shares: Some(match class {
            QosClass::Guaranteed | QosClass::Burstable => milli_cpu_to_shares(amount(&requests, CPU).millis()),
            QosClass::BestEffort => MIN_SHARES,
        }),
        hugepages: hugepage_limits(&requests, &policy.hugepage_sizes),
        pids_limit: (policy.pids_limit > 0).then_some(policy.pids_limit),
        ..CgroupValues::default()
    };
    if class == QosClass::BestEffort {
        return values;
    }
    if guaranteed || cpu_limited {
        let quota = milli_cpu_to_quota(amount(&limits, CPU).millis(), policy.cpu.period);
        values.cpu_quota = Some(if policy.cpu.quota { quota } else { -1 });
        values.cpu_period = Some(u64::from(policy.cpu.period));
    }
    if guaranteed || memory_limited {
        values.memory_limit = Some(amount(&limits, MEMORY).value());
    }
    values
}

/// Whether at every moment of the pod's life CPU, and memory, is limited.
fn all_limited(pod: &Pod) -> (bool, bool) {
    let lists = limits_per_container(pod);
    let every = |name: &str| lists.iter().all(|list| !amount(list, name).is_zero());
    let own = pod.pod_spec().and_then(|spec| spec.resources.as_ref()).filter(|_| has_pod_level_resources(pod));
    let own = crate::resources::amounts(own.and_then(|r| r.limits.as_ref()));
    let declared = |name: &str| every(name) || !amount(&own, name).is_zero();
    (declared(CPU), declared(MEMORY))
}

/// Values of the levels of burstable and best-effort pods, given the active pods (CG-10).
///
/// upstream: cm/qos_container_manager_linux.go setCPUCgroupConfig, setHugePagesUnbounded (v1.36)
pub fn qos_values<'a>(active: impl IntoIterator<Item = &'a Pod>, hugepage_sizes: &[u64]) -> QosValues {
    let burstable = active.into_iter().filter(|pod| qos_class(pod) == QosClass::Burstable);
    let millis = burstable.map(|pod| amount(&pod_requests(pod), CPU).millis()).fold(0_i64, i64::saturating_add);
    let hugepages: BTreeMap<_, _> =
        hugepage_sizes.iter().map(|size| (hugepage_unit(*size), UNLIMITED_HUGEPAGES)).collect();
    let values =
        |shares| CgroupValues { cpu_shares: Some(shares), hugepages: hugepages.clone(), ..CgroupValues::default() };
    QosValues { burstable: values(milli_cpu_to_shares(millis)), best_effort: values(MIN_SHARES) }
}

/// Values of the cgroup of all pods: the capacity less the reserved resources, eviction thresholds not subtracted (CG-21).
/// A resource that is not in the list stays as it is.
///
/// upstream: cm/node_container_manager_linux.go getCgroupConfigInternal (v1.36)
pub fn node_values(allocatable: &Amounts, hugepage_sizes: &[u64]) -> CgroupValues {
    CgroupValues {
        cpu_shares: allocatable.get(CPU).map(|cpu| milli_cpu_to_shares(cpu.millis())),
        memory_limit: allocatable.get(MEMORY).map(|memory| memory.value()),
        pids_limit: allocatable.get(PIDS).map(|pids| pids.value()),
        hugepages: hugepage_limits(allocatable, hugepage_sizes),
        ..CgroupValues::default()
    }
}

/// A limit for every huge page size of the host: the amount in the list, or zero.
fn hugepage_limits(list: &Amounts, sizes: &[u64]) -> BTreeMap<String, u64> {
    let mut limits: BTreeMap<_, _> = sizes.iter().map(|size| (hugepage_unit(*size), 0)).collect();
    for (name, amount) in list {
        if let Some(size) = hugepage_size(name) {
            let entry = limits.entry(hugepage_unit(size)).or_default();
            *entry = u64::try_from(amount.value()).unwrap_or(0).saturating_add(*entry);
        }
    }
    limits
}

fn amount(list: &Amounts, name: &str) -> Amount {
    list.get(name).copied().unwrap_or_default()
}
