//! The words of an eviction (EV-14).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::stats::{ContainerStats, PodStats};
use super::{Observation, Starved, Threshold};
use crate::manifest::quantity::{Format, Quantity};
use crate::pod::PodExt;
use crate::resources::has_pod_level_resources;

/// The shortage that a message is about: the threshold and what was left.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLow {
    /// What the node is short of.
    pub resource: Starved,
    /// The threshold and what was left; `None` if that is unknown.
    pub figures: Option<(Quantity, Quantity)>,
}

impl NodeLow {
    /// Of a threshold that was met with this observation.
    #[doc(alias = "getThresholdMetInfo")]
    pub fn of(threshold: &Threshold, seen: Option<Observation>) -> Self {
        let resource = threshold.signal.resource();
        let format = match threshold.signal.resource() {
            Starved::Memory | Starved::EphemeralStorage => Format::BinarySi,
            Starved::Inodes | Starved::Pids => Format::DecimalSi,
        };
        let figures = seen.map(|seen| (threshold.value.of(seen.capacity), Quantity::units(seen.available, format)));
        Self { resource, figures }
    }
}

/// The message of the pod's status and of the event, and the event's annotations.
/// upstream: eviction/helpers.go evictionMessage (v1.36)
#[doc(alias = "evictionMessage")]
pub fn eviction_message(low: &NodeLow, pod: &Pod, stats: Option<&PodStats>) -> (String, BTreeMap<String, String>) {
    let resource = low.resource;
    let mut message = format!("The node was low on resource: {resource}. ");
    if let Some((quantity, available)) = &low.figures {
        message.push_str(&format!("Threshold quantity: {quantity}, available: {available}. "));
    }
    let mut annotations = BTreeMap::new();
    let Some(stats) = stats else { return (message, annotations) };
    let mut annotate = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    if let Some((used, requested)) = whole_pod(low, pod, stats) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        message.push_str(&over("Pod", name, &used, &requested, resource));
        annotate("offending_pod", name.to_owned());
        annotate("offending_pod_usage", used.to_string());
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for container in &stats.containers {
        let spec = pod.regular().iter().chain(pod.init()).find(|spec| spec.name == container.name);
        let Some((spec, used)) = spec.zip(container_use(resource, container)) else { continue };
        let requested = container_request(spec, resource);
        if used.cmp_value(&requested) == Ordering::Greater {
            message.push_str(&over("Container", &spec.name, &used, &requested, resource));
            names.push(spec.name.clone());
            usages.push(used.to_string());
        }
    }
    annotate("offending_containers", names.join(","));
    annotate("offending_containers_usage", usages.join(","));
    annotate("starved_resource", resource.as_str().to_owned());
    (message, annotations)
}

fn over(kind: &str, name: &str, used: &Quantity, requested: &Quantity, resource: Starved) -> String {
    format!("{kind} {name} was using {used}, request is {requested}, has larger consumption of {resource}. ")
}

/// A pod with resources of its own is named as a whole, however much it uses of them.
fn whole_pod(low: &NodeLow, pod: &Pod, stats: &PodStats) -> Option<(Quantity, Quantity)> {
    if low.resource != Starved::Memory || !has_pod_level_resources(pod) {
        return None;
    }
    let requests = pod.pod_spec()?.resources.as_ref()?.requests.as_ref()?;
    let requested = requests.get(low.resource.as_str())?.0.parse().ok()?;
    Some((bytes(stats.memory?), requested))
}

fn container_use(resource: Starved, container: &ContainerStats) -> Option<Quantity> {
    match resource {
        Starved::Memory => container.memory.map(bytes),
        Starved::EphemeralStorage => {
            let (layer, logs) = (container.layer?.bytes?, container.logs?.bytes?);
            Some(bytes(layer.saturating_add(logs)))
        }
        Starved::Inodes | Starved::Pids => None,
    }
}

fn container_request(container: &Container, resource: Starved) -> Quantity {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let requested = requests.and_then(|requests| requests.get(resource.as_str()));
    let requested = requested.and_then(|quantity| quantity.0.trim().parse().ok());
    requested.unwrap_or_else(|| Quantity::units(0, Format::DecimalSi))
}

pub(super) fn bytes(number: u64) -> Quantity {
    Quantity::units(i64::try_from(number).unwrap_or(i64::MAX), Format::BinarySi)
}
