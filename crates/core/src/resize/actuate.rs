//! The steps by which a resize is actuated, and the values of each (RSZ-07, RSZ-08).

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::{List, PodAllocation, ResizeContainer, ResizePlan, with_allocation, with_pod_limits};
use crate::id::ContainerId;
use crate::launch::LinuxResources;
use crate::pod::PodExt;
use crate::qos::{CgroupValues, PodCgroupPolicy, pod_values};
use crate::resources::{CPU, MEMORY};

/// One step of a resize.
#[derive(Clone, Debug, PartialEq)]
pub enum ResizeStep {
    /// The pod's cgroup gets these values.
    Pod(CgroupValues),
    /// The runtime gives a running container the resources of `container`, which are actuated then.
    Container {
        /// The running instance.
        id: ContainerId,
        /// Its spec, with the resources that it has after this step.
        container: Box<Container>,
    },
}

/// How a resize is actuated.
#[derive(Clone, Debug, PartialEq)]
pub struct Actuation {
    /// Memory limits that get lower. Each must be above the usage before the first step (RSZ-08).
    pub lowered: Vec<LoweredLimit>,
    /// The steps, in order.
    pub steps: Vec<ResizeStep>,
    /// The values of the pod's cgroup after the last step.
    pub pod: CgroupValues,
}

/// A memory limit that gets lower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredLimit {
    /// The container and its name; `None` is the pod.
    pub container: Option<(ContainerId, String)>,
    /// The new limit in bytes.
    pub limit: i64,
}

/// Why memory limits cannot be lowered, given the bytes in use under each. `None` if they can.
///
/// upstream: kuberuntime_manager.go validateMemoryResizeAction (v1.36)
#[doc(alias = "validateMemoryResizeAction")]
pub fn limits_below_usage(lowered: &[(LoweredLimit, u64)]) -> Option<String> {
    let below = lowered.iter().filter(|(of, used)| i64::try_from(*used).unwrap_or(i64::MAX) >= of.limit);
    let problems: Vec<String> = below
        .map(|(LoweredLimit { container, limit }, used)| {
            let name = container.as_ref().map_or("pod".to_owned(), |(_, name)| format!("container \"{name}\""));
            format!("attempting to set {name} memory limit ({limit}) below current usage ({used})")
        })
        .collect();
    match problems.as_slice() {
        [] => None,
        [problem] => Some(format!("cannot decrease memory limits: {problem}")),
        problems => Some(format!("cannot decrease memory limits: [{}]", problems.join(", "))),
    }
}

impl ResizePlan {
    /// How the plan is actuated. The pod's cgroup has room for the old and the new sizes while containers change: it is
    /// raised before them and lowered after them.
    #[doc(alias = "doPodResizeAction")]
    pub fn actuation(&self, pod: &Pod, actuated: &PodAllocation, policy: &PodCgroupPolicy) -> Actuation {
        let new = pod_values(pod, policy);
        let old = with_allocation(pod, actuated).map_or_else(|| new.clone(), |pod| pod_values(&pod, policy));
        let of_pod = lower_memory_limit(&old, &new).map(|limit| LoweredLimit { container: None, limit });
        let of_containers = self.memory.iter().filter_map(|change| {
            let limit = change.lower_memory_limit()?;
            Some(LoweredLimit { container: Some((change.id.clone(), change.name.clone())), limit })
        });
        let mut steps = vec![ResizeStep::Pod(larger(&old, &new))];
        let mut actuated = actuated.clone();
        for (change, resources) in self.steps() {
            let mut all = pod.init().iter().chain(pod.regular());
            let Some(container) = all.find(|c| c.name == change.name) else { continue };
            let container = actuated.with_resized(pod, container, resources);
            actuated.set(pod, &container);
            steps.push(ResizeStep::Container { id: change.id.clone(), container: Box::new(container) });
        }
        steps.push(ResizeStep::Pod(new.clone()));
        Actuation { lowered: of_pod.into_iter().chain(of_containers).collect(), steps, pod: new }
    }

    /// The memory of all containers, then their CPU. A container that changes alone changes both in one step: every step
    /// is a call of the runtime, and costs the runtime a process.
    fn steps(&self) -> Vec<(&ResizeContainer, &'static [&'static str])> {
        if let ([memory], [cpu]) = (self.memory.as_slice(), self.cpu.as_slice())
            && memory.id == cpu.id
        {
            return vec![(memory, &[MEMORY, CPU])];
        }
        let memory = self.memory.iter().map(|change| (change, [MEMORY].as_slice()));
        memory.chain(self.cpu.iter().map(|change| (change, [CPU].as_slice()))).collect()
    }
}

impl PodAllocation {
    /// `container` with the allocated amounts of `resources`, and of all others with those that are actuated.
    fn with_resized(&self, pod: &Pod, container: &Container, resources: &[&str]) -> Container {
        let before = self.containers.get(&container.name).cloned().unwrap_or_default();
        let new = with_pod_limits(pod, container.resources.as_ref());
        let mixed = resources.iter().fold(before, |mixed, resource| mix(&mixed, &new, resource));
        Container { resources: Some(mixed), ..container.clone() }
    }
}

/// `before`, with the amounts of one resource from `new`.
fn mix(before: &ResourceRequirements, new: &ResourceRequirements, resource: &str) -> ResourceRequirements {
    let list = |old: &Option<List>, new: Option<&List>| {
        let mut mixed = old.clone().unwrap_or_default();
        match new.and_then(|list| list.get(resource)) {
            Some(quantity) => mixed.insert(resource.to_owned(), quantity.clone()),
            None => mixed.remove(resource),
        };
        Some(mixed).filter(|list| !list.is_empty())
    };
    ResourceRequirements {
        limits: list(&before.limits, new.limits.as_ref()),
        requests: list(&before.requests, new.requests.as_ref()),
        claims: new.claims.clone(),
    }
}

impl LinuxResources {
    /// The resources of a pod, for the runtime's record of its sandbox.
    pub fn of_pod(values: &CgroupValues) -> Self {
        Self {
            cpu_shares: values.cpu_shares.and_then(|n| i64::try_from(n).ok()).unwrap_or_default(),
            cpu_quota: values.cpu_quota.unwrap_or_default(),
            cpu_period: values.cpu_period.and_then(|n| i64::try_from(n).ok()).unwrap_or_default(),
            memory_limit_in_bytes: values.memory_limit.unwrap_or_default().max(0),
            ..Self::default()
        }
    }
}

/// The memory limit of `new`, if it is lower than that of `old`.
fn lower_memory_limit(old: &CgroupValues, new: &CgroupValues) -> Option<i64> {
    new.memory_limit.filter(|new| *new > 0 && limit_of(old.memory_limit) > *new)
}

/// Values with room for both.
fn larger(a: &CgroupValues, b: &CgroupValues) -> CgroupValues {
    let unlimited_or_more = |a: Option<i64>, b: Option<i64>| {
        if limit_of(a) >= limit_of(b) { a.or(Some(-1)) } else { b.or(Some(-1)) }
    };
    CgroupValues {
        cpu_shares: a.cpu_shares.max(b.cpu_shares),
        cpu_quota: unlimited_or_more(a.cpu_quota, b.cpu_quota),
        memory_limit: unlimited_or_more(a.memory_limit, b.memory_limit),
        ..b.clone()
    }
}

/// The limit as a number: no limit is larger than every limit.
fn limit_of(value: Option<i64>) -> i64 {
    value.filter(|limit| *limit > 0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
