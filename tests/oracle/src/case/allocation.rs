//! What the runtime was last asked to give to a pod's containers.

use serde_json::{Map, Value, json};

/// What the spec says: nothing is left to resize.
pub fn actuated(pod: &Value) -> Value {
    let spec = &pod["spec"];
    let mut containers = Map::new();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().map(Vec::as_slice).unwrap_or_default() {
            let own = container.get("resources").cloned().unwrap_or_else(|| json!({}));
            containers.insert(container["name"].as_str().unwrap_or_default().to_owned(), own);
        }
    }
    let mut allocation = json!({ "containers": containers });
    if let Some(pod_level) = spec.get("resources") {
        allocation["pod"] = pod_level.clone();
    }
    allocation
}
