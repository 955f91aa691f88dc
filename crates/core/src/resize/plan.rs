//! What the runtime has to be told so that it does what was allocated (RSZ-07 … RSZ-10).

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::PodAllocation;
use crate::id::ContainerId;
use crate::observe::PodObservation;
use crate::pod::{PodExt, is_sidecar};
use crate::resources::{Amount, CPU, MEMORY};

/// Running containers whose resources change in place. Memory goes first, then CPU, and within each what shrinks before
/// what grows, so that the sum of the pod never exceeds both the old and the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizePlan {
    /// Whose memory changes, in order.
    pub memory: Vec<ResizeContainer>,
    /// Whose CPU changes, in order.
    pub cpu: Vec<ResizeContainer>,
    /// The pod's own cgroup has to change: by its own resources, or because a container comes back with others.
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
    /// Its memory limit gets lower, or it gets one: must be above what it uses (RSZ-08). In bytes.
    pub lower_memory_limit: Option<i64>,
}

/// What a container has of the resources that can change.
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
        // A container without a limit lives under the pod's.
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

/// How a container's sizes change: from what the runtime was told to what was allocated. `None` if they do not, or if
/// nothing is known of what it was told: a lost record must not restart a container.
fn change(pod: &Pod, container: &Container, told: &PodAllocation) -> Option<(Sizes, Sizes)> {
    let before = told.containers.get(&container.name)?;
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let old = Sizes::of(told.pod.as_ref(), Some(before));
    let new = Sizes::of(pod_level, container.resources.as_ref());
    (old != new).then_some((old, new))
}

/// A running container has to be restarted to get what was allocated to it (RSZ-09).
pub fn requires_restart(pod: &Pod, container: &Container, told: &PodAllocation) -> bool {
    let Some((old, new)) = change(pod, container, told) else { return false };
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
pub fn plan_resize(pod: &Pod, seen: &PodObservation, told: &PodAllocation) -> ResizePlan {
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let pod_changes = Sizes::of(None, told.pod.as_ref()) != Sizes::of(None, pod_level);
    let mut plan = ResizePlan { pod: pod_changes, ..ResizePlan::default() };
    for container in pod.init().iter().chain(pod.regular()) {
        let Some((old, new)) = change(pod, container, told) else { continue };
        let running = seen.current(&container.name).filter(|c| c.state.is_running());
        // An ordinary init container changes while it runs, and before and after that counts for nothing (RSZ-11).
        if running.is_none() && !stays(pod, container) {
            continue;
        }
        let Some(running) = running.filter(|_| !requires_restart(pod, container, told)) else {
            // It gets its new size when it starts; the pod's cgroup has to have room for it then.
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

/// What shrinks goes to the front, what grows to the end.
fn put(list: &mut Vec<ResizeContainer>, old_to_new: Ordering, resize: &ResizeContainer) {
    match old_to_new {
        Ordering::Less => list.push(resize.clone()),
        Ordering::Equal => {}
        Ordering::Greater => list.insert(0, resize.clone()),
    }
}

/// Something that runs has not got yet what was allocated to it.
#[doc(alias = "IsPodResizeInProgress")]
pub fn in_progress(pod: &Pod, seen: &PodObservation, told: &PodAllocation) -> bool {
    let runs = |c: &&Container| seen.current(&c.name).is_some_and(|c| c.state.is_running());
    let stay = pod.init().iter().chain(pod.regular()).filter(|c| stays(pod, c));
    let lags = stay.filter(runs).any(|c| change(pod, c, told).is_some());
    let pod_level = pod.pod_spec().and_then(|spec| spec.resources.as_ref());
    let pod_lags = told.pod.is_some() && Sizes::of(None, told.pod.as_ref()) != Sizes::of(None, pod_level);
    lags || (pod_level.is_some() && pod_lags)
}

/// It runs as long as the pod does: the resize of an ordinary init container is not waited for.
#[doc(alias = "isResizableContainer")]
fn stays(pod: &Pod, container: &Container) -> bool {
    is_sidecar(container) || pod.regular().iter().any(|c| c.name == container.name)
}
