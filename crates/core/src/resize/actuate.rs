//! The steps by which a resize is actuated, and the values of each (RSZ-07, RSZ-08).

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

use super::{List, PodAllocation, ResizeContainer, ResizePlan};
use crate::launch::LinuxResources;
use crate::qos::CgroupValues;
use crate::resources::{CPU, MEMORY};

impl ResizePlan {
    /// The memory of all containers, then their CPU. A container that changes alone changes both in one step: every step
    /// is a call of the runtime, and costs the runtime a process.
    pub fn steps(&self) -> Vec<(&ResizeContainer, &'static [&'static str])> {
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
    /// `container` with its own amounts of `resources`, and of all others with those that are actuated.
    pub fn with_resized(&self, container: &Container, resources: &[&str]) -> Container {
        let before = self.containers.get(&container.name).cloned().unwrap_or_default();
        let new = container.resources.as_ref();
        let mixed = resources.iter().fold(before, |mixed, resource| mix(&mixed, new, resource));
        Container { resources: Some(mixed), ..container.clone() }
    }
}

/// `before`, with the amounts of one resource from `new`.
fn mix(before: &ResourceRequirements, new: Option<&ResourceRequirements>, resource: &str) -> ResourceRequirements {
    let list = |old: &Option<List>, new: Option<&List>| {
        let mut mixed = old.clone().unwrap_or_default();
        match new.and_then(|list| list.get(resource)) {
            Some(quantity) => mixed.insert(resource.to_owned(), quantity.clone()),
            None => mixed.remove(resource),
        };
        Some(mixed).filter(|list| !list.is_empty())
    };
    ResourceRequirements {
        limits: list(&before.limits, new.and_then(|r| r.limits.as_ref())),
        requests: list(&before.requests, new.and_then(|r| r.requests.as_ref())),
        claims: new.and_then(|r| r.claims.clone()),
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
pub fn lower_memory_limit(old: &CgroupValues, new: &CgroupValues) -> Option<i64> {
    new.memory_limit.filter(|new| *new > 0 && limit_of(old.memory_limit) > *new)
}

/// Values with room for both.
pub fn larger(a: &CgroupValues, b: &CgroupValues) -> CgroupValues {
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
