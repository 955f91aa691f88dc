//! Every field of every condition that the kubelet writes: status, reason, message, generation, time.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{ContainerRestartRule, PodCondition, PodReadinessGate};

use super::super::conditions::foreign_conditions;
use super::*;
use crate::observe::Exit;
use crate::resize::ResizeCondition;

/// One line for each condition.
fn lines(status: &PodStatus) -> String {
    let mut text = String::new();
    for c in status.conditions.iter().flatten() {
        let time = c.last_transition_time.as_ref().map_or(-1, |time| time.0.as_second());
        let generation = c.observed_generation.unwrap_or(-1);
        let _ = write!(text, "{} {} generation {generation} since {time}", c.type_, c.status);
        let (reason, message) = (c.reason.as_deref(), c.message.as_deref());
        let _ =
            writeln!(text, "{}", [reason, message].map(|t| t.map_or(String::new(), |t| format!(" | {t}"))).concat());
    }
    text
}

fn condition(name: &str, status: &str, since: i64) -> PodCondition {
    let last_transition_time = Some(time(at(since)));
    PodCondition { type_: name.into(), status: status.into(), last_transition_time, ..PodCondition::default() }
}

/// A pod of generation 7 with an init container, a sidecar and a container.
fn whole() -> Pod {
    let mut pod = pod(vec![container("app")]);
    pod.metadata.generation = Some(7);
    let sidecar = Container { restart_policy: Some("Always".into()), ..container("side") };
    pod.spec.as_mut().expect("a spec").init_containers = Some(vec![container("init"), sidecar]);
    pod
}

fn ended(name: &str, code: i32) -> ContainerObservation {
    let state = ContainerState::Exited(Exit {
        code,
        started_at: at(5),
        finished_at: at(6),
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: String::new(),
    });
    ContainerObservation { state, ..running(name) }
}

fn seen(containers: Vec<ContainerObservation>) -> PodObservation {
    let mut seen = nothing();
    seen.sandboxes.push(sandbox(true, &["10.0.0.1"]));
    seen.containers = containers;
    seen
}

