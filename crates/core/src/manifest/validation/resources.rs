//! Resource requests and limits, of containers and of the whole pod.
//!
//! upstream: core/validation/validation.go validateResourceRequirements, validatePodResources (v1.36)

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::faults::Faults;
use super::{Context, names, text};
use crate::manifest::defaults::{aggregate_limits, aggregate_requests, is_huge_page, is_pod_level};
use crate::manifest::field::Path;
use crate::manifest::quantity::Quantity;

type ApiList = BTreeMap<String, ApiQuantity>;

/// Names without a domain that mean something somewhere in the API, though not all of them in a pod.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// Of those, the ones that are counted.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whose resources they are: names that are fine for a container are not all fine for a pod.
#[derive(Clone, Copy)]
enum Owner {
    Container,
    Pod,
}

pub(super) fn container(context: &Context<'_>, resources: &ResourceRequirements, at: &Path, faults: &mut Faults) {
    requirements(resources, Owner::Container, at, faults);
    claims(context, resources.claims.as_deref().unwrap_or_default(), &at.child("claims"), faults);
}

pub(super) fn overhead(overhead: &ApiList, at: &Path, faults: &mut Faults) {
    let limits = ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
    requirements(&limits, Owner::Container, at, faults);
}

pub(super) fn pod(context: &Context<'_>, resources: &ResourceRequirements, at: &Path, faults: &mut Faults) {
    let at = at.child("resources");
    if context.spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return faults.forbidden(&at, "a Windows pod cannot have it");
    }
    if let Some(list) = resources.claims.as_ref().filter(|list| !list.is_empty()) {
        faults.forbidden(&at.child("claims"), "only containers can have claims");
        claims(context, list, &at.child("claims"), faults);
    }
    requirements(resources, Owner::Pod, &at, faults);
    containers_fit(context, resources, &at, faults);
}

/// What the containers want together must fit in what the pod has.
fn containers_fit(context: &Context<'_>, resources: &ResourceRequirements, at: &Path, faults: &mut Faults) {
    let of_pod = |list: &Option<ApiList>, name: &str| list.as_ref()?.get(name)?.0.parse::<Quantity>().ok();
    for (name, sum) in aggregate_requests(context.spec) {
        if let Some(own) = of_pod(&resources.requests, &name).filter(|own| sum.cmp_value(own).is_gt()) {
            let detail = format!("must be at least {sum}, which its containers request together");
            faults.invalid(&at.child("requests").key(&name), own, detail);
        }
    }
    for (name, sum) in aggregate_limits(context.spec).into_iter().filter(|(name, _)| is_huge_page(name)) {
        if let Some(own) = of_pod(&resources.limits, &name).filter(|own| sum.cmp_value(own).is_gt()) {
            let detail = format!("must be at least {sum}, the limits of its containers together");
            faults.invalid(&at.child("limits").key(&name), own, detail);
        }
    }
    for (index, container) in context.spec.containers.iter().enumerate() {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        for (name, limit) in limits.into_iter().flatten() {
            let (Some(own), Ok(limit)) = (of_pod(&resources.limits, name), limit.0.parse::<Quantity>()) else {
                continue;
            };
            if limit.cmp_value(&own).is_gt() {
                let at = Path::new("spec.containers").index(index).child("resources").child("limits").key(name);
                faults.invalid(&at, limit, format!("must be at most {own}, the limit of the pod"));
            }
        }
    }
}

fn requirements(resources: &ResourceRequirements, owner: Owner, at: &Path, faults: &mut Faults) {
    let (limits, requests) = (parsed(resources.limits.as_ref()), parsed(resources.requests.as_ref()));
    for (list, name) in [(&limits, "limits"), (&requests, "requests")] {
        for (resource, quantity) in list {
            amount(resource, quantity, owner, &at.child(name).key(resource), faults);
        }
    }
    for (name, request) in &requests {
        let limit = limits.get(name);
        let place = at.child("requests").key(name);
        match limit.map(|limit| (limit, request.cmp_value(limit))) {
            None if may_overcommit(name) => {}
            None => faults.required(&at.child("limits").key(name), "requests and limits must be equal for it"),
            Some((limit, order)) if order.is_ne() && !may_overcommit(name) => {
                faults.invalid(&place, request, format!("must be equal to its limit of {limit}"));
            }
            Some((limit, order)) if order.is_gt() => {
                faults.invalid(&place, request, format!("must be at most its limit of {limit}"));
            }
            Some(_) => {}
        }
    }
    let mut all = limits.keys().chain(requests.keys());
    if all.clone().any(|name| is_huge_page(name)) && !all.any(|name| matches!(*name, "cpu" | "memory")) {
        faults.forbidden(at, "huge pages need cpu or memory beside them");
    }
}

fn parsed(list: Option<&ApiList>) -> BTreeMap<&str, Quantity> {
    let entries = list.into_iter().flatten();
    entries.filter_map(|(name, quantity)| Some((name.as_str(), quantity.0.parse().ok()?))).collect()
}

fn amount(name: &str, quantity: &Quantity, owner: Owner, at: &Path, faults: &mut Faults) {
    resource_name(name, owner, at, faults);
    if quantity.sign() < 0 {
        faults.invalid(at, quantity, "must not be negative");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_whole() {
        faults.invalid(at, quantity, "must be a whole number");
    }
    if is_huge_page(name) && !fits_pages(name, quantity) {
        faults.invalid(at, quantity, "must be a multiple of the page size");
    }
}

fn resource_name(name: &str, owner: Owner, at: &Path, faults: &mut Faults) {
    if let Err(detail) = names::qualified_name(name) {
        faults.invalid(at, name, detail);
        if matches!(owner, Owner::Pod) {
            return;
        }
    } else if !name.contains('/') && !is_standard(name) {
        faults.invalid(at, name, "must be a standard resource or have a domain and '/' before it");
        return;
    }
    match owner {
        Owner::Pod if !is_pod_level(name) => faults.unsupported(at, name, &["cpu", "memory", "hugepages-<size>"]),
        Owner::Container if !name.contains('/') => {
            if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
                faults.invalid(at, name, "is not a resource that containers can have");
            }
        }
        Owner::Container if !is_native(name) && !is_extended(name) => {
            faults.invalid(at, name, "is not a valid name of an extended resource");
        }
        Owner::Container | Owner::Pod => {}
    }
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource of somebody's own, which devices provide.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_ok()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn fits_pages(name: &str, quantity: &Quantity) -> bool {
    let size = name.strip_prefix("hugepages-").and_then(|size| size.parse::<Quantity>().ok());
    size.is_some_and(|size| size.sign() > 0 && size.is_whole() && quantity.is_multiple_of(size.value()))
}

fn claims(context: &Context<'_>, claims: &[ResourceClaim], at: &Path, faults: &mut Faults) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        let (name, request) = (claim.name.as_str(), text(claim.request.as_ref()));
        if name.is_empty() {
            faults.required(&at, "");
            continue;
        }
        // The whole claim includes each of its requests, and what was listed before it as a whole is looked at no further.
        if seen.contains(&(name, "")) {
            faults.duplicate(&at, name);
        } else {
            if !request.is_empty() {
                faults.rule(&at.child("request"), request, names::dns_label(request));
            }
            let overlaps = request.is_empty() && seen.iter().any(|(other, _)| *other == name);
            if !seen.insert((name, request)) || overlaps {
                faults.duplicate(&at, name);
            }
        }
        let known = context.spec.resource_claims.iter().flatten().any(|known| known.name == name);
        if !known {
            faults.not_found(&at, name);
        }
    }
}
