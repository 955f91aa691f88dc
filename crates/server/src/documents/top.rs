//! What pods and containers use now, for `rubelet top`.

use rubelet_core::usage::{CgroupKind, ContainerUsage, NodeUsage, PodUsage};
use serde::{Deserialize, Serialize};

use super::NodeLimits;
use rubelet_core::resources::{CPU, MEMORY};

/// The node, and its pods that run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopDocument {
    /// The whole machine.
    pub node: Used,
    /// The machine's CPUs, in thousandths.
    pub cpu_capacity_millis: i64,
    /// The machine's memory.
    pub memory_capacity_bytes: i64,
    /// Pods with a sandbox or a container that runs, by namespace and name.
    pub pods: Vec<TopPod>,
}

/// CPU and memory in use; `None` if it could not be measured, or not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// In billionths of a core.
    pub cpu_nanocores: Option<u64>,
    /// The working set: memory that cannot be reclaimed at once.
    pub memory_bytes: Option<u64>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// What all of it uses.
    #[serde(flatten)]
    pub used: Used,
    /// Its containers that run, by name.
    pub containers: Vec<TopContainer>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopContainer {
    /// Name.
    pub name: String,
    /// What it uses.
    #[serde(flatten)]
    pub used: Used,
    /// Its memory limit.
    pub memory_limit_bytes: Option<u64>,
}

/// What pods and containers use.
#[must_use]
pub fn top_document(usage: &NodeUsage, limits: &NodeLimits) -> TopDocument {
    let capacity = |name: &str| limits.capacity.get(name).copied().unwrap_or_default();
    TopDocument {
        node: of_node(usage),
        cpu_capacity_millis: capacity(CPU).millis(),
        memory_capacity_bytes: capacity(MEMORY).value(),
        pods: usage.pods.iter().map(|pod| of_pod(usage, pod)).collect(),
    }
}

/// What the whole machine uses.
pub(super) fn of_node(usage: &NodeUsage) -> Used {
    let root = usage.sample.cgroups.iter().find(|(_, cgroup)| cgroup.kind == CgroupKind::Root);
    used(usage, root.map(|(path, _)| path.as_str()))
}

/// What the cgroup at `path` uses.
pub(super) fn used(usage: &NodeUsage, path: Option<&str>) -> Used {
    let Some(path) = path else { return Used::default() };
    let memory = usage.sample.cgroups.get(path).and_then(|cgroup| cgroup.usage.memory.as_ref());
    Used {
        cpu_nanocores: usage.cpu_rates.get(path).copied(),
        memory_bytes: memory.map(rubelet_core::usage::MemoryUsage::working_set),
    }
}

fn of_pod(usage: &NodeUsage, pod: &PodUsage) -> TopPod {
    TopPod {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.pod.uid.to_string(),
        used: used(usage, pod.cgroup.as_deref()),
        containers: pod.containers.iter().map(|container| of_container(usage, container)).collect(),
    }
}

fn of_container(usage: &NodeUsage, container: &ContainerUsage) -> TopContainer {
    let cgroup = container.cgroup.as_deref().and_then(|path| usage.sample.cgroups.get(path));
    TopContainer {
        name: container.name.clone(),
        used: used(usage, container.cgroup.as_deref()),
        memory_limit_bytes: cgroup.and_then(|cgroup| cgroup.limits.memory),
    }
}
