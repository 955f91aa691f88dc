//! `doPodResizeAction`: in which order a pod's cgroup and its containers change, and to what.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::launch::{LaunchContext, LaunchGates, SwapPolicy, container_resources};
use rubelet_core::plan::{PlanGates, plan_pod};
use rubelet_core::qos::{CgroupDriver, CgroupTree, CgroupValues, CgroupVersion, CpuPolicy};
use rubelet_core::resize::{ResizeStep, limits_below_usage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::allocation::Actuated;
use crate::case::observation::{self, Observation};
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `kuberuntime_manager.go` `doPodResizeAction`, `validateMemoryResizeAction`, `updatePodContainerResources` (v1.36)
pub(in crate::functions) struct DoResize;

#[derive(Deserialize)]
struct Case {
    pod: Pod,
    #[serde(default)]
    observation: Observation,
    #[serde(default)]
    actuated: Actuated,
    /// Bytes in use: by the pod under the empty name, by containers under theirs.
    #[serde(default)]
    usage: BTreeMap<String, u64>,
}

impl Function for DoResize {
    fn name(&self) -> &'static str {
        "doPodResizeAction"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RT-06", "RSZ-07", "RSZ-08"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let (mut containers, mut actuated, mut usage) = (Vec::new(), Map::new(), Map::new());
        for place in 0..1 + rng.below(size.min(3)) {
            let name = format!("c{place}");
            let new = resources(rng);
            actuated.insert(name.clone(), if rng.chance(20) { new.clone() } else { resources(rng) });
            usage.insert(name.clone(), used(rng).into());
            let mut container = json!({ "name": name, "image": "app:1", "resources": new });
            if rng.chance(10) {
                let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
                container["resizePolicy"] = policy;
            }
            containers.push(container);
        }
        usage.insert(String::new(), used(rng).into());
        let mut spec = json!({ "restartPolicy": "Always", "containers": containers });
        let mut actuated = json!({ "containers": actuated });
        if rng.chance(25) {
            spec["resources"] = resources(rng);
            actuated["pod"] = if rng.chance(40) { spec["resources"].clone() } else { resources(rng) };
        }
        let pod = json!({ "metadata": { "name": "web", "namespace": "default", "uid": "u-1" }, "spec": spec });
        let observation = observation::running(&pod);
        json!({ "pod": pod, "observation": observation, "actuated": actuated, "usage": usage })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let case: Case = read(case)?;
        let seen = case.observation.view(&case.pod)?;
        let actuated = Arc::new(case.actuated.view(&case.pod));
        let (pod, probes) = (Arc::new(case.pod), Arc::default());
        let gates = PlanGates::default();
        let node = NodeInputs { runtime_name: "oracle", host_ips: &[], recursive_read_only: false, gates };
        let inputs = PodInputs { actuated: Some(&actuated), ..PodInputs::new(&pod, &probes, node) };
        let plan = plan_pod(&inputs, &seen).resize;
        let launch = launch();
        let actuation = plan.actuation(&pod, &actuated, &launch.pod_cgroup_policy());
        let used = |name: &str| case.usage.get(name).copied().unwrap_or_default();
        let usage: Vec<_> = actuation
            .lowered
            .iter()
            .map(|limit| (limit.clone(), used(limit.container.as_ref().map_or("", |(_, name)| name))))
            .collect();
        if let Some(error) = limits_below_usage(&usage) {
            return Ok(json!({ "error": error }));
        }
        let (mut calls, mut now) = (Vec::new(), json!(null));
        for step in &actuation.steps {
            match step {
                ResizeStep::Pod(values) => now = pod_values(values),
                ResizeStep::Container { id, container } => {
                    let r = container_resources(&launch, &pod, container, false);
                    calls.push(json!({
                        "id": id.as_str(), "memory": r.memory_limit_in_bytes, "quota": r.cpu_quota,
                        "shares": r.cpu_shares, "pod": now,
                    }));
                }
            }
        }
        let alone = plan.memory.len() == 1 && plan.cpu.len() == 1 && calls.len() == 1;
        let first_cpu = if alone { 0 } else { plan.memory.len() };
        for (place, call) in calls.iter_mut().enumerate() {
            of_resource(call, place >= first_cpu);
        }
        Ok(json!({ "error": "", "calls": calls, "pod": now }))
    }

    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let Ok(case) = read::<Case>(case) else { return Vec::new() };
        let Some(answer) = theirs.as_object_mut() else { return Vec::new() };
        let mut take = |key: &str| answer.remove(key).unwrap_or_default();
        let (old, new, checked) = (take("old"), take("new"), take("checked") == true);
        let memory = |values: &Value| values["memory"].as_i64().unwrap_or_default();
        let (before, after) = (memory(&old), memory(&new));
        let used = case.usage.get("").copied().and_then(|used| i64::try_from(used).ok()).unwrap_or_default();
        let lowers = after > 0 && (before < 0 || after < before);
        if lowers && used >= after && (before < 0 || !checked) {
            *theirs = Value::Null;
            return vec![
                "the pod's usage is looked at whenever its memory limit gets lower, also when it is the first one",
            ];
        }
        let mut stated = Vec::new();
        if answer["error"] != "" {
            if with_own_usage(&mut answer["error"], &case) {
                stated.push("the usage in a message is that of the container, not of its pod");
            }
            answer.retain(|key, _| key == "error");
            return stated;
        }
        if together(&mut answer["calls"]) {
            stated.push("one container that changes alone gets memory and CPU in one call");
        }
        let mut values: Vec<&mut Value> = Vec::new();
        let (mut calls, mut end) =
            (answer.remove("calls").unwrap_or_default(), answer.remove("pod").unwrap_or_default());
        for call in calls.as_array_mut().into_iter().flatten() {
            let cpu = call.as_object_mut().and_then(|call| call.remove("resource")).is_some_and(|r| r == "cpu");
            of_resource(call, cpu);
            values.push(&mut call["pod"]);
        }
        let mut changed = false;
        for values in values {
            changed |= without_limit(values, |key| old[key] == -1 || new[key] == -1);
        }
        changed |= without_limit(&mut end, |key| new[key] == -1);
        if changed {
            stated.push(
                "no limit is the largest: a first limit comes after the containers, and a limit can be taken away",
            );
        }
        answer.insert("calls".into(), calls);
        answer.insert("pod".into(), end);
        stated
    }
}

