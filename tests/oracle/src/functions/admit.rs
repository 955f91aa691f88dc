//! Admission: whether a pod may run on the node beside others, and which of them make room.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use rubelet_core::admit::{AdmitView, Allocation, SysctlAllowlist, admit, victims};
use rubelet_core::pod::PodExt as _;
use rubelet_core::qos::is_critical;
use rubelet_core::resources::{
    Amount, CPU, EPHEMERAL_STORAGE, MEMORY, amounts, has_pod_level_resources, is_pod_level_resource, pod_requests,
    pod_requests_without_overhead,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::case::quantities;
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `lifecycle/predicate.go` `predicateAdmitHandler.Admit`, `scheduler` `AdmissionCheck`, `preemption/preemption.go` (v1.36)
pub(super) struct PredicateAdmit;

#[derive(Deserialize)]
struct Case {
    node: Node,
    pod: Pod,
    #[serde(default)]
    others: Vec<Pod>,
}

impl Function for PredicateAdmit {
    fn name(&self) -> &'static str {
        "predicateAdmitHandler"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["ADM-05", "ADM-30", "ADM-31"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let others: Vec<Value> = (0..rng.below(size + 1)).map(|place| pod(rng, &format!("o{place}"))).collect();
        let mut wanted = pod(rng, "web");
        if rng.chance(30) {
            placement(rng, &mut wanted);
        }
        json!({ "node": node(rng), "pod": wanted, "others": others, "gates": {} })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let Case { node, pod, others } = read(case)?;
        let labels = labels(&node);
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let allocatable = amounts(status.allocatable.as_ref());
        let groups = status.features.and_then(|f| f.supplemental_groups_policy).unwrap_or_default();
        let view = AdmitView {
            node_name: node.metadata.name.as_deref().unwrap_or_default(),
            labels: &labels,
            taints: spec.taints.as_deref().unwrap_or_default(),
            allocatable: &allocatable,
            sysctls: &SysctlAllowlist::default(),
            apparmor: true,
            supplemental_groups_policy: groups,
            shutting_down: false,
            pressure: rubelet_core::node::Pressure::default(),
        };
        let others: Vec<Allocation> = others.into_iter().map(|pod| Allocation::of(Arc::new(pod))).collect();
        let answer = |admit: bool, reason: &str, message: &str, gone: Vec<String>| json!({ "admit": admit, "reason": reason, "message": message, "victims": gone });
        let pod = Arc::new(pod);
        let Err(refused) = admit(&view, &pod, &others) else { return Ok(answer(true, "", "", Vec::new())) };
        if refused.shortages.is_empty() {
            return Ok(answer(false, &refused.reason, &refused.message, Vec::new()));
        }
        // What the sync loop does with a refusal for want of room alone.
        Ok(match victims(&pod, &others, &refused.shortages) {
            Some(gone) => {
                let mut names: Vec<String> = gone.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
                names.sort();
                answer(true, "", "", names)
            }
            None => answer(false, &refused.reason, &refused.message, Vec::new()),
        })
    }

    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let Case { node, pod, others } = read(case).ok()?;
        let listed = node.status.and_then(|status| status.allocatable).unwrap_or_default();
        let unserved = |(name, amount): (&String, &Amount)| {
            name.starts_with("example.com/") && !listed.contains_key(name) && !amount.is_zero()
        };
        if pod_requests(&pod).iter().any(unserved) {
            Some("an extended resource that the node does not list is refused")
        } else if pod_requests(&pod).iter().filter(|(name, amount)| is_scalar(name) && !amount.is_zero()).count() > 1 {
            Some("upstream looks at resources other than CPU, memory and storage in the order of a map")
        } else if is_critical(&pod) && !others.iter().all(counted_alike) {
            Some("a pod that makes room frees all that it was counted for")
        } else {
            None
        }
    }
}

fn is_scalar(name: &str) -> bool {
    ![CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name)
}

/// What the pod would free is for upstream what it was counted for.
fn counted_alike(pod: &Pod) -> bool {
    let spec = pod.pod_spec();
    let overhead = amounts(spec.and_then(|spec| spec.overhead.as_ref()));
    let mut theirs = if has_pod_level_resources(pod) {
        let own = spec.and_then(|spec| spec.resources.as_ref()).and_then(|r| r.requests.as_ref());
        amounts(own).into_iter().filter(|(name, _)| is_pod_level_resource(name)).collect()
    } else {
        pod_requests_without_overhead(pod)
    };
    for (name, amount) in theirs.iter_mut().filter(|(_, amount)| !amount.is_zero()) {
        *amount = *amount + overhead.get(name).copied().unwrap_or_default();
    }
    pod_requests(pod).iter().all(|(name, amount)| theirs.get(name).copied().unwrap_or_default() == *amount)
}

/// Upstream sets the label of the operating system on the node that it looks at.
fn labels(node: &Node) -> BTreeMap<String, String> {
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    if !labels.is_empty() {
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    }
    labels
}

