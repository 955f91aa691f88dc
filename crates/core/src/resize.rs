//! The resources of a pod while it lives (section 16): desired, allocated, actuated.
//!
//! ```text
//!  desired (spec) ──admission──► allocated (all decisions go by it) ──calls of the runtime──► actuated
//! ```
//!
//! A resize is a move from left to right. The allocated resources replace those of the spec before any other module sees
//! the pod ([`with_allocation`]), so that no other module knows of the difference (RSZ-01).

mod actuate;
mod checkpoint;
mod plan;
mod queue;
mod requested;
mod state;
mod verdict;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub use actuate::{Actuation, LoweredLimit, ResizeStep, limits_below_usage};
pub use checkpoint::{CheckpointError, decode, encode};
pub use plan::{Resize, ResizeContainer, ResizePlan, Sizes, in_progress, pod_level_changes, resize, starts_resized};
pub use queue::{PendingResize, by_turn};
pub use requested::{Change, Requested, Requirement, Resized, requested};
pub use state::{
    DEFERRED, ERROR, INFEASIBLE, RESIZE_IN_PROGRESS, RESIZE_PENDING, ResizeCondition, ResizeDecision, ResizeProgress,
};
pub use verdict::{Infeasible, feasible};
pub use words::{completed, failed, pending, started};

use crate::pod::PodExt;
use crate::resources::{Amount, CPU, MEMORY};

/// The allocated or the actuated resources of a pod.
#[doc(alias = "PodResourceInfo")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAllocation {
    /// Resources of regular, init and sidecar containers, by name. Ephemeral containers cannot be resized (RSZ-11).
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Resources of the pod as a whole, if it has any.
    pub pod: Option<ResourceRequirements>,
}

impl PodAllocation {
    /// The resources in the spec of `pod`.
    #[doc(alias = "allocationFromPod")]
    pub fn of(pod: &Pod) -> Self {
        let resources = |c: &Container| (c.name.clone(), c.resources.clone().unwrap_or_default());
        Self {
            containers: pod.init().iter().chain(pod.regular()).map(resources).collect(),
            pod: pod.pod_spec().and_then(|spec| spec.resources.clone()),
        }
    }

    /// The actuated resources of a pod whose containers have all that is allocated to them.
    #[doc(alias = "UpdateActuatedPodLevelResources")]
    pub fn actuated(pod: &Pod) -> Self {
        let mut actuated =
            Self { containers: BTreeMap::new(), pod: pod.pod_spec().and_then(|spec| spec.resources.clone()) };
        pod.init().iter().chain(pod.regular()).for_each(|container| actuated.set(pod, container));
        actuated
    }

    /// Records the resources of `container` as actuated. A container without a limit has the limit of its pod, and keeps it
    /// when the pod gets another, until the runtime changes the container.
    #[doc(alias = "setActuatedContainerResources")]
    pub fn set(&mut self, pod: &Pod, container: &Container) {
        self.containers.insert(container.name.clone(), with_pod_limits(pod, container.resources.as_ref()));
    }
}

/// The resources of a container, with the pod's limits of CPU and memory where the container has none.
///
/// upstream: util/util.go GetLimits (v1.36)
fn with_pod_limits(pod: &Pod, container: Option<&ResourceRequirements>) -> ResourceRequirements {
    let mut resources = container.cloned().unwrap_or_default();
    let of_pod = pod.pod_spec().and_then(|spec| spec.resources.as_ref()).and_then(limits);
    for (name, limit) in of_pod.into_iter().flatten().filter(|(name, _)| [CPU, MEMORY].contains(&name.as_str())) {
        let own = resources.limits.as_ref().and_then(|list| list.get(name)).map(Amount::of).unwrap_or_default();
        if own.is_zero() && !Amount::of(limit).is_zero() {
            resources.limits.get_or_insert_default().insert(name.clone(), limit.clone());
        }
    }
    resources
}

/// The pod with its allocated resources in place of those in its spec; `None` if they are equal.
#[doc(alias = "UpdatePodFromAllocation")]
pub fn with_allocation(pod: &Pod, allocation: &PodAllocation) -> Option<Arc<Pod>> {
    let spec = pod.pod_spec()?;
    let differs = |c: &Container| {
        allocation.containers.get(&c.name).is_some_and(|allocated| !same(c.resources.as_ref(), Some(allocated)))
    };
    let pod_differs = !same(spec.resources.as_ref(), allocation.pod.as_ref());
    if !pod_differs && !pod.init().iter().chain(pod.regular()).any(differs) {
        return None;
    }
    let mut allocated = pod.clone();
    let spec = allocated.spec.as_mut()?;
    if pod_differs {
        spec.resources.clone_from(&allocation.pod);
    }
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(resources) = allocation.containers.get(&container.name) {
            container.resources = Some(resources.clone());
        }
    }
    Some(Arc::new(allocated))
}

/// Whether both have the same amounts, however these are written: `1` and `1000m`, no list and an empty list.
pub fn same(a: Option<&ResourceRequirements>, b: Option<&ResourceRequirements>) -> bool {
    let list = |of: Option<&ResourceRequirements>, pick: Pick| -> BTreeMap<String, Amount> {
        let list = of.and_then(pick).into_iter().flatten();
        list.map(|(name, quantity)| (name.clone(), Amount::of(quantity))).collect()
    };
    let claims = |of: Option<&ResourceRequirements>| of.and_then(|r| r.claims.clone()).unwrap_or_default();
    list(a, limits) == list(b, limits) && list(a, requests) == list(b, requests) && claims(a) == claims(b)
}

type List = BTreeMap<String, Quantity>;
type Pick = fn(&ResourceRequirements) -> Option<&List>;

fn limits(of: &ResourceRequirements) -> Option<&List> {
    of.limits.as_ref()
}

fn requests(of: &ResourceRequirements) -> Option<&List> {
    of.requests.as_ref()
}
