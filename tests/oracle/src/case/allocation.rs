//! What the runtime was last asked to give to a pod's containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use rubelet_core::resize::PodAllocation;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::pod;
use crate::rng::Rng;

/// Actuated resources of `pod`: often those of its spec, else some amounts are others and some records are missing.
pub fn actuated(rng: &mut Rng, pod: &Value) -> Value {
    let other = rng.chance(65);
    let spec = &pod["spec"];
    let mut containers = Map::new();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().map(Vec::as_slice).unwrap_or_default() {
            let own = container.get("resources").cloned().unwrap_or_else(|| json!({}));
            let record = if other && rng.chance(60) { before(rng, own) } else { own };
            if !other || !rng.chance(4) {
                containers.insert(container["name"].as_str().unwrap_or_default().to_owned(), record);
            }
        }
    }
    let mut allocation = json!({ "containers": containers });
    let pod_level = match spec.get("resources").cloned() {
        Some(own) if other && rng.chance(50) => Some(before(rng, own)).filter(|_| rng.chance(85)),
        None if other && rng.chance(5) => Some(pod::resources(rng)),
        own => own,
    };
    if let Some(pod_level) = pod_level {
        allocation["pod"] = pod_level;
    }
    allocation
}

/// Those of its spec: nothing is left to resize.
pub fn settled(pod: &Value) -> Value {
    let spec = &pod["spec"];
    let lists =
        ["initContainers", "containers"].map(|list| spec[list].as_array().map(Vec::as_slice).unwrap_or_default());
    let containers = lists.into_iter().flatten().map(|container| {
        let own = container.get("resources").cloned().unwrap_or_else(|| json!({}));
        (container["name"].as_str().unwrap_or_default().to_owned(), own)
    });
    let mut allocation = json!({ "containers": containers.collect::<Map<_, _>>() });
    if let Some(pod_level) = spec.get("resources") {
        allocation["pod"] = pod_level.clone();
    }
    allocation
}

/// What `resources` may have been before a resize.
fn before(rng: &mut Rng, mut resources: Value) -> Value {
    if rng.chance(30) {
        return pod::resources(rng);
    }
    let other = pod::resources(rng);
    for list in ["limits", "requests"] {
        for resource in ["cpu", "memory"] {
            if rng.chance(40)
                && let Some(amount) = other[list].get(resource)
            {
                resources[list][resource] = amount.clone();
            }
        }
    }
    resources
}

/// The record of a case.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Actuated {
    /// By name of the container.
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Of the pod itself.
    pub pod: Option<ResourceRequirements>,
}

impl Actuated {
    /// As the engine records it: the limits of the pod are those of containers that have none.
    pub fn view(self, pod: &Pod) -> PodAllocation {
        let mut before = pod.clone();
        before.spec.get_or_insert_default().resources.clone_from(&self.pod);
        let mut record = PodAllocation { containers: BTreeMap::new(), pod: self.pod };
        for (name, resources) in self.containers {
            record.set(&before, &Container { name, resources: Some(resources), ..Container::default() });
        }
        record
    }
}
