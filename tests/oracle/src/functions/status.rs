//! `generateAPIPodStatus`: container statuses, phase and conditions of a pod, from what was seen.

mod stated;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{PodAllocation, ResizeDecision, ResizeProgress};
use rubelet_core::status::{EndProgress, pod_status};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::gates::{self, RESTART_GATES, plan_gates};
use crate::case::observation::{self, Observation};
use crate::case::probes::{self, Probes};
use crate::case::{form, pod, status};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kubelet_pods.go` `generateAPIPodStatus`, `convertToAPIContainerStatuses`, `status/generate.go`,
/// `prober_manager.go` `UpdatePodStatus` (v1.36)
pub(super) struct GenerateApiPodStatus;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    pod: Pod,
    previous: Option<PodStatus>,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    probes: Probes,
    #[serde(default)]
    failures: BTreeMap<String, Failure>,
    #[serde(default)]
    terminal: bool,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default, rename = "hostIPs")]
    host_ips: Vec<IpAddr>,
    #[serde(default)]
    recursive_read_only: bool,
}

#[derive(Deserialize)]
struct Failure {
    reason: String,
    #[serde(default)]
    message: String,
}

impl Function for GenerateApiPodStatus {
    fn name(&self) -> &'static str {
        "generateAPIPodStatus"
    }

    fn rows(&self) -> &'static [&'static str] {
        &[
            "PST-01", "PST-02", "PST-03", "PST-04", "PST-05", "PST-10", "PST-11", "PST-12", "PST-20", "PST-30",
            "PRB-04", "PRB-11", "LOOP-11",
        ]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut pod = pod::pod(rng, size);
        if rng.chance(5) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
        }
        if rng.chance(30) {
            pod["metadata"]["generation"] = json!(rng.below(4));
        }
        if rng.chance(15) {
            pod["spec"]["readinessGates"] = json!([{ "conditionType": "example.test/gate" }]);
        }
        if rng.chance(10) {
            pod["spec"]["activeDeadlineSeconds"] = json!(rng.pick(&[1, 998, 999, 1000, 5000]));
        }
        let mut case = Map::new();
        let mut observation = observation::generate(rng, &pod, size);
        observation::report(rng, &mut observation);
        // A sandbox that is not ready has no address any more.
        for sandbox in observation["sandboxes"].as_array_mut().into_iter().flatten() {
            if sandbox["ready"] == false {
                sandbox["ips"] = json!([]);
            }
        }
        case.insert("probes".into(), probes::of_probed(rng, &pod, &observation));
        if rng.chance(60) {
            let mut previous = status::generate(rng, &pod);
            if rng.chance(10) {
                previous["conditions"] = resize_conditions(rng);
            }
            case.insert("previous".into(), previous);
        }
        if rng.chance(50) {
            pod["status"] = status::generate(rng, &pod);
            // The status manager keeps the start that the API server shows.
            if let (Some(start), Some(previous)) = (pod["status"].get("startTime"), case.get_mut("previous")) {
                previous["startTime"] = start.clone();
            }
        }
        case.insert("failures".into(), failures(rng, &pod));
        case.insert("terminal".into(), rng.chance(20).into());
        case.insert("gates".into(), gates::generate(rng, &RESTART_GATES));
        let hosts: &[&str] =
            rng.weighted(&[(6, &["192.0.2.1"][..]), (2, &["192.0.2.1", "fd01::1"]), (1, &["fd01::1"])]);
        case.insert("hostIPs".into(), json!(hosts));
        case.insert("observation".into(), observation);
        case.insert("pod".into(), pod);
        Value::Object(case)
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let seen = case.observation.view(&case.pod)?;
        let none = PodStatus::default();
        let word = |text: &str| WaitingReason::ALL.iter().copied().find(|reason| reason.as_str() == text);
        let failures: BTreeMap<String, StartFailure> = case
            .failures
            .iter()
            .filter_map(|(name, f)| {
                Some((name.clone(), StartFailure { reason: word(&f.reason)?, message: f.message.clone() }))
            })
            .collect();
        let node = NodeInputs {
            runtime_name: "oracle",
            host_ips: &case.host_ips,
            recursive_read_only: case.recursive_read_only,
            gates: plan_gates(&case.gates),
        };
        let (pod, probes) = (Arc::new(case.pod.clone()), Arc::new(case.probes.view()));
        let actuated = Arc::new(PodAllocation::of(&case.pod));
        let previous = case.previous.as_ref().or(case.pod.status.as_ref()).unwrap_or(&none);
        let (decision, progress) = (ResizeDecision::of(previous), ResizeProgress::of(previous));
        let inputs = PodInputs {
            failures: &failures,
            actuated: Some(&actuated),
            resize_pending: decision.pending.as_ref(),
            resize_progress: progress.condition(),
            end: if case.terminal { EndProgress::Stopped } else { EndProgress::MayRun },
            ..PodInputs::new(&pod, &probes, node)
        };
        let now = Timestamp::from_nanosecond(i128::from(observation::EPOCH) + 1_000_000_000_000)?;
        let mut status = serde_json::to_value(pod_status(&inputs, &seen, previous, now))?;
        in_form(&mut status, &case);
        Ok(status)
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        if theirs["reason"] == "DeadlineExceeded" && self.is_over_without_deadline(case) {
            *theirs = Value::Null;
            return vec!["a pod that had ended by then is not failed by its deadline"];
        }
        let Ok(case) = read::<Case>(case) else { return Vec::new() };
        in_form(theirs, &case);
        let Ok(seen) = case.observation.view(&case.pod) else { return Vec::new() };
        stated::apply(&case, &seen, theirs)
    }
}

impl GenerateApiPodStatus {
    fn is_over_without_deadline(&self, case: &Value) -> bool {
        let mut case = case.clone();
        case["pod"]["spec"]["activeDeadlineSeconds"] = Value::Null;
        self.ours(&case).is_ok_and(|status| matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")))
    }
}

/// What is decided here: times and generations are the status manager's, resources of a running pod are read from its cgroup.
fn in_form(status: &mut Value, case: &Case) {
    form::normalise(status);
    let Some(map) = status.as_object_mut() else { return };
    map.remove("startTime");
    map.remove("observedGeneration");
    if case.pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running") {
        map.remove("resources");
    }
    for (name, condition) in map.get_mut("conditions").and_then(Value::as_object_mut).into_iter().flatten() {
        if name != "example.test/gate"
            && let Some(condition) = condition.as_object_mut()
        {
            condition.remove("lastTransitionTime");
            condition.remove("observedGeneration");
        }
    }
}

fn resize_conditions(rng: &mut Rng) -> Value {
    let pending = json!({
        "type": "PodResizePending", "status": "True", "reason": rng.pick(&["Deferred", "Infeasible"]), "message": "no room",
    });
    let progress = json!({ "type": "PodResizeInProgress", "status": "True" });
    match rng.below(3) {
        0 => json!([pending]),
        1 => json!([progress]),
        _ => json!([pending, progress]),
    }
}

fn failures(rng: &mut Rng, pod: &Value) -> Value {
    let mut failures = Map::new();
    for container in pod::containers(pod) {
        if rng.chance(20) {
            let reason = rng.pick(&["CrashLoopBackOff", "ErrImagePull", "CreateContainerError", "RunContainerError"]);
            let name = container["name"].as_str().unwrap_or_default();
            failures.insert(name.to_owned(), json!({ "reason": reason, "message": "it failed" }));
        }
    }
    Value::Object(failures)
}
