//! Tables of section 16.

use expect_test::expect;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hash::container_hash;
use crate::id::PodUid;
use crate::inputs::{NodeInputs, PodInputs};
use crate::launch::NamespaceMode;
use crate::observe::{ContainerState, Exit, PodObservation, SandboxObservation, SandboxState};
use crate::plan::tests::seen as running;
use crate::plan::{PlanGates, PodPlan, plan_pod};
use crate::resources::tests::pod;

/// A pod of one container `a` with these requests and limits.
fn sized(requests: Value, limits: Value) -> Pod {
    pod(json!({"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}))
}

/// These containers of `pod` run in a sandbox that is ready.
fn look(pod: &Pod, names: &[&str]) -> PodObservation {
    let mut seen = running(names);
    seen.sandboxes.push(SandboxObservation {
        id: "s".into(),
        attempt: 0,
        state: SandboxState::Ready,
        created_at: Timestamp::UNIX_EPOCH,
        network: NamespaceMode::Pod,
        ips: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        runtime_handler: String::new(),
    });
    for container in &mut seen.containers {
        let spec = pod.init().iter().chain(pod.regular()).find(|c| c.name == container.name);
        container.marks.hash = spec.map(container_hash);
    }
    seen
}

fn plan(old: &Pod, new: &Pod, seen: &PodObservation) -> PodPlan {
    let (pod, actuated, probes) = (Arc::new(new.clone()), Arc::new(PodAllocation::of(old)), Arc::default());
    let node =
        NodeInputs { runtime_name: "fake", host_ips: &[], recursive_read_only: false, gates: PlanGates::default() };
    plan_pod(&PodInputs { actuated: Some(&actuated), ..PodInputs::new(&pod, &probes, node) }, seen)
}

// RSZ-01
#[test]
fn what_is_allocated_hides_what_is_asked_for() {
    let small = sized(json!({"cpu": "1"}), json!({}));
    let large = sized(json!({"cpu": "2"}), json!({}));
    let given = with_allocation(&large, &PodAllocation::of(&small)).expect("they differ");
    assert_eq!(PodAllocation::of(&given), PodAllocation::of(&small));
    let otherwise_written = sized(json!({"cpu": "1000m"}), json!({}));
    assert!(with_allocation(&otherwise_written, &PodAllocation::of(&small)).is_none(), "1000m is 1");
}

// RSZ-07: which containers are resized, and in which order, is in `tests/golden/plan/resize.yaml`.
#[test]
fn a_memory_limit_that_gets_lower_is_known() {
    let of = |request: &str, limit: &str| sized(json!({"memory": request}), json!({"memory": limit}));
    let lower = |new: &Pod| {
        let memory = plan(&of("8Mi", "64Mi"), new, &look(new, &["a"])).resize.memory;
        memory.iter().map(ResizeContainer::lower_memory_limit).collect::<Vec<_>>()
    };
    assert_eq!(lower(&of("8Mi", "32Mi")), [Some(32 << 20)]);
    assert_eq!(lower(&of("16Mi", "64Mi")), [None]);
    assert!(lower(&of("8Mi", "64Mi")).is_empty());
}

// RSZ-09
#[test]
fn a_container_restarts_only_for_what_its_policy_names() {
    let with = |cpu: &str, memory: &str| {
        pod(json!({"containers": [{
            "name": "a",
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            "resources": {"limits": {"cpu": cpu, "memory": memory}},
        }]}))
    };
    let restarts = |actuated: &PodAllocation, new: &Pod| {
        let how = resize(new, &new.regular()[0], &running(&["a"]).containers[0], actuated);
        how == Some(Resize::Restart)
    };
    let actuated = PodAllocation::of(&with("1", "1Gi"));
    assert!(!restarts(&actuated, &with("2", "1Gi")));
    assert!(restarts(&actuated, &with("1", "2Gi")));
    assert!(!restarts(&PodAllocation::default(), &with("1", "2Gi")), "lost record");
}

// RSZ-07; upstream: kuberuntime_manager.go computePodActions (v1.36)
#[test]
fn a_container_that_has_ended_for_good_is_not_resized() {
    let two = |cpu: &str| {
        pod(json!({"restartPolicy": "Never", "containers": [
            {"name": "a", "resources": {"limits": {"cpu": cpu}}}, {"name": "b"},
        ]}))
    };
    let (old, new) = (two("1"), two("2"));
    let mut seen = look(&new, &["a", "b"]);
    assert_eq!(plan(&old, &new, &seen).resize.cpu.len(), 1);
    seen.containers[0].state = ContainerState::Exited(Exit {
        code: 0,
        started_at: Timestamp::UNIX_EPOCH,
        finished_at: Timestamp::UNIX_EPOCH,
        reason: String::new(),
        message: String::new(),
    });
    assert!(plan(&old, &new, &seen).is_empty());
}

// RSZ-10, RSZ-11
#[test]
fn only_what_runs_can_lag() {
    let old = sized(json!({"cpu": "1"}), json!({}));
    let new = sized(json!({"cpu": "2"}), json!({}));
    let actuated = PodAllocation::of(&old);
    assert!(in_progress(&new, &running(&["a"]), &actuated));
    assert!(!in_progress(&new, &running(&[]), &actuated));
    assert!(!in_progress(&old, &running(&["a"]), &actuated));
}

// RSZ-11: it is resized while it runs (`tests/golden/plan/resize.yaml`).
#[test]
fn nobody_waits_for_the_resize_of_an_ordinary_init_container() {
    let sized = |cpu: &str| {
        let resources = json!({"limits": {"cpu": cpu}});
        pod(json!({"initContainers": [{"name": "i", "resources": resources}], "containers": [{"name": "a"}]}))
    };
    assert!(!in_progress(&sized("2"), &running(&["i"]), &PodAllocation::of(&sized("1"))));
}

// RSZ-05
#[test]
fn a_container_with_swap_keeps_its_memory_request() {
    let old = sized(json!({"memory": "1Mi"}), json!({}));
    let new = sized(json!({"memory": "2Mi"}), json!({}));
    assert!(feasible(&new, &old, |_, _| false).is_ok());
    assert_eq!(feasible(&new, &old, |_, _| true).expect_err("swap").label, "swap_limitation");
    assert!(feasible(&old, &old, |_, _| true).is_ok());
}

// RSZ-06
#[test]
fn events_carry_the_resources() {
    let pod = sized(json!({"cpu": "1"}), json!({}));
    expect![[r#"Pod resize Deferred: {"containers":[{"name":"a","resources":{"limits":{},"requests":{"cpu":"1"}}}],"generation":3,"error":"Node didn't have enough cpu"}"#]]
        .assert_eq(&pending(&pod, 3, "Deferred", "Node didn't have enough cpu"));
    assert!(started(&pod, 1).starts_with("Pod resize started: {"));
    assert!(completed(&pod, 1).starts_with("Pod resize completed: {"));
    assert!(failed(&pod, 1, "no").contains(r#""error":"no""#));
}

// RSZ-02, CKP-02
#[test]
fn the_checkpoint_is_upstreams() {
    let uid = PodUid::from("u1");
    let pod =
        PodAllocation::of(&pod(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]})));
    let text = encode([(&uid, &pod)]);
    expect![[r#"{"data":"{\"entries\":{\"u1\":{\"ContainerResources\":{\"a\":{\"requests\":{\"cpu\":\"100m\"}}},\"PodLevelResources\":null}}}","checksum":1032814325}"#]]
        .assert_eq(&text);
    assert_eq!(decode(&text).expect("it is well").get(&uid), Some(&pod));
    let broken = text.replace("100m", "200m");
    assert!(matches!(decode(&broken), Err(CheckpointError::Corrupt { .. })));
    assert!(matches!(decode("{}"), Err(CheckpointError::Format(_))));
    assert!(decode(&encode([])).expect("nothing is well too").is_empty());
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(cpu in 1_u32..9999, memory in 1_u64..1 << 40) {
        let made = sized(json!({"cpu": format!("{cpu}m")}), json!({"memory": memory.to_string()}));
        let uid = PodUid::from("u");
        let back = decode(&encode([(&uid, &PodAllocation::of(&made))])).expect("ours");
        prop_assert!(with_allocation(&made, &back[&uid]).is_none());
    }
}

// RSZ-12
#[test]
fn what_is_asked_for_is_counted_amount_by_amount() {
    let check = |old: (Value, Value), new: (Value, Value), expected: &str| {
        let found = requested(&sized(old.0, old.1), &sized(new.0, new.1));
        let words = found.iter().map(|r| {
            let (resource, requirement, change) = (r.resource.as_str(), r.requirement.as_str(), r.change.as_str());
            format!("{resource} {requirement} {change}")
        });
        assert_eq!(words.collect::<Vec<_>>().join(", "), expected);
    };
    let small = || (json!({"cpu": "1", "memory": "1Gi"}), json!({"cpu": "1"}));
    check(small(), small(), "");
    check(small(), (json!({"cpu": "1000m", "memory": "1024Mi"}), json!({"cpu": "1"})), "");
    check(
        small(),
        (json!({"cpu": "2", "memory": "1Mi"}), json!({"cpu": "1"})),
        "cpu requests increase, memory requests decrease",
    );
    check(
        small(),
        (json!({"cpu": "1"}), json!({"memory": "1Gi"})),
        "cpu limits remove, memory limits add, memory requests remove",
    );
}
