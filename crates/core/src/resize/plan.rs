//! Plans how allocated resources are actuated (RSZ-07 … RSZ-10).

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::PodAllocation;
use crate::id::ContainerId;
use crate::observe::PodObservation;
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
    /// The pod's cgroup has to change: for resources of the pod itself, or for a container that restarts with another size.
    pub pod: bool,
}

impl ResizePlan {
    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.cpu.is_empty() && !self.pod
    }
}

/// A container that changes in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeContainer {
    /// The running instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// The new memory limit in bytes, if it is lower than before or the first one. It must be above the usage (RSZ-08).
    pub lower_memory_limit: Option<i64>,
}

/// The resources of a container that a resize can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    memory_limit: i64,
    memory_request: i64,
    cpu_limit: i64,
    cpu_request: i64,
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

/// The sizes of a container as actuated and as allocated. `None` if they are equal, or if the actuated resources are not
/// known: a lost checkpoint must not restart a container.
fn change(pod: &Pod, container: &Container, actuated: &PodAllocation) -> Option<(Sizes, Sizes)> {
    let before = actuated.containers.get(&container.name)?;
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let old = Sizes::of(actuated.pod.as_ref(), Some(before));
    let new = Sizes::of(pod_level, container.resources.as_ref());
    (old != new).then_some((old, new))
}

/// A running container has to be restarted to get its allocated resources (RSZ-09).
pub fn requires_restart(pod: &Pod, container: &Container, actuated: &PodAllocation) -> bool {
    let Some((old, new)) = change(pod, container, actuated) else { return false };
    let restarts = |resource: &str| {
        let policies = container.resize_policy.as_deref().unwrap_or_default();
        let policy = policies.iter().find(|policy| policy.resource_name == resource);
        policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
    };
    (old.memory_to(new).is_ne() && restarts(MEMORY)) || (old.cpu_to(new).is_ne() && restarts(CPU))
}

/// Which running containers change in place, and whether the pod's cgroup does.
///
/// upstream: kuberuntime_manager.go computePodResizeAction, computePodLevelResourcesResizeAction (v1.36)
#[doc(alias = "computePodResizeAction")]
pub fn plan_resize(pod: &Pod, seen: &PodObservation, actuated: &PodAllocation) -> ResizePlan {
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let pod_changes = Sizes::of(None, actuated.pod.as_ref()) != Sizes::of(None, pod_level);
    let mut plan = ResizePlan { pod: pod_changes, ..ResizePlan::default() };
    for container in pod.init().iter().chain(pod.regular()) {
        let Some((old, new)) = change(pod, container, actuated) else { continue };
        let running = seen.current(&container.name).filter(|c| c.state.is_running());
        // An ordinary init container is resized only while it runs (RSZ-11).
        if running.is_none() && !stays(pod, container) {
            continue;
        }
        let Some(running) = running.filter(|_| !requires_restart(pod, container, actuated)) else {
            // The container gets its new size when it starts; the cgroup of the pod needs room for it by then.
            plan.pod = true;
            continue;
        };
        let lowers = new.memory_limit != 0 && (old.memory_limit == 0 || new.memory_limit < old.memory_limit);
        let resize = ResizeContainer {
            id: running.id.clone(),
            name: container.name.clone(),
            lower_memory_limit: lowers.then_some(new.memory_limit),
        };
        put(&mut plan.memory, old.memory_to(new), &resize);
        put(&mut plan.cpu, old.cpu_to(new), &resize);
    }
    plan
}

/// Inserts containers that shrink at the front, and appends those that grow.
fn put(list: &mut Vec<ResizeContainer>, old_to_new: Ordering, resize: &ResizeContainer) {
    match old_to_new {
        Ordering::Less => list.push(resize.clone()),
        Ordering::Equal => {}
        Ordering::Greater => list.insert(0, resize.clone()),
    }
}

/// A running container lacks resources that are allocated to it.
#[doc(alias = "IsPodResizeInProgress")]
pub fn in_progress(pod: &Pod, seen: &PodObservation, actuated: &PodAllocation) -> bool {
    let runs = |c: &&Container| seen.current(&c.name).is_some_and(|c| c.state.is_running());
    let stay = pod.init().iter().chain(pod.regular()).filter(|c| stays(pod, c));
    let lags = stay.filter(runs).any(|c| change(pod, c, actuated).is_some());
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let pod_lags = actuated.pod.is_some() && Sizes::of(None, actuated.pod.as_ref()) != Sizes::of(None, pod_level);
    lags || (pod_level.is_some() && pod_lags)
}

/// The container runs as long as the pod does. A resize is complete without the ordinary init containers.
#[doc(alias = "isResizableContainer")]
fn stays(pod: &Pod, container: &Container) -> bool {
    is_sidecar(container) || pod.regular().iter().any(|c| c.name == container.name)
}
