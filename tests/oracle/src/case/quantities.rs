//! Amounts of resources, in every spelling that the API takes, and pods that ask for them in every place.

use serde_json::{Map, Value, json};

use super::pod;
use crate::rng::Rng;

/// Amounts of CPU. Upstream's arithmetic is not safe beyond these; nobody has such a machine.
const CPU: [&str; 20] = [
    "0", "1n", "999u", "1m", "1.5m", "9m", "10m", "100m", "0.1", "250m", "333m", "0.5", "1", "1.0", "1500m", "2",
    "1e1", "3k", "1Ki", "256",
];
/// Amounts of bytes.
const BYTES: [&str; 20] = [
    "0",
    "1",
    "1m",
    "1500m",
    "0.5",
    "1k",
    "1Ki",
    "4096",
    "64Mi",
    "100M",
    "1e8",
    "1.5Gi",
    "1Gi",
    "1073741824",
    "2G",
    "12e9",
    "16Gi",
    "1Ti",
    "1.25Ti",
    "4Pi",
];
/// Huge page resources.
const PAGES: [&str; 4] = ["hugepages-2Mi", "hugepages-1Gi", "hugepages-64Ki", "hugepages-512Mi"];

/// An amount of CPU.
pub fn cpu(rng: &mut Rng) -> &'static str {
    rng.pick::<&str>(&CPU)
}

/// An amount of bytes.
pub fn bytes(rng: &mut Rng) -> &'static str {
    rng.pick::<&str>(&BYTES)
}

/// A list of amounts.
pub fn list(rng: &mut Rng) -> Value {
    let mut list = Map::new();
    if rng.chance(70) {
        list.insert("cpu".into(), cpu(rng).into());
    }
    if rng.chance(70) {
        list.insert("memory".into(), bytes(rng).into());
    }
    if rng.chance(10) {
        list.insert("ephemeral-storage".into(), bytes(rng).into());
    }
    if rng.chance(15) {
        list.insert((*rng.pick(&PAGES)).into(), (*rng.pick(&["0", "2Mi", "4Mi", "1Gi", "6291456"])).into());
    }
    Value::Object(list)
}

/// Requests and limits: none, both, often the same.
pub fn resources(rng: &mut Rng) -> Value {
    let limits = list(rng);
    match rng.below(5) {
        0 => json!({}),
        1 => json!({ "requests": limits }),
        2 => json!({ "limits": limits }),
        3 => json!({ "limits": limits, "requests": limits }),
        _ => json!({ "limits": limits, "requests": list(rng) }),
    }
}

/// A pod that asks for amounts in its containers, for itself, as overhead, and whose status and priority may say what it is.
pub fn pod(rng: &mut Rng, size: usize) -> Value {
    let mut pod = pod::pod(rng, size);
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("resources");
                if rng.chance(70) {
                    container.insert("resources".into(), resources(rng));
                }
            }
        }
    }
    let spec = pod["spec"].as_object_mut().expect("a pod has a spec");
    spec.remove("resources");
    if rng.chance(25) {
        spec.insert("resources".into(), resources(rng));
    }
    if rng.chance(15) {
        spec.insert("overhead".into(), list(rng));
    }
    if rng.chance(20) {
        let priority = *rng.pick(&[-1, 0, 1, 1_999_999_999, 2_000_000_000, 2_000_001_000]);
        spec.insert("priority".into(), priority.into());
    }
    if rng.chance(10) {
        let class = *rng.pick(&["system-node-critical", "system-cluster-critical", "high"]);
        spec.insert("priorityClassName".into(), class.into());
    }
    if rng.chance(15) {
        pod["status"] = json!({ "qosClass": rng.pick(&["Guaranteed", "Burstable", "BestEffort"]) });
    }
    if rng.chance(10) {
        pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.source": rng.pick(&["file", "http", "api"]) });
    } else if rng.chance(5) {
        pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "0" });
    }
    pod
}

/// A pod without overhead on top of resources of its own: where such an amount is a fraction, upstream adds the overhead to
/// the spec itself whenever it sums up, so that a second sum is another one.
pub fn pod_summed_up(rng: &mut Rng, size: usize) -> Value {
    let mut pod = pod(rng, size);
    if let Some(spec) = pod["spec"].as_object_mut().filter(|spec| spec.contains_key("resources")) {
        spec.remove("overhead");
    }
    pod
}
