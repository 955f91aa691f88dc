//! Stopping: grace and order. The plans themselves are golden rows (`tests/golden/plan`).

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe};

use super::*;
use crate::id::PodRef;
use crate::observe::{ContainerMarks, ContainerState};
use crate::time::Instant;

fn container(name: &str) -> Container {
    Container { name: name.into(), ..Container::default() }
}

fn sidecar(name: &str) -> Container {
    Container { restart_policy: Some("Always".into()), ..container(name) }
}

/// Only these run.
pub(crate) fn seen(running: &[&str]) -> PodObservation {
    let pod = PodRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() };
    let mut seen = PodObservation::nothing(pod, Instant::START);
    for name in running {
        seen.containers.push(ContainerObservation {
            id: format!("{name}.0").into(),
            sandbox: "s".into(),
            name: (*name).into(),
            state: ContainerState::Running { started_at: Timestamp::UNIX_EPOCH },
            created_at: Timestamp::UNIX_EPOCH,
            image: String::new(),
            image_id: String::new(),
            marks: ContainerMarks::default(),
            log_path: String::new(),
            resources: None,
            user: None,
        });
    }
    seen
}

fn check_order(pod: Option<&Pod>, running: &[&str], expected: &Expect) {
    let mut out = String::new();
    for step in plan_kill_order(pod, &seen(running)).steps {
        let after: Vec<&str> = step.after.iter().map(ContainerId::as_str).collect();
        let _ = writeln!(out, "{} after [{}]", step.name, after.join(" "));
    }
    expected.assert_eq(&out);
}

// KILL-04; upstream: kuberuntime_termination_order_test.go (v1.36)
#[test]
fn sidecars_stop_last_and_in_reverse() {
    let pod = Pod {
        spec: Some(PodSpec {
            init_containers: Some(vec![sidecar("s1"), container("i"), sidecar("s2"), sidecar("s3")]),
            containers: vec![container("a"), container("b")],
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    let all = ["b", "a", "s3", "s2", "s1", "debug"];
    check_order(
        Some(&pod),
        &all,
        &expect![[r#"
            b after []
            a after []
            s3 after [a.0 b.0]
            s2 after [a.0 b.0 s3.0]
            s1 after [a.0 b.0 s2.0]
            debug after []
        "#]],
    );
    // What does not run is not waited for, and leaves no gap in the chain.
    check_order(
        Some(&pod),
        &["a", "s3", "s1"],
        &expect![[r#"
            a after []
            s3 after [a.0]
            s1 after [a.0 s3.0]
        "#]],
    );
    // While initialising: an ordinary init container stops at once, and nobody waits for it.
    check_order(
        Some(&pod),
        &["i", "s1"],
        &expect![[r#"
            i after []
            s1 after []
        "#]],
    );
    check_order(
        None,
        &["a", "s1"],
        &expect![[r#"
            a after []
            s1 after []
        "#]],
    );
}

// KILL-02; upstream: kuberuntime_container_test.go TestSetTerminationGracePeriod, TestKillContainerGracePeriod (v1.36)
#[test]
fn grace_comes_from_deletion_then_probe_then_pod() {
    use KillReason::{Changed, Liveness, RestartAll, Startup, Unknown};
    // deletion, pod, liveness, startup, reason, override → seconds
    for (deletion, of_pod, liveness, startup, reason, replace, secs) in [
        (None, None, None, None, Unknown, None, 2),
        (None, Some(30), None, None, Unknown, None, 30),
        (Some(5), Some(30), None, None, Unknown, None, 5),
        (Some(0), Some(30), None, None, Unknown, None, 0),
        (None, Some(30), Some(7), Some(8), Liveness, None, 7),
        (None, Some(30), Some(7), Some(8), Startup, None, 8),
        (None, Some(30), Some(7), Some(8), Changed, None, 30),
        (None, Some(30), None, None, Liveness, None, 30),
        (None, None, Some(7), None, Liveness, None, 2),
        (Some(5), Some(30), Some(7), None, Liveness, None, 5),
        (Some(5), Some(30), Some(7), None, Liveness, Some(1), 1),
        (None, Some(30), None, None, RestartAll, None, 0),
        (None, Some(-1), None, None, Unknown, None, 0),
    ] {
        let probe = |grace: Option<i64>| {
            grace.map(|grace| Probe { termination_grace_period_seconds: Some(grace), ..Probe::default() })
        };
        let container = Container { liveness_probe: probe(liveness), startup_probe: probe(startup), ..container("a") };
        let mut pod = Pod {
            spec: Some(PodSpec { termination_grace_period_seconds: of_pod, ..PodSpec::default() }),
            ..Pod::default()
        };
        pod.metadata.deletion_grace_period_seconds = deletion;
        let grace = grace_for(&pod, &container, reason, replace.map(Duration::from_secs));
        assert_eq!(
            grace,
            Duration::from_secs(secs),
            "{deletion:?} {of_pod:?} {liveness:?} {startup:?} {reason:?} {replace:?}"
        );
    }
}

// KILL-05; upstream: kuberuntime_container.go restoreSpecsFromContainerLabels (v1.36)
#[test]
fn an_orphan_is_stopped_by_what_is_written_on_it() {
    let marks = ContainerMarks {
        pod_grace: Some(30),
        deletion_grace: None,
        pre_stop: Some(r#"{"exec":{"command":["sync"]}}"#.into()),
        ..ContainerMarks::default()
    };
    assert_eq!(grace_from_marks(&marks, None), Duration::from_secs(30));
    assert_eq!(grace_from_marks(&marks, Some(Duration::from_secs(1))), Duration::from_secs(1));
    assert_eq!(grace_from_marks(&ContainerMarks::default(), None), MIN_STOP_GRACE);
    let hook = pre_stop_from_marks(&marks).expect("it is readable");
    assert_eq!(hook.exec.and_then(|e| e.command), Some(vec!["sync".to_owned()]));
    let broken = ContainerMarks { pre_stop: Some("{".into()), ..ContainerMarks::default() };
    assert_eq!(pre_stop_from_marks(&broken), None);
    assert_eq!(kill_message("a"), "Stopping container a");
}

#[test]
fn an_empty_plan_is_one_that_changes_nothing() {
    assert!(PodPlan::default().is_empty());
    assert!(PodPlan { sandbox: SandboxPlan::Keep("s".into()), ..PodPlan::default() }.is_empty());
    assert!(!PodPlan { kill_pod: true, ..PodPlan::default() }.is_empty());
}
