//! `getPhase`: the phase of a pod from the statuses of its containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::status::{PhaseFacts, pod_phase};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::gates::{self, RESTART_GATES, plan_gates};
use crate::case::{pod, status};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kubelet_pods.go` `getPhase` (v1.36)
pub(super) struct GetPhase;

#[derive(Deserialize)]
struct Case {
    pod: Pod,
    #[serde(default)]
    terminal: bool,
    #[serde(default)]
    initialised: bool,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
}

impl Function for GetPhase {
    fn name(&self) -> &'static str {
        "getPhase"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["PST-10", "PST-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut pod = pod::pod(rng, size);
        pod["status"] = status::generate(rng, &pod);
        if rng.chance(10) {
            pod["metadata"]["annotations"] =
                json!({ "kubernetes.io/config.source": rng.pick(&["file", "http", "api"]) });
        }
        let gates = gates::generate(rng, &RESTART_GATES);
        json!({ "pod": pod, "terminal": rng.chance(30), "initialised": rng.chance(40), "gates": gates })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let facts = PhaseFacts {
            terminal: case.terminal,
            initialised: case.initialised,
            abandoned: false,
            gates: plan_gates(&case.gates),
        };
        let status = case.pod.status.clone().unwrap_or_default();
        Ok(pod_phase(&case.pod, &status, facts).as_str().into())
    }
}
