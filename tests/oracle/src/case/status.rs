//! Statuses of pods as the API has them: what was decided before, or what others wrote.

use serde_json::{Map, Value, json};

use super::pod::EXIT_CODES;
use crate::rng::Rng;

const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];
const CONDITIONS: [&str; 7] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "DisruptionTarget",
    "example.test/gate",
];

/// The status of `pod`, which may or may not fit what a runtime shows of it.
pub fn generate(rng: &mut Rng, pod: &Value) -> Value {
    let mut status = Map::new();
    let mut put = |key: &str, value: Value| status.insert(key.to_owned(), value);
    put("phase", rng.weighted(&[(4, "Pending"), (6, "Running"), (1, "Succeeded"), (1, "Failed")]).into());
    if rng.chance(15) {
        put("reason", (*rng.pick(&["Evicted", "NodeShutdown"])).into());
    }
    if rng.chance(15) {
        put("message", "somebody said so".into());
    }
    if rng.chance(40) {
        put("conditions", conditions(rng));
    }
    if rng.chance(30) {
        put("startTime", "2026-01-01T00:00:01Z".into());
    }
    if rng.chance(40) {
        put("podIP", "10.0.0.9".into());
        put("podIPs", json!([{ "ip": "10.0.0.9" }]));
    }
    for (list, statuses) in [
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        let specs = pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut all = Vec::new();
        for spec in specs {
            if rng.chance(75) {
                all.push(container(rng, spec, list));
            }
        }
        if !all.is_empty() {
            put(statuses, all.into());
        }
    }
    Value::Object(status)
}

/// A terminal or another phase, each as often.
pub fn phase(rng: &mut Rng) -> &'static str {
    let phase: &&str = rng.pick(&PHASES);
    phase
}

/// Some conditions, true or false.
pub fn conditions(rng: &mut Rng) -> Value {
    let mut all = Vec::new();
    for name in CONDITIONS {
        if rng.chance(50) {
            all.push(json!({
                "type": name, "status": rng.pick(&["True", "False"]), "lastTransitionTime": "2026-01-01T00:00:05Z",
            }));
        }
    }
    if rng.chance(4) {
        all.push(json!({ "type": "AllContainersRestarting", "status": rng.pick(&["True", "False"]) }));
    }
    all.into()
}

/// The status of one container of a list of the spec.
fn container(rng: &mut Rng, spec: &Value, list: &str) -> Value {
    let name = spec["name"].as_str().unwrap_or_default();
    let mut status = Map::new();
    let mut put = |key: &str, value: Value| status.insert(key.to_owned(), value);
    put("name", name.into());
    put("image", spec["image"].clone());
    put("imageID", "sha256:abc".into());
    let id = format!("oracle://{name}-{}", rng.below(3));
    if rng.chance(85) {
        put("containerID", id.clone().into());
    }
    put("restartCount", rng.below(4).into());
    let kind = rng.weighted(&[(4, "running"), (4, "terminated"), (3, "waiting")]);
    put("state", state(rng, kind, &id));
    if rng.chance(30) {
        put("lastState", state(rng, "terminated", &id));
    }
    if kind == "running" && list != "ephemeralContainers" {
        put("started", spec.get("startupProbe").is_none().into());
        put("ready", spec.get("readinessProbe").is_none().into());
    }
    Value::Object(status)
}

fn state(rng: &mut Rng, kind: &str, id: &str) -> Value {
    match kind {
        "running" => json!({ "running": { "startedAt": "2026-01-01T00:03:21Z" } }),
        "terminated" => json!({ "terminated": {
            "exitCode": rng.pick(&EXIT_CODES), "reason": rng.weighted(&[(8, "Error"), (1, "RestartingAllContainers")]),
            "containerID": id, "startedAt": "2026-01-01T00:03:00Z", "finishedAt": "2026-01-01T00:03:10Z",
        } }),
        _ => {
            let reasons = ["ContainerCreating", "PodInitializing", "CrashLoopBackOff", "RestartingAllContainers"];
            json!({ "waiting": { "reason": rng.pick(&reasons) } })
        }
    }
}
