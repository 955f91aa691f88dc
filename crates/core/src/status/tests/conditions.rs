//! Generations and times of conditions, which are the status manager's in upstream. The rest is in
//! `tests/golden/phase/conditions.yaml`.

use std::fmt::Write as _;

use expect_test::expect;
use k8s_openapi::api::core::v1::PodCondition;

use super::super::conditions::foreign_conditions;
use super::*;
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

/// A pod of generation 7.
fn whole() -> Pod {
    let mut pod = pod(vec![container("app")]);
    pod.metadata.generation = Some(7);
    pod
}

fn seen(containers: Vec<ContainerObservation>) -> PodObservation {
    let mut seen = nothing();
    seen.sandboxes.push(sandbox(true, &["10.0.0.1"]));
    seen.containers = containers;
    seen
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

// PST-20
#[test]
fn conditions_carry_the_generation_of_the_pod() {
    let generations = |pod: &Pod| {
        let status = decide(pod, &PodStatus::default(), &nothing(), &[]);
        status.conditions.iter().flatten().map(|c| c.observed_generation).collect::<Vec<_>>()
    };
    assert_eq!(generations(&whole()), [Some(7); 5]);
    assert_eq!(generations(&pod(vec![container("app")])), [None; 5]);
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
fn conditions_of_others_are_those_that_no_kubelet_writes() {
    let names = ["Ready", "shop.example/paid", "DisruptionTarget", "PodScheduled", "PodResizePending"];
    let conditions = Some(names.map(|name| condition(name, "True", 3)).to_vec());
    let pod = Pod { status: Some(PodStatus { conditions, ..PodStatus::default() }), ..Pod::default() };
    let foreign: Vec<&str> = foreign_conditions(&pod).map(|c| c.type_.as_str()).collect();
    assert_eq!(foreign, ["shop.example/paid", "DisruptionTarget"]);
}
