//! `mergePodStatus` and `normalizeStatus`: what is written to the API, joined with what others own there.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::pod::PodExt as _;
use rubelet_core::status::{is_terminal, merge, normalise};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::{form, pod, status};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `status_manager.go` `mergePodStatus` (v1.36)
pub(super) struct MergePodStatus;
/// upstream: `status_manager.go` `normalizeStatus` (v1.36)
pub(super) struct NormalizeStatus;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    pod: Pod,
    #[serde(default)]
    ours: PodStatus,
    #[serde(default)]
    may_run: bool,
}

fn generate(rng: &mut Rng, size: usize) -> Value {
    let mut pod = pod::pod(rng, size);
    pod["status"] = status::generate(rng, &pod);
    let mut ours = status::generate(rng, &pod);
    ours["phase"] = status::phase(rng).into();
    if let Some(shown @ ("Succeeded" | "Failed")) = pod["status"]["phase"].as_str()
        && rng.chance(90)
    {
        ours["phase"] = shown.into();
    }
    if rng.chance(60) {
        ours["conditions"] = status::conditions(rng);
    }
    if rng.chance(10) {
        pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "1" });
    }
    if rng.chance(30) {
        pod["metadata"]["generation"] = rng.below(3).into();
    }
    lengthen(rng, &mut ours);
    json!({ "pod": pod, "ours": ours, "mayRun": rng.chance(40) })
}

/// Messages that exceed their share, and moments between seconds.
fn lengthen(rng: &mut Rng, ours: &mut Value) {
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in ours[list].as_array_mut().into_iter().flatten() {
            for state in ["state", "lastState"] {
                if let Some(end) = status[state].get_mut("terminated")
                    && rng.chance(20)
                {
                    end["message"] = "m".repeat(rng.below(14_000)).into();
                }
            }
        }
        if let Some(list) = ours[list].as_array_mut()
            && rng.chance(20)
        {
            list.reverse();
        }
    }
}

impl Function for MergePodStatus {
    fn name(&self) -> &'static str {
        "mergePodStatus"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["STAT-06", "STAT-07", "STAT-08", "TRAP-11"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        generate(rng, size)
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let shown = &case["pod"]["status"];
        let case: Case = read(case)?;
        let mut merged = serde_json::to_value(merge(&case.pod, &case.ours, case.may_run, Timestamp::UNIX_EPOCH))?;
        in_form(&mut merged, shown);
        Ok(merged)
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let case: Case = read(case).ok()?;
        let shown = case.pod.status.as_ref()?;
        (is_terminal(shown) && shown.phase != case.ours.phase && !case.pod.is_mirror())
            .then_some("a terminal phase that the API shows is never taken back")
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        if theirs.is_null() {
            return vec!["a status that takes the end of a container back is refused there, and never made here"];
        }
        in_form(theirs, &case["pod"]["status"]);
        Vec::new()
    }
}

impl Function for NormalizeStatus {
    fn name(&self) -> &'static str {
        "normalizeStatus"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["STAT-03"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        generate(rng, size)
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let mut case: Case = read(case)?;
        normalise(&case.pod, &mut case.ours);
        let mut status = serde_json::to_value(case.ours)?;
        form::normalise(&mut status);
        Ok(status)
    }

    fn adjust(&self, _: &Value, theirs: &mut Value) -> Vec<&'static str> {
        form::normalise(theirs);
        Vec::new()
    }
}

/// Times that are not taken from the API are those of the clock, or of the status decided before.
fn in_form(status: &mut Value, shown: &Value) {
    form::normalise(status);
    let mut shown = shown.clone();
    form::normalise(&mut shown);
    let Some(map) = status.as_object_mut() else { return };
    if shown["startTime"].is_null() {
        map.remove("startTime");
    }
    let conditions = map.get_mut("conditions").and_then(Value::as_object_mut);
    for (name, condition) in conditions.into_iter().flatten() {
        let from_case = |time: &Value| time.as_str().is_some_and(|time| time.starts_with("2026-01-01T"));
        if (shown["conditions"][name]["status"] != condition["status"] || !from_case(&condition["lastTransitionTime"]))
            && let Some(condition) = condition.as_object_mut()
        {
            condition.remove("lastTransitionTime");
        }
    }
}
