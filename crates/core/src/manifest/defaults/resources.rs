//! Resource requests that follow from what else is said, of containers and of the pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::manifest::quantity::Quantity;

type ApiList = BTreeMap<String, ApiQuantity>;
type List = BTreeMap<String, Quantity>;

/// Pod-level quantities that were computed rather than written, by resource name.
#[derive(Default)]
pub(in crate::manifest) struct Derived {
    pub(in crate::manifest) limits: List,
    pub(in crate::manifest) requests: List,
}

/// upstream: v1/defaults.go SetDefaults_Pod (v1.36)
pub(super) fn requests_from_limits(container: &mut Container) {
    let Some(resources) = &mut container.resources else { return };
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// upstream: v1/defaults.go defaultHugePagePodLimits, defaultPodRequests (v1.36)
pub(super) fn pod_level_resources(spec: &mut PodSpec) -> Derived {
    let (limits_sum, requests_sum) = (aggregate_limits(spec), aggregate_requests(spec));
    let mut derived = Derived::default();
    let Some(resources) = &mut spec.resources else { return derived };
    let given = |list: &Option<ApiList>| list.as_ref().is_some_and(|list| !list.is_empty());
    if !given(&resources.limits) && !given(&resources.requests) {
        return derived;
    }

    // Huge pages cannot be overcommitted, so the pod's limit is at least what its containers may use.
    let requested = |name: &str| resources.requests.as_ref().is_some_and(|list| list.contains_key(name));
    derived.limits = limits_sum.into_iter().filter(|(name, _)| is_huge_page(name) && !requested(name)).collect();
    fill_in(&mut resources.limits, &mut derived.limits);
    if !given(&resources.limits) {
        return derived;
    }

    // What the containers ask for comes first; where they ask for nothing, the pod asks for its limit.
    derived.requests = requests_sum.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")).collect();
    for (name, limit) in resources.limits.iter().flatten() {
        if is_pod_level(name) && !derived.requests.contains_key(name) {
            let limit = derived.limits.get(name).cloned().or_else(|| limit.0.parse().ok());
            derived.requests.extend(limit.map(|limit| (name.clone(), limit)));
        }
    }
    fill_in(&mut resources.requests, &mut derived.requests);
    derived
}

/// Sets what is not set yet, and forgets the computed values that were not needed.
fn fill_in(list: &mut Option<ApiList>, computed: &mut List) {
    computed.retain(|name, _| !list.as_ref().is_some_and(|list| list.contains_key(name)));
    if !computed.is_empty() {
        let missing = computed.iter().map(|(name, quantity)| (name.clone(), ApiQuantity(quantity.to_string())));
        list.get_or_insert_default().extend(missing);
    }
}

pub(in crate::manifest) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub(in crate::manifest) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// What the containers of a pod request together at the most demanding moment of its life.
/// upstream: component-helpers/resource/helpers.go AggregateContainerRequests (v1.36)
pub(in crate::manifest) fn aggregate_requests(spec: &PodSpec) -> List {
    aggregate(spec, |container| container.resources.as_ref()?.requests.as_ref())
}

/// The same for limits.
pub(in crate::manifest) fn aggregate_limits(spec: &PodSpec) -> List {
    aggregate(spec, |container| container.resources.as_ref()?.limits.as_ref())
}

fn aggregate<'a>(spec: &'a PodSpec, pick: impl Fn(&'a Container) -> Option<&'a ApiList>) -> List {
    let list = |container| {
        let given = pick(container).into_iter().flatten();
        given.filter_map(|(name, quantity)| Some((name.clone(), quantity.0.parse().ok()?))).collect::<List>()
    };
    let mut total = List::new();
    for container in &spec.containers {
        add(&mut total, &list(container));
    }
    // Sidecars started so far run beside each init container that comes after them.
    let (mut sidecars, mut during_init) = (List::new(), List::new());
    for container in spec.init_containers.iter().flatten() {
        let mut wanted = list(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &wanted);
            add(&mut sidecars, &wanted);
            wanted.clone_from(&sidecars);
        } else {
            add(&mut wanted, &sidecars);
        }
        raise(&mut during_init, wanted);
    }
    raise(&mut total, during_init);
    total
}

fn add(total: &mut List, more: &List) {
    for (name, quantity) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(quantity),
            None => drop(total.insert(name.clone(), quantity.clone())),
        }
    }
}

fn raise(highest: &mut List, other: List) {
    for (name, mut quantity) in other {
        match highest.get_mut(&name) {
            Some(known) if quantity.cmp_value(known).is_gt() => {
                quantity.promote_like(known);
                *known = quantity;
            }
            Some(_) => {}
            None => drop(highest.insert(name, quantity)),
        }
    }
}