/// Leaves of the pod's values those that matter for the resource that a call changes.
fn of_resource(call: &mut Value, cpu: bool) {
    if let Some(values) = call["pod"].as_object_mut() {
        values.retain(|key, _| (key == "memory") != cpu);
    }
}

/// Takes away limits of the pod; says whether there were any.
fn without_limit(values: &mut Value, gone: impl Fn(&str) -> bool) -> bool {
    let mut changed = false;
    for (key, value) in values.as_object_mut().into_iter().flatten() {
        if key != "shares" && gone(key) && *value != -1 {
            *value = (-1).into();
            changed = true;
        }
    }
    changed
}

/// Drops the first of two calls for one container.
fn together(calls: &mut Value) -> bool {
    let Some(calls) = calls.as_array_mut() else { return false };
    let alone = calls.len() == 2 && calls[0]["id"] == calls[1]["id"];
    if alone {
        calls.remove(0);
    }
    alone
}

fn with_own_usage(error: &mut Value, case: &Case) -> bool {
    let Some(text) = error.as_str() else { return false };
    let of_pod = case.usage.get("").copied().unwrap_or_default();
    let mut parts: Vec<String> = text.split("attempting to set ").map(str::to_owned).collect();
    for part in &mut parts {
        let name = part.strip_prefix("container \"").and_then(|rest| rest.split('"').next()).map(str::to_owned);
        if let Some(used) = name.and_then(|name| case.usage.get(&name)) {
            *part = part.replace(&format!("usage ({of_pod})"), &format!("usage ({used})"));
        }
    }
    let own = parts.join("attempting to set ");
    let changed = own != text;
    *error = own.into();
    changed
}

/// Requests of both, and limits of one, both or neither.
fn resources(rng: &mut Rng) -> Value {
    const CPU: [&str; 5] = ["5m", "100m", "250m", "1", "2"];
    const MEMORY: [&str; 4] = ["64Mi", "100M", "128Mi", "1Gi"];
    let mut limits = Map::new();
    if rng.chance(70) {
        limits.insert("cpu".into(), (*rng.pick(&CPU)).into());
    }
    if rng.chance(70) {
        limits.insert("memory".into(), (*rng.pick(&MEMORY)).into());
    }
    json!({ "requests": { "cpu": rng.pick(&CPU), "memory": rng.pick(&MEMORY) }, "limits": limits })
}

fn used(rng: &mut Rng) -> u64 {
    rng.weighted(&[(8, 1_u64), (1, 99_999_999), (1, 134_217_728), (1, 1 << 31)])
}

fn pod_values(values: &CgroupValues) -> Value {
    json!({
        "memory": values.memory_limit.unwrap_or(-1), "quota": values.cpu_quota.unwrap_or(-1),
        "shares": values.cpu_shares,
    })
}

/// The node of the cases; the Go side has the same.
fn launch() -> LaunchContext {
    LaunchContext {
        tree: CgroupTree::new("/", CgroupDriver::Cgroupfs, true),
        cgroups: CgroupVersion::V2,
        memory_bytes: 16 << 30,
        hugepage_sizes: Vec::new(),
        swap: SwapPolicy::default(),
        cpu: CpuPolicy { quota: true, period: 100_000 },
        single_process_oom_kill: None,
        pod_pids_limit: -1,
        pod_logs_dir: "/var/log/pods".into(),
        seccomp_dir: "/var/lib/kubelet/seccomp".into(),
        seccomp_default: false,
        selinux: false,
        masked_paths: Vec::new(),
        cluster_domain: String::new(),
        gates: LaunchGates::default(),
    }
}
