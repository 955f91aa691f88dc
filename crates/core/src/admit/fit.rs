//! Whether a pod fits: resources, node, ports, taints (ADM-05).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerPort, Pod, Taint, Toleration};

use super::affinity::matches_node;
use super::{AdmitView, Allocation, Rejection};
use crate::pod::{PodExt, is_sidecar};
use crate::qos::is_critical;
use crate::resources::{Amount, Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, pod_requests};

/// A host port without an address is taken on all addresses.
const EVERY_ADDRESS: &str = "0.0.0.0";

/// A resource that the node lacks. CPU is counted in thousandths.
#[doc(alias = "InsufficientResourceError")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Name of the resource.
    pub resource: String,
    /// The request of the pod.
    pub requested: i64,
    /// The sum of other allocations.
    pub used: i64,
    /// The allocatable amount of the node.
    pub capacity: i64,
}

impl Shortage {
    fn new(resource: &str, requested: i64, used: i64, capacity: i64) -> Self {
        Self { resource: resource.to_owned(), requested, used, capacity }
    }

    /// How much is missing.
    pub fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    fn rejection(&self) -> Rejection {
        let Self { resource, requested, used, capacity } = self;
        Rejection::new(
            format!("OutOf{resource}"),
            format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        )
    }
}

/// upstream: lifecycle/predicate.go generalFilter, preemption/preemption.go HandleAdmissionFailure (v1.36)
pub(super) fn check(view: &AdmitView<'_>, pod: &Pod, others: &[Allocation]) -> Result<(), Rejection> {
    let shortages = shortages(view, pod, others);
    let placement = placement(view, pod, others);
    match (shortages.first(), placement) {
        (None, None) => Ok(()),
        (None, Some(placement)) => Err(placement),
        // A critical pod that lacks only resources preempts others.
        (Some(_), Some(placement)) if is_critical(pod) => Err(placement),
        (Some(_), None) if is_critical(pod) => Err(no_room(pod, others, shortages)),
        (Some(first), _) => Err(first.rejection()),
    }
}

/// The rejection of a critical pod: other pods may be preempted, or cannot free enough.
fn no_room(pod: &Pod, others: &[Allocation], shortages: Vec<Shortage>) -> Rejection {
    let victims: Vec<&Allocation> = others.iter().filter(|other| can_preempt(pod, &other.pod)).collect();
    let mut missing = String::new();
    for shortage in &shortages {
        let name = shortage.resource.as_str();
        let freed = victims.iter().map(|victim| request(&victim.requests, name)).fold(0, i64::saturating_add);
        let left = shortage.missing().saturating_sub(freed);
        if left > 0 {
            missing.push_str(&format!("(res: {name}, q: {left}), "));
        }
    }
    let mut rejection = match shortages.first() {
        Some(first) if missing.is_empty() => first.rejection(),
        _ => Rejection::new(
            "UnexpectedAdmissionError",
            format!(
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set \
                 of pods to preempt: no set of running pods found to reclaim resources: [{missing}]"
            ),
        ),
    };
    rejection.shortages = shortages;
    rejection
}

/// upstream: types/pod_update.go Preemptable (v1.36)
#[doc(alias = "Preemptable")]
pub(super) fn can_preempt(pod: &Pod, other: &Pod) -> bool {
    let priority = |pod: &Pod| pod.pod_spec().and_then(|spec| spec.priority);
    let higher = priority(pod).zip(priority(other)).is_some_and(|(own, other)| own > other);
    (is_critical(pod) && !is_critical(other)) || higher
}

