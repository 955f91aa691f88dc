//! Plans how allocated resources are actuated (RSZ-07 … RSZ-10).

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::PodAllocation;
use crate::id::ContainerId;
use crate::observe::{ContainerObservation, PodObservation};
use crate::pod::{PodExt, is_sidecar};
use crate::resources::{Amount, CPU, MEMORY};

/// Running containers whose resources change in place. Memory changes first, then CPU, and within each the containers that
/// shrink before those that grow, so that the sum of the pod never exceeds both the old and the new sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePlan {
    /// Containers whose memory changes, in order.
    pub memory: Vec<ResizeContainer>,
    /// Containers whose CPU changes, in order.
    pub cpu: Vec<ResizeContainer>,
    /// The pod's cgroup has to change: for resources of the pod itself, or for a container that starts with another size.
    pub pod: bool,
}

impl ResizePlan {
    /// The plan for running containers that change in place, in the order in which they were looked at.
    pub fn of(containers: impl IntoIterator<Item = ResizeContainer>) -> Self {
        let mut plan = Self::default();
        for container in containers {
            put(&mut plan.memory, container.old.memory_to(container.new), &container);
            put(&mut plan.cpu, container.old.cpu_to(container.new), &container);
        }
        plan
    }

    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.cpu.is_empty() && !self.pod
    }
}

/// Inserts containers that shrink at the front, and appends those that grow.
fn put(list: &mut Vec<ResizeContainer>, old_to_new: Ordering, resize: &ResizeContainer) {
    match old_to_new {
        Ordering::Less => list.push(resize.clone()),
        Ordering::Equal => {}
        Ordering::Greater => list.insert(0, resize.clone()),
    }
}

/// A container that changes in place.
#[doc(alias = "containerToUpdateInfo")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeContainer {
    /// The running instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// The actuated resources.
    pub old: Sizes,
    /// The allocated resources.
    pub new: Sizes,
}

impl ResizeContainer {
    /// The new memory limit in bytes, if it is lower than before or the first one. It must be above the usage (RSZ-08).
    pub fn lower_memory_limit(&self) -> Option<i64> {
        let (old, new) = (self.old.memory_limit, self.new.memory_limit);
        (new != 0 && (old == 0 || new < old)).then_some(new)
    }
}

/// The resources of a container or of a pod that a resize can change. An amount that is not set is 0.
#[doc(alias = "resourceRequirements")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes.
    pub memory_limit: i64,
    /// Bytes.
    pub memory_request: i64,
    /// Thousandths of a CPU.
    pub cpu_limit: i64,
    /// Thousandths of a CPU.
    pub cpu_request: i64,
}

impl Sizes {
    fn of(pod: Option<&ResourceRequirements>, container: Option<&ResourceRequirements>) -> Self {
        let get = |of: Option<&ResourceRequirements>, pick: super::Pick, name: &str| {
            of.and_then(pick).and_then(|list| list.get(name)).map(Amount::of).filter(|amount| !amount.is_zero())
        };
        // A container without a limit is bounded by the limit of its pod.
        let limit = |name| get(container, super::limits, name).or_else(|| get(pod, super::limits, name));
        let request = |name| get(container, super::requests, name);
        Self {
            memory_limit: limit(MEMORY).unwrap_or_default().value(),
            memory_request: request(MEMORY).unwrap_or_default().value(),
            cpu_limit: limit(CPU).unwrap_or_default().millis(),
            cpu_request: request(CPU).unwrap_or_default().millis(),
        }
    }

    fn memory_to(self, new: Self) -> Ordering {
        self.memory_limit.cmp(&new.memory_limit).then(self.memory_request.cmp(&new.memory_request))
    }

    fn cpu_to(self, new: Self) -> Ordering {
        self.cpu_limit.cmp(&new.cpu_limit).then(self.cpu_request.cmp(&new.cpu_request))
    }
}

fn pod_level(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.pod_spec().and_then(|spec| spec.resources.as_ref())
}

/// How a running container gets its allocated resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Its resize policy requires a restart (RSZ-09).
    Restart,
    /// The runtime changes the resources while the container runs.
    InPlace(ResizeContainer),
}

/// How the running instance of `container` gets its allocated resources. `None` if it has them, or if the actuated
/// resources are not known: a lost checkpoint must not restart a container.
///
/// upstream: kuberuntime_manager.go computePodResizeAction (v1.36)
#[doc(alias = "computePodResizeAction")]
pub fn resize(
    pod: &Pod,
    container: &Container,
    running: &ContainerObservation,
    actuated: &PodAllocation,
) -> Option<Resize> {
    let (old, new) = change(pod, container, actuated)?;
    let restarts = |resource: &str| {
        let policies = container.resize_policy.as_deref().unwrap_or_default();
        let policy = policies.iter().find(|policy| policy.resource_name == resource);
        policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
    };
    if (old.memory_to(new).is_ne() && restarts(MEMORY)) || (old.cpu_to(new).is_ne() && restarts(CPU)) {
        return Some(Resize::Restart);
    }
    Some(Resize::InPlace(ResizeContainer { id: running.id.clone(), name: container.name.clone(), old, new }))
}

/// The sizes of a container as actuated and as allocated, if the actuated ones are known and not equal.
fn change(pod: &Pod, container: &Container, actuated: &PodAllocation) -> Option<(Sizes, Sizes)> {
    let before = actuated.containers.get(&container.name)?;
    let old = Sizes::of(actuated.pod.as_ref(), Some(before));
    let new = Sizes::of(pod_level(pod), container.resources.as_ref());
    (old != new).then_some((old, new))
}

/// The resources of the pod itself are not those that are actuated.
///
/// upstream: kuberuntime_manager.go computePodLevelResourcesResizeAction (v1.36)
#[doc(alias = "computePodLevelResourcesResizeAction")]
pub fn pod_level_changes(pod: &Pod, actuated: &PodAllocation) -> bool {
    Sizes::of(None, actuated.pod.as_ref()) != Sizes::of(None, pod_level(pod))
}

/// A container that is about to start gets other resources than the pod's cgroup was made for. Without a record of the
/// container the cgroup is taken for made without it.
///
/// upstream: kuberuntime_manager.go startingResizedContainer (v1.36)
#[doc(alias = "startingResizedContainer")]
pub fn starts_resized(pod: &Pod, container: &Container, actuated: &PodAllocation) -> bool {
    let old = Sizes::of(actuated.pod.as_ref(), actuated.containers.get(&container.name));
    old != Sizes::of(pod_level(pod), container.resources.as_ref())
}

/// A running container lacks resources that are allocated to it.
#[doc(alias = "IsPodResizeInProgress")]
pub fn in_progress(pod: &Pod, seen: &PodObservation, actuated: &PodAllocation) -> bool {
    let runs = |c: &&Container| seen.current(&c.name).is_some_and(|c| c.state.is_running());
    let stay = pod.init().iter().chain(pod.regular()).filter(|c| stays(pod, c));
    let lags = stay.filter(runs).any(|c| change(pod, c, actuated).is_some());
    let pod_lags = actuated.pod.is_some() && pod_level_changes(pod, actuated);
    lags || (pod_level(pod).is_some() && pod_lags)
}

/// The container runs as long as the pod does. A resize is complete without the ordinary init containers.
#[doc(alias = "isResizableContainer")]
fn stays(pod: &Pod, container: &Container) -> bool {
    is_sidecar(container) || pod.regular().iter().any(|c| c.name == container.name)
}
