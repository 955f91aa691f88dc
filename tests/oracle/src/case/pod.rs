//! Pods, valid ones and odd ones.

use serde_json::{Map, Value, json};

use crate::rng::Rng;

/// What kind of container is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular one.
    Regular,
    /// An init container, or a sidecar.
    Init,
    /// An ephemeral one.
    Ephemeral,
}

/// A pod of at most `size` containers of each kind, at least one regular one.
pub fn pod(rng: &mut Rng, size: usize) -> Value {
    json!({ "metadata": { "name": "web", "namespace": "default", "uid": "u-1" }, "spec": spec(rng, size) })
}

/// The spec of a pod.
pub fn spec(rng: &mut Rng, size: usize) -> Value {
    let containers = |rng: &mut Rng, count: usize, prefix: &str, kind| -> Vec<Value> {
        (0..count).map(|place| container(rng, &format!("{prefix}{place}"), kind)).collect()
    };
    let mut spec = Map::new();
    spec.insert("restartPolicy".into(), (*rng.pick(&["Always", "OnFailure", "Never"])).into());
    let regular = 1 + rng.below(size.min(3));
    spec.insert("containers".into(), containers(rng, regular, "c", Kind::Regular).into());
    if rng.chance(50) {
        let init = rng.below(size + 1);
        spec.insert("initContainers".into(), containers(rng, init, "i", Kind::Init).into());
    }
    if rng.chance(15) {
        let ephemeral = 1 + rng.below(size.min(2));
        spec.insert("ephemeralContainers".into(), containers(rng, ephemeral, "e", Kind::Ephemeral).into());
    }
    if rng.chance(10) {
        spec.insert("hostNetwork".into(), true.into());
    }
    if rng.chance(15) {
        spec.insert("resources".into(), resources(rng));
    }
    Value::Object(spec)
}

/// One container.
pub fn container(rng: &mut Rng, name: &str, kind: Kind) -> Value {
    let mut container = Map::new();
    container.insert("name".into(), name.into());
    container.insert("image".into(), (*rng.pick(&["app:1", "app:2", "example.test/team/app@sha256:0123"])).into());
    if kind == Kind::Ephemeral {
        return Value::Object(container);
    }
    restart(rng, kind, &mut container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if rng.chance(25) {
            container.insert(probe.into(), json!({ "exec": { "command": ["true"] } }));
        }
    }
    if rng.chance(40) {
        container.insert("resources".into(), resources(rng));
    }
    if rng.chance(25) {
        let mut policies = Vec::new();
        for resource in ["cpu", "memory"] {
            if rng.chance(70) {
                let word = *rng.pick(&["NotRequired", "RestartContainer"]);
                policies.push(json!({ "resourceName": resource, "restartPolicy": word }));
            }
        }
        container.insert("resizePolicy".into(), policies.into());
    }
    Value::Object(container)
}

/// A restart policy of the container's own, and rules.
fn restart(rng: &mut Rng, kind: Kind, container: &mut Map<String, Value>) {
    let (own, rules) = if kind == Kind::Init { (50, 10) } else { (25, 12) };
    if rng.chance(own) {
        let words: &[&str] = if kind == Kind::Init {
            &["Always", "Always", "OnFailure", "Never"]
        } else {
            &["Always", "OnFailure", "Never"]
        };
        container.insert("restartPolicy".into(), (*rng.pick(words)).into());
        // The API wants a policy with rules; a manifest may say otherwise.
        if rng.chance(rules * 2) {
            container.insert("restartPolicyRules".into(), rules_of(rng));
        }
    } else if rng.chance(2) {
        container.insert("restartPolicyRules".into(), rules_of(rng));
    }
}

fn rules_of(rng: &mut Rng) -> Value {
    let rule = |rng: &mut Rng| {
        let codes: Vec<i64> = (0..1 + rng.below(2)).map(|_| *rng.pick(&EXIT_CODES)).collect();
        let action = rng.weighted(&[(6, "Restart"), (2, "RestartAllContainers"), (1, "Unheard")]);
        let operator = rng.weighted(&[(5, "In"), (3, "NotIn"), (1, "Unheard")]);
        if rng.chance(5) {
            json!({ "action": action })
        } else {
            json!({ "action": action, "exitCodes": { "operator": operator, "values": codes } })
        }
    };
    (0..1 + rng.below(2)).map(|_| rule(rng)).collect()
}

/// Exit codes that containers end with and that rules name.
pub const EXIT_CODES: [i64; 5] = [0, 1, 42, 137, 255];

/// Requests and limits, not always in proportion.
pub fn resources(rng: &mut Rng) -> Value {
    let list = |rng: &mut Rng| {
        let mut list = Map::new();
        if rng.chance(70) {
            list.insert("cpu".into(), (*rng.pick(&["0", "1m", "100m", "1", "1500m", "2"])).into());
        }
        if rng.chance(70) {
            list.insert("memory".into(), (*rng.pick(&["0", "64Mi", "100M", "1Gi", "1073741824"])).into());
        }
        Value::Object(list)
    };
    let mut resources = Map::new();
    for part in ["limits", "requests"] {
        if rng.chance(75) {
            resources.insert(part.into(), list(rng));
        }
    }
    Value::Object(resources)
}

/// The names of a pod's containers, with their lists in the spec.
pub fn containers(pod: &Value) -> Vec<&Value> {
    let list = |key: &str| pod["spec"][key].as_array().map(Vec::as_slice).unwrap_or_default();
    list("initContainers").iter().chain(list("containers")).chain(list("ephemeralContainers")).collect()
}