fn node(rng: &mut Rng) -> Value {
    let mut allocatable = Map::new();
    for (name, amounts) in [
        ("cpu", &["0", "1", "2500m", "4", "300"][..]),
        ("memory", &["0", "1Gi", "3G", "64Gi", "8Pi"]),
        ("pods", &["0", "1", "3", "110"]),
        ("ephemeral-storage", &["0", "10Gi", "8Pi"]),
        ("hugepages-2Mi", &["0", "8Mi", "1Gi"]),
        ("example.com/gpu", &["0", "1", "4"]),
    ] {
        if rng.chance(90) {
            let pick = if rng.chance(60) { amounts.len().saturating_sub(1) } else { rng.below(amounts.len()) };
            allocatable.insert(name.to_owned(), amounts.get(pick).copied().unwrap_or("0").into());
        }
    }
    let mut node = json!({ "metadata": { "name": "node-1" }, "status": { "allocatable": allocatable }, "spec": {} });
    if rng.chance(80) {
        node["metadata"]["labels"] =
            json!({ "zone": rng.pick(&["a", "b"]), "size": rng.pick(&["1", "10", "x"]), "disk": "" });
    }
    if rng.chance(30) {
        let taints = (0..1 + rng.below(2)).map(|_| {
            let mut taint =
                json!({ "key": rng.pick(&["k", "l"]), "effect": rng.pick(&["NoExecute", "NoExecute", "NoSchedule"]) });
            if rng.chance(50) {
                taint["value"] = (*rng.pick(&["v", "w"])).into();
            }
            taint
        });
        node["spec"]["taints"] = taints.collect();
    }
    if rng.chance(30) {
        node["status"]["features"] = json!({ "supplementalGroupsPolicy": rng.chance(50) });
    }
    node
}

fn pod(rng: &mut Rng, name: &str) -> Value {
    let mut pod = quantities::pod_summed_up(rng, 2);
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["uid"] = format!("u-{name}").into();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            if rng.chance(15) {
                let ports: Vec<Value> = (0..1 + rng.below(2)).map(|_| port(rng)).collect();
                container["ports"] = ports.into();
            }
            if rng.chance(8) {
                container["resources"]["requests"]["example.com/gpu"] = (*rng.pick(&["0", "1", "2"])).into();
            }
            if rng.chance(3) {
                container["resources"]["requests"]["example.com/none"] = (*rng.pick(&["0", "1"])).into();
            }
        }
    }
    pod
}

fn port(rng: &mut Rng) -> Value {
    let mut port = json!({ "containerPort": 80, "hostPort": rng.pick(&[0, 80, 80, 8080]) });
    if rng.chance(50) {
        port["protocol"] = (*rng.pick(&["TCP", "UDP", "SCTP"])).into();
    }
    if rng.chance(40) {
        port["hostIP"] = (*rng.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1", "::", ""])).into();
    }
    port
}

/// Where the pod wants to be, and what else about it can be refused.
fn placement(rng: &mut Rng, pod: &mut Value) {
    if rng.chance(20) {
        pod["metadata"]["labels"] = json!({ "kubernetes.io/os": rng.pick(&["linux", "windows"]) });
    }
    let spec = &mut pod["spec"];
    if rng.chance(15) {
        spec["os"] = json!({ "name": rng.pick(&["linux", "windows"]) });
    }
    if rng.chance(25) {
        spec["securityContext"] = json!({ "supplementalGroupsPolicy": rng.pick(&["Strict", "Merge"]) });
    }
    if rng.chance(30) {
        spec["nodeSelector"] = json!({ "zone": rng.pick(&["a", "b"]) });
    }
    if rng.chance(50) {
        spec["nodeName"] = (*rng.pick(&["node-1", "node-1", "node-2", ""])).into();
    }
    if rng.chance(60) {
        let terms: Vec<Value> = (0..rng.below(3)).map(|_| term(rng)).collect();
        spec["affinity"] = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } });
    }
    if rng.chance(60) {
        let tolerations = (0..rng.below(3)).map(|_| {
            let mut toleration = json!({});
            for (field, words) in [
                ("key", &["k", "l", ""][..]),
                ("operator", &["Exists", "Equal", "Equal", "", "Odd"]),
                ("value", &["v", "w", ""]),
                ("effect", &["NoExecute", "NoSchedule", ""]),
            ] {
                if rng.chance(70) {
                    toleration[field] = (*rng.pick(words)).into();
                }
            }
            toleration
        });
        spec["tolerations"] = tolerations.collect();
    }
}

fn term(rng: &mut Rng) -> Value {
    let mut term = json!({});
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    if rng.chance(80) {
        let expressions = (0..1 + rng.below(2)).map(|_| {
            let operator = *rng.pick(&operators);
            let values: Vec<&str> = match operator {
                "Exists" | "DoesNotExist" => Vec::new(),
                "Gt" | "Lt" => vec![*rng.pick(&["0", "1", "5", "10", "x"])],
                _ => (0..1 + rng.below(2)).map(|_| *rng.pick::<&str>(&["a", "b", "1", ""])).collect(),
            };
            json!({ "key": rng.pick(&["zone", "size", "disk", "none"]), "operator": operator, "values": values })
        });
        term["matchExpressions"] = expressions.collect();
    }
    if rng.chance(30) {
        term["matchFields"] = json!([{ "key": "metadata.name", "operator": rng.pick(&["In", "NotIn"]),
            "values": [rng.pick(&["node-1", "node-2"])] }]);
    }
    term
}