#[test]
fn conditions_follow_the_containers() {
    let check = |pod: &Pod, seen: &PodObservation, expected: Expect| {
        expected.assert_eq(&lines(&decide(pod, &PodStatus::default(), seen, &[])));
    };
    let mut never = whole();
    never.spec.as_mut().expect("a spec").restart_policy = Some("Never".into());
    check(
        &whole(),
        &nothing(),
        expect![[r#"
        PodReadyToStartContainers False generation 7 since 100
        Initialized False generation 7 since 100 | ContainersNotInitialized | containers with incomplete status: [init side]
        Ready False generation 7 since 100 | ContainersNotReady | containers with unready status: [side app]
        ContainersReady False generation 7 since 100 | ContainersNotReady | containers with unready status: [side app]
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &whole(),
        &seen(vec![running("init")]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized False generation 7 since 100 | ContainersNotInitialized | containers with incomplete status: [init side]
        Ready False generation 7 since 100 | ContainersNotReady | containers with unready status: [side app]
        ContainersReady False generation 7 since 100 | ContainersNotReady | containers with unready status: [side app]
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &whole(),
        &seen(vec![ended("init", 0), running("side")]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized True generation 7 since 100
        Ready False generation 7 since 100 | ContainersNotReady | containers with unready status: [app]
        ContainersReady False generation 7 since 100 | ContainersNotReady | containers with unready status: [app]
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &whole(),
        &seen(vec![ended("init", 0), running("side"), running("app")]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized True generation 7 since 100
        Ready True generation 7 since 100
        ContainersReady True generation 7 since 100
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &whole(),
        &seen(vec![ended("init", 0), ended("side", 0), running("app")]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized True generation 7 since 100
        Ready False generation 7 since 100 | ContainersNotReady | containers with unready status: [side]
        ContainersReady False generation 7 since 100 | ContainersNotReady | containers with unready status: [side]
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &never,
        &seen(vec![ended("init", 0), ended("side", 0), ended("app", 0)]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized True generation 7 since 100 | PodCompleted
        Ready False generation 7 since 100 | PodCompleted
        ContainersReady False generation 7 since 100 | PodCompleted
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &never,
        &seen(vec![ended("init", 0), ended("side", 0), ended("app", 1)]),
        expect![[r#"
        PodReadyToStartContainers True generation 7 since 100
        Initialized True generation 7 since 100
        Ready False generation 7 since 100 | PodFailed
        ContainersReady False generation 7 since 100 | PodFailed
        PodScheduled True generation 7 since 100
    "#]],
    );
    check(
        &pod(vec![]),
        &nothing(),
        expect![[r#"
        PodReadyToStartContainers False generation -1 since 100
        Initialized True generation -1 since 100
        Ready False generation -1 since 100 | UnknownContainerStatuses
        ContainersReady False generation -1 since 100 | UnknownContainerStatuses
        PodScheduled True generation -1 since 100
    "#]],
    );
}

#[test]
fn rsz_06_a_resize_shows_why_it_waits_and_for_which_generation() {
    let (pod, probes) = (Arc::new(whole()), Arc::default());
    let gates = PlanGates::default();
    let node = NodeInputs { runtime_name: "containerd", host_ips: &[], recursive_read_only: false, gates };
    let full = ResizeCondition { reason: "Deferred".into(), message: "no room".into(), generation: 6 };
    let bare = ResizeCondition { reason: String::new(), message: String::new(), generation: 0 };
    let show = |inputs: &PodInputs<'_>| {
        let status = pod_status(inputs, &nothing(), &PodStatus::default(), at(100));
        lines(&status)
            .lines()
            .filter(|line| line.starts_with("PodResize"))
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    };
    let inputs =
        PodInputs { resize_pending: Some(&full), resize_progress: Some(&bare), ..PodInputs::new(&pod, &probes, node) };
    expect![[r#"
        PodResizePending True generation 6 since 100 | Deferred | no room
        PodResizeInProgress True generation -1 since 100
    "#]]
    .assert_eq(&show(&inputs));
    let swapped = PodInputs { resize_pending: Some(&bare), resize_progress: Some(&full), ..inputs };
    expect![[r#"
        PodResizePending True generation -1 since 100
        PodResizeInProgress True generation 6 since 100 | Deferred | no room
    "#]]
    .assert_eq(&show(&swapped));
    assert_eq!(show(&PodInputs { end: EndProgress::Stopped, ..inputs }), "", "a pod that has ended is not resized");
}

#[test]
fn readiness_gates_are_others_conditions_that_must_be_true() {
    let mut gated = pod(vec![container("app")]);
    let gates = ["shop.example/paid", "shop.example/open"];
    gated.spec.as_mut().expect("a spec").readiness_gates =
        Some(gates.map(|gate| PodReadinessGate { condition_type: gate.into() }).to_vec());
    let check = |conditions: Vec<PodCondition>, expected: Expect| {
        let mut pod = gated.clone();
        pod.status = Some(PodStatus { conditions: Some(conditions), ..PodStatus::default() });
        let status = decide(&pod, &PodStatus::default(), &seen(vec![running("app")]), &[]);
        let lines = lines(&status);
        let shown = lines.lines().filter(|line| line.starts_with("Ready ") || line.starts_with("shop"));
        expected.assert_eq(&shown.map(|line| format!("{line}\n")).collect::<String>());
    };
    check(
        vec![],
        expect![[r#"
        Ready False generation -1 since 100 | ReadinessGatesNotReady | corresponding condition of pod readiness gate "shop.example/paid" does not exist., corresponding condition of pod readiness gate "shop.example/open" does not exist.
    "#]],
    );
    check(
        vec![condition(gates[0], "False", 3), condition("Ready", "True", 4)],
        expect![[r#"
        shop.example/paid False generation -1 since 3
        Ready False generation -1 since 100 | ReadinessGatesNotReady | the status of pod readiness gate "shop.example/paid" is not "True", but False, corresponding condition of pod readiness gate "shop.example/open" does not exist.
    "#]],
    );
    check(
        vec![condition(gates[0], "True", 3), condition(gates[1], "Unknown", 4)],
        expect![[r#"
        shop.example/paid True generation -1 since 3
        shop.example/open Unknown generation -1 since 4
        Ready False generation -1 since 100 | ReadinessGatesNotReady | the status of pod readiness gate "shop.example/open" is not "True", but Unknown
    "#]],
    );
    check(
        vec![condition(gates[0], "True", 3), condition(gates[1], "True", 4)],
        expect![[r#"
        shop.example/paid True generation -1 since 3
        shop.example/open True generation -1 since 4
        Ready True generation -1 since 100
    "#]],
    );
}

// PST-20
#[test]
fn the_time_of_a_condition_changes_with_its_status_only() {
    let web = pod(vec![container("app")]);
    let before = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|name| condition(name, "True", 3));
    let previous = PodStatus { conditions: Some(before.to_vec()), ..PodStatus::default() };
    let times = |seen: &PodObservation| {
        let status = decide(&web, &previous, seen, &[]);
        let time = |c: &PodCondition| c.last_transition_time.as_ref().map_or(-1, |time| time.0.as_second());
        status.conditions.iter().flatten().map(time).collect::<Vec<_>>()
    };
    assert_eq!(times(&seen(vec![running("app")])), [3, 3, 3, 3, 3]);
    assert_eq!(times(&nothing()), [100, 3, 100, 100, 3]);
}

#[test]
fn a_pod_that_may_restart_whole_says_whether_it_does() {
    let mut web = pod(vec![container("app")]);
    let restarting = |pod: &Pod, gate: bool, before: &str| {
        let (pod, probes) = (Arc::new(pod.clone()), Arc::default());
        let gates = PlanGates { restart_all_containers: gate, ..PlanGates::default() };
        let node = NodeInputs { runtime_name: "containerd", host_ips: &[], recursive_read_only: false, gates };
        let previous = condition("AllContainersRestarting", before, 3);
        let previous = PodStatus { conditions: Some(vec![previous]), ..PodStatus::default() };
        let status = pod_status(&PodInputs::new(&pod, &probes, node), &seen(vec![running("app")]), &previous, at(100));
        lines(&status).lines().find(|line| line.starts_with("AllContainersRestarting")).map(str::to_owned)
    };
    assert_eq!(restarting(&web, true, "False"), None, "no rule restarts all");
    let rule = |action: &str| ContainerRestartRule { action: action.into(), ..ContainerRestartRule::default() };
    web.spec.as_mut().expect("a spec").containers[0].restart_policy_rules = Some(vec![rule("Restart")]);
    assert_eq!(restarting(&web, true, "False"), None, "the rule restarts one container");
    web.spec.as_mut().expect("a spec").containers[0].restart_policy_rules = Some(vec![rule("RestartAllContainers")]);
    assert_eq!(restarting(&web, false, "False"), None, "the gate is off");
    let shown = restarting(&web, true, "False");
    assert_eq!(shown.as_deref(), Some("AllContainersRestarting False generation -1 since 3"));
}

#[test]
fn conditions_of_others_are_those_that_no_kubelet_writes() {
    let names = ["Ready", "shop.example/paid", "DisruptionTarget", "PodScheduled", "PodResizePending"];
    let conditions = Some(names.map(|name| condition(name, "True", 3)).to_vec());
    let pod = Pod { status: Some(PodStatus { conditions, ..PodStatus::default() }), ..Pod::default() };
    let foreign: Vec<&str> = foreign_conditions(&pod).map(|c| c.type_.as_str()).collect();
    assert_eq!(foreign, ["shop.example/paid", "DisruptionTarget"]);
}
