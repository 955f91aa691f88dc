//! `computePodActions`: what has to happen for a pod to be as it should, and what `SyncPod` removes with it.

mod resize;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::observe::{ContainerState, PodObservation};
use rubelet_core::plan::{
    KillReason, PodPlan, SandboxNeed, SandboxPlan, plan_pod, restarts_all, restarts_on_exit, sandbox_need,
};
use rubelet_core::pod::{PodExt as _, RestartPolicy, Role};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::allocation::{self, Actuated};
use crate::case::gates::{self, PLAN_GATES, plan_gates};
use crate::case::observation::{self, Observation};
use crate::case::pod;
use crate::case::probes::{self, Probes};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kuberuntime_manager.go` `computePodActions`, `purgeInitContainers`, `pruneInitContainersBeforeStart` (v1.36)
pub(super) struct ComputePodActions;

#[derive(Deserialize)]
struct Case {
    pod: Pod,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    probes: Probes,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    actuated: Option<Actuated>,
}

impl Function for ComputePodActions {
    fn name(&self) -> &'static str {
        "computePodActions"
    }

    fn rows(&self) -> &'static [&'static str] {
        &[
            "RT-01", "RT-02", "RT-03", "RT-06", "RT-10", "RT-11", "RT-12", "RT-20", "RT-21", "RT-22", "RT-23", "RT-24",
            "RT-30", "RT-31", "RT-32", "RT-33", "RSZ-07", "RSZ-09", "RSZ-11",
        ]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let pod = pod::pod(rng, size);
        let observation = observation::generate(rng, &pod, size);
        let probes = probes::generate(rng, &observation);
        let actuated = allocation::actuated(rng, &pod);
        let gates = gates::generate(rng, &PLAN_GATES);
        json!({ "pod": pod, "observation": observation, "probes": probes, "gates": gates, "actuated": actuated })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let seen = case.observation.view(&case.pod)?;
        let (pod, probes) = (Arc::new(case.pod), Arc::new(case.probes.view()));
        let node = NodeInputs {
            runtime_name: "oracle",
            host_ips: &[],
            recursive_read_only: false,
            gates: plan_gates(&case.gates),
        };
        let actuated = case.actuated.map(|actuated| Arc::new(actuated.view(&pod)));
        let inputs = PodInputs { actuated: actuated.as_ref(), ..PodInputs::new(&pod, &probes, node) };
        let starts_over = restarts_all(&pod, &seen, inputs.node.gates);
        Ok(answer(&plan_pod(&inputs, &seen), starts_over))
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let case: Case = read(case).ok()?;
        let seen = case.observation.view(&case.pod).ok()?;
        let gates = plan_gates(&case.gates);
        let twice = |name: &str| {
            let newest = seen.newest(name).map(|c| &c.id);
            seen.instances(name).any(|c| c.state.is_running() && newest != Some(&c.id))
        };
        let keeps = matches!(sandbox_need(&case.pod, &seen), SandboxNeed::Keep(_));
        let only_created = seen.containers.iter().all(|c| matches!(c.state, ContainerState::Created));
        if case.pod.is_deleted() {
            Some("upstream plans no pod that has been deleted: in ours nothing starts, starts over or is resized")
        } else if seen.containers.iter().any(|c| twice(&c.name)) {
            Some("an instance that runs counts, though a newer one does not; older ones that run are stopped")
        } else if case.actuated.is_none() {
            Some("what was actuated is not known: nothing is resized")
        } else if !keeps && restarts_all(&case.pod, &seen, gates) {
            Some("a pod that starts over gets its sandbox when its containers are cleared away")
        } else if !keeps
            && case.pod.restart_policy() == RestartPolicy::Never
            && !seen.containers.is_empty()
            && only_created
        {
            Some("a pod that never restarts and whose containers never ran gets another sandbox")
        } else {
            None
        }
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let (Some(plan), Ok(case)) = (theirs.as_object_mut(), read::<Case>(case)) else { return Vec::new() };
        let Ok(seen) = case.observation.view(&case.pod) else { return Vec::new() };
        let mut stated = Vec::new();
        in_our_form(plan);
        stated.extend(resize::without_record(&case, &seen, plan));
        if plan["sandbox"].get("create").is_some() {
            let gates = plan_gates(&case.gates);
            let over = case.pod.regular().iter().all(|c| {
                let exit = seen.newest(&c.name).and_then(|c| c.state.exit());
                exit.is_some_and(|exit| !restarts_on_exit(&case.pod, c, exit.code, gates))
            });
            if over {
                stated.push("a pod whose containers have all ended for good gets no other sandbox");
                for (key, value) in [("sandbox", Value::Null), ("startInit", json!([])), ("startRegular", json!([]))] {
                    plan.insert(key.into(), value);
                }
                plan["remove"] = plan["prune"].clone();
            } else {
                stated.extend(renumber(&mut plan["sandbox"], &seen));
            }
        }
        plan.remove("prune");
        stated
    }
}

/// The number of a new sandbox, and whether an event says that it takes the place of another.
fn renumber(sandbox: &mut Value, seen: &PodObservation) -> Option<&'static str> {
    let attempt = seen.sandboxes.iter().map(|s| s.attempt.saturating_add(1)).max().unwrap_or_default();
    let replaces = !seen.sandboxes.is_empty();
    let ours = json!({ "create": attempt, "replaces": replaces });
    let same = *sandbox == ours;
    *sandbox = ours;
    (!same).then_some("a sandbox gets the number after the highest, and a changed network is told like any change")
}

/// Upstream's actions as `SyncPod` carries them out.
fn in_our_form(plan: &mut Map<String, Value>) {
    let mut take = |key: &str| plan.remove(key).unwrap_or_default();
    let (create, attempt, id, purge) = (take("createSandbox"), take("attempt"), take("sandboxID"), take("purge"));
    let kill_pod = plan["killPod"] == true;
    let sandbox = match (create == true, kill_pod) {
        (true, _) => json!({ "create": attempt, "replaces": id != "" }),
        (false, true) => Value::Null,
        (false, false) => json!({ "keep": id }),
    };
    plan.insert("sandbox".into(), sandbox);
    // What starts over is removed before anything is pruned.
    let starts_over = plan["reset"].as_array().is_some_and(|reset| !reset.is_empty());
    let remove = match (starts_over, purge) {
        (true, _) => json!([]),
        (false, Value::Null) => plan["prune"].clone(),
        (false, purge) => purge,
    };
    plan.insert("remove".into(), remove);
    // A pod that is stopped as a whole has no single container stopped, resized or attached to it.
    if kill_pod {
        for key in ["kill", "resizeMemory", "resizeCPU", "startEphemeral"] {
            plan.insert(key.into(), json!([]));
        }
        plan.insert("resizePod".into(), false.into());
    }
}

/// The plan in the words of upstream's actions.
fn answer(plan: &PodPlan, starts_over: bool) -> Value {
    let starts = |wanted: fn(Role) -> bool| -> Vec<usize> {
        plan.start.iter().filter(|s| wanted(s.role)).map(|s| s.index).collect()
    };
    let mut kill: Vec<_> = plan.kill.iter().filter(|k| k.reason != KillReason::RestartAll).collect();
    kill.sort_by(|a, b| a.id.cmp(&b.id));
    let kill: Vec<Value> = kill
        .into_iter()
        .map(|k| json!({ "id": k.id.as_str(), "name": k.name, "reason": reason(k.reason), "message": k.message }))
        .collect();
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
    put("killPod", plan.kill_pod.into());
    put("startEphemeral", starts(|role| role == Role::Ephemeral).into());
    put("startInit", starts(|role| matches!(role, Role::Init | Role::Sidecar)).into());
    put("startRegular", starts(|role| role == Role::Regular).into());
    put("kill", kill.into());
    put("resizeMemory", resize::answer(&plan.resize.memory));
    put("resizeCPU", resize::answer(&plan.resize.cpu));
    put("resizePod", plan.resize.pod.into());
    put(
        "sandbox",
        match &plan.sandbox {
            SandboxPlan::None => Value::Null,
            SandboxPlan::Keep(id) => json!({ "keep": id.as_str() }),
            SandboxPlan::Create { attempt, replaces } => json!({ "create": attempt, "replaces": replaces }),
        },
    );
    let removed: Vec<&str> = plan.remove.iter().map(|id| id.as_str()).collect();
    if starts_over {
        let kills = |id: &str| plan.kill.iter().any(|k| k.id.as_str() == id);
        put("reset", removed.iter().map(|id| json!({ "id": id, "kill": kills(id) })).collect());
        put("remove", json!([]));
    } else {
        let mut removed = removed;
        removed.sort_unstable();
        put("reset", json!([]));
        put("remove", removed.into());
    }
    Value::Object(all)
}

/// Upstream's word for why a container is stopped; it has none where it does not matter.
fn reason(reason: KillReason) -> &'static str {
    match reason {
        KillReason::Changed | KillReason::Resized => "",
        KillReason::Liveness => "LivenessProbe",
        KillReason::Startup => "StartupProbe",
        KillReason::Unknown => "Unknown",
        KillReason::Unwanted => "Unwanted",
        KillReason::RestartAll => "RestartAllContainers",
    }
}
