//! The sums of a pod's requests and limits.
//!
//! Regular containers run together: their sum. An init container runs alone but beside the sidecars before it: the
//! greatest such moment counts if it exceeds the sum. Sidecars stay: they are in the sum as well. Pod-level values
//! replace the sum, overhead comes on top.
//!
//! upstream: component-helpers/resource/helpers.go PodRequests, PodLimits (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Amount, CPU, HUGEPAGES_PREFIX, MEMORY};
use crate::pod::{PodExt, is_sidecar};

/// Amounts by resource name.
#[doc(alias = "ResourceList")]
pub type Amounts = BTreeMap<String, Amount>;

/// Reads the API's list.
pub fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    list.into_iter().flatten().map(|(name, quantity)| (name.clone(), Amount::of(quantity))).collect()
}

/// What the pod requests: containers, or the pod-level values in their place, and overhead.
pub fn pod_requests(pod: &Pod) -> Amounts {
    let mut sum = pod_requests_without_overhead(pod);
    add(&mut sum, &overhead(pod));
    sum
}

/// What the pod's containers request together.
#[doc(alias = "AggregateContainerRequests")]
pub fn container_requests(pod: &Pod) -> Amounts {
    aggregate(pod, &requests, &mut |_| {})
}

/// What the pod's containers request, or the pod-level values in their place.
pub fn pod_requests_without_overhead(pod: &Pod) -> Amounts {
    let mut sum = container_requests(pod);
    if has_pod_level_requests(pod) {
        replace(&mut sum, pod_level(pod).and_then(|r| r.requests.as_ref()));
    }
    sum
}

/// What the pod is limited to, overhead included where there is a limit at all.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let mut sum = pod_limits_without_overhead(pod);
    for (name, more) in overhead(pod) {
        if let Some(limit) = sum.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = *limit + more;
        }
    }
    sum
}

/// What the pod's containers are limited to, or the pod-level values in their place.
pub fn pod_limits_without_overhead(pod: &Pod) -> Amounts {
    let mut sum = aggregate(pod, &limits, &mut |_| {});
    if has_pod_level_resources(pod) {
        replace(&mut sum, pod_level(pod).and_then(|r| r.limits.as_ref()));
    }
    sum
}

/// The limits in force at each moment that the sum looks at: one list per regular container, and one per init
/// container together with the sidecars before it. Whether every one of them has a limit decides whether the pod has.
pub fn limits_per_container(pod: &Pod) -> Vec<Amounts> {
    let mut lists = Vec::new();
    aggregate(pod, &limits, &mut |list| lists.push(list.clone()));
    lists
}

/// The pod has pod-level resources of a supported kind.
#[doc(alias = "IsPodLevelResourcesSet")]
pub fn has_pod_level_resources(pod: &Pod) -> bool {
    let names = |list: Option<&BTreeMap<String, Quantity>>| {
        list.is_some_and(|list| list.keys().any(|name| is_pod_level_resource(name)))
    };
    pod_level(pod).is_some_and(|r| names(r.requests.as_ref()) || names(r.limits.as_ref()))
}

/// The pod has pod-level requests of a supported kind.
#[doc(alias = "IsPodLevelRequestsSet")]
pub fn has_pod_level_requests(pod: &Pod) -> bool {
    let requests = pod_level(pod).and_then(|r| r.requests.as_ref());
    requests.is_some_and(|list| list.keys().any(|name| is_pod_level_resource(name)))
}

/// This resource is supported at pod level.
#[doc(alias = "IsSupportedPodLevelResource")]
pub fn is_pod_level_resource(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

fn pod_level(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.pod_spec()?.resources.as_ref()
}

fn overhead(pod: &Pod) -> Amounts {
    amounts(pod.pod_spec().and_then(|spec| spec.overhead.as_ref()))
}

fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

fn limits(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|r| r.limits.as_ref()))
}

fn aggregate(pod: &Pod, of: &dyn Fn(&Container) -> Amounts, moment: &mut dyn FnMut(&Amounts)) -> Amounts {
    let mut sum = Amounts::new();
    for container in pod.regular() {
        let own = of(container);
        moment(&own);
        add(&mut sum, &own);
    }
    let mut sidecars = Amounts::new();
    let mut initialising = Amounts::new();
    for container in pod.init() {
        let mut now = of(container);
        if is_sidecar(container) {
            add(&mut sum, &now);
            add(&mut sidecars, &now);
            now = sidecars.clone();
        } else {
            add(&mut now, &sidecars);
        }
        moment(&now);
        raise(&mut initialising, &now);
    }
    raise(&mut sum, &initialising);
    sum
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = *entry + *amount;
    }
}

fn raise(sum: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        let entry = sum.entry(name.clone()).or_insert(*amount);
        *entry = (*entry).max(*amount);
    }
}

fn replace(sum: &mut Amounts, by: Option<&BTreeMap<String, Quantity>>) {
    for (name, quantity) in by.into_iter().flatten().filter(|(name, _)| is_pod_level_resource(name)) {
        sum.insert(name.clone(), Amount::of(quantity));
    }
}