/// upstream: scheduler/framework/plugins/noderesources/fit.go fitsRequest (v1.36)
fn shortages(view: &AdmitView<'_>, pod: &Pod, others: &[Allocation]) -> Vec<Shortage> {
    let mut found = Vec::new();
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    let most = view.allocatable.get(PODS).map_or(0, |pods| pods.value());
    if count.saturating_add(1) > most {
        found.push(Shortage::new(PODS, 1, count, most));
    }
    let wanted = requests(pod);
    let rest = wanted.keys().map(String::as_str).filter(|name| ![CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(name));
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE].into_iter().chain(rest) {
        let requested = request(&wanted, name);
        // No device plugin serves an extended resource that the node does not list: its capacity is zero, and the pod must
        // not run without it. Upstream admits such a pod, because the resource may be one of the whole cluster.
        if requested == 0 {
            continue;
        }
        let used = others.iter().map(|other| request(&other.requests, name)).fold(0, i64::saturating_add);
        let capacity = in_units(name, view.allocatable.get(name).copied().unwrap_or_default());
        if requested > capacity.saturating_sub(used) {
            found.push(Shortage::new(name, requested, used, capacity));
        }
    }
    found
}

pub(super) fn requests(pod: &Pod) -> Amounts {
    let mut list = pod_requests(pod);
    list.insert(PODS.to_owned(), Amount::units(1));
    list
}

pub(super) fn request(list: &Amounts, name: &str) -> i64 {
    in_units(name, list.get(name).copied().unwrap_or_default())
}

fn in_units(name: &str, amount: Amount) -> i64 {
    if name == CPU { amount.millis() } else { amount.value() }
}

/// Why the pod does not belong on this node, apart from resources.
fn placement(view: &AdmitView<'_>, pod: &Pod, others: &[Allocation]) -> Option<Rejection> {
    if !matches_node(pod, view.node_name, view.labels) {
        return Some(Rejection::predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
    }
    let name = pod.pod_spec().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    if !name.is_empty() && name != view.node_name {
        return Some(Rejection::predicate("NodeName", "node(s) didn't match the requested node name"));
    }
    let wanted = HostPorts::of(pod);
    if others.iter().flat_map(|other| host_ports(&other.pod)).any(|taken| wanted.conflicts(taken)) {
        return Some(Rejection::predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
    }
    let tolerations = pod.pod_spec().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let repels = |taint: &&Taint| taint.effect == "NoExecute" && !tolerations.iter().any(|t| tolerates(t, taint));
    if !pod.is_static() && view.taints.iter().find(repels).is_some() {
        return Some(Rejection::predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"));
    }
    None
}

/// Host ports of sidecars and regular containers.
#[doc(alias = "GetHostPorts")]
fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let staying = pod.init().iter().filter(|init| is_sidecar(init)).chain(pod.regular());
    staying.flat_map(|c| c.ports.iter().flatten()).filter(|port| port.host_port.is_some_and(|port| port > 0))
}

/// The host ports of a pod: addresses by protocol and number. Each port of the other pods is looked up once, so that the
/// cost grows with the sum of all ports and not with their product.
struct HostPorts<'a>(BTreeMap<(&'a str, Option<i32>), BTreeSet<&'a str>>);

impl<'a> HostPorts<'a> {
    fn of(pod: &'a Pod) -> Self {
        let mut wanted: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for port in host_ports(pod) {
            wanted.entry(key(port)).or_default().insert(address(port));
        }
        Self(wanted)
    }

    /// One of these ports has the protocol and number of the taken port, and the same address or either of them all.
    fn conflicts(&self, taken: &ContainerPort) -> bool {
        let there = address(taken);
        let here = self.0.get(&key(taken));
        here.is_some_and(|here| there == EVERY_ADDRESS || here.contains(EVERY_ADDRESS) || here.contains(there))
    }
}

fn key(port: &ContainerPort) -> (&str, Option<i32>) {
    (port.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP"), port.host_port)
}

fn address(port: &ContainerPort) -> &str {
    port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or(EVERY_ADDRESS)
}

pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let (effect, key) = (any(toleration.effect.as_deref()), any(toleration.key.as_deref()));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    let (ours, theirs) = (any(toleration.value.as_deref()), any(taint.value.as_deref()));
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => ours == theirs,
        "Exists" => true,
        _ => false,
    }
}
