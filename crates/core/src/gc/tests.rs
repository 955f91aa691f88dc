use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;
use crate::observe::{ContainerMarks, ContainerObservation, ContainerState, ContainerSummary, Exit, SandboxSummary};
use crate::time::Instant;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("in range")
}

fn pod_ref(uid: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: uid.into(), uid: uid.into() }
}

/// `sandboxes`: `id ready|notready created`; `containers`: `id name state created sandbox`.
fn pod(uid: &str, sandboxes: &[&str], containers: &[&str]) -> PodSummary {
    let mut pod = PodSummary { pod: pod_ref(uid), sandboxes: BTreeMap::new(), containers: BTreeMap::new() };
    for text in sandboxes {
        let words: Vec<&str> = text.split(' ').collect();
        let state = if words[1] == "ready" { SandboxState::Ready } else { SandboxState::NotReady };
        let created_at = at(words[2].parse().expect("seconds"));
        pod.sandboxes.insert(words[0].into(), SandboxSummary { state, attempt: 0, created_at });
    }
    for text in containers {
        let words: Vec<&str> = text.split(' ').collect();
        let state = match words[2] {
            "running" => ContainerStateKind::Running,
            "created" => ContainerStateKind::Created,
            "exited" => ContainerStateKind::Exited,
            _ => ContainerStateKind::Unknown,
        };
        let summary = ContainerSummary {
            name: words[1].into(),
            sandbox: words[4].into(),
            state,
            created_at: at(words[3].parse().expect("seconds")),
            restart_count: 0,
            image_id: String::new(),
        };
        pod.containers.insert(words[0].into(), summary);
    }
    pod
}

fn view(policy: GcPolicy) -> GcView {
    GcView { policy, all_sources_seen: true, remove_ended: false, now: at(1_000) }
}

/// Pods called `gone…` are unneeded, `ended…` have ended, others may run.
fn fate(uid: &PodUid) -> PodFate {
    match uid.as_str() {
        uid if uid.starts_with("gone") => PodFate::Unneeded,
        uid if uid.starts_with("ended") => PodFate::Ended,
        _ => PodFate::MayRun,
    }
}

fn check(pods: &[PodSummary], view: &GcView, expected: &Expect) {
    let plan = plan_gc(&pods.iter().collect::<Vec<_>>(), fate, view);
    let mut out = String::new();
    for container in &plan.containers {
        let _ =
            writeln!(out, "remove {}{}", container.id, if container.stop_first { ", stopping it first" } else { "" });
    }
    for sandbox in &plan.sandboxes {
        let _ = writeln!(out, "remove sandbox {sandbox}");
    }
    expected.assert_eq(&out);
}

// GC-02; upstream: kuberuntime_gc_test.go TestGarbageCollect (v1.36)
#[test]
fn the_newest_dead_instance_of_each_container_is_kept() {
    let pods = [
        pod("p", &["s ready 1"], &["a0 a exited 1 s", "a1 a exited 2 s", "a2 a exited 3 s", "b0 b exited 1 s"]),
        pod("q", &["t ready 1"], &["c0 a exited 1 t", "c1 a unknown 0 t", "c2 a running 2 t"]),
    ];
    check(
        &pods,
        &view(GcPolicy::default()),
        &expect![[r#"
            remove a0
            remove a1
            remove c1, stopping it first
        "#]],
    );
    check(&pods, &view(GcPolicy { per_container: None, ..GcPolicy::default() }), &expect![""]);
    check(
        &pods,
        &view(GcPolicy { per_container: Some(0), ..GcPolicy::default() }),
        &expect![[r#"
            remove a0
            remove a1
            remove a2
            remove b0
            remove c1, stopping it first
            remove c0
        "#]],
    );
}

// GC-01: age counts from creation.
#[test]
fn the_young_are_left_alone() {
    let pods = [pod("p", &["s ready 1"], &["a0 a exited 900 s", "a1 a exited 950 s", "a2 a exited 990 s"])];
    for (age, expected) in [(0, expect![["remove a0\nremove a1\n"]]), (50, expect![["remove a0\n"]]), (51, expect![""])]
    {
        let policy = GcPolicy { min_age: Duration::from_secs(age), ..GcPolicy::default() };
        check(&pods, &view(policy), &expected);
    }
}

// GC-01, GC-02: the total is shared evenly, then the oldest go.
#[test]
fn the_total_is_shared() {
    let pods = [
        pod("p", &["s ready 1"], &["a0 a exited 10 s", "a1 a exited 11 s", "a2 a exited 12 s"]),
        pod("q", &["t ready 1"], &["b0 b exited 1 t"]),
        pod("r", &["u ready 1"], &["c0 c exited 5 u", "c1 c exited 6 u"]),
    ];
    let total = |total| view(GcPolicy { per_container: None, total: Some(total), ..GcPolicy::default() });
    check(&pods, &total(6), &expect![""]);
    check(
        &pods,
        &total(5),
        &expect![[r#"
            remove a0
            remove a1
            remove c0
        "#]],
    );
    check(
        &pods,
        &total(2),
        &expect![[r#"
            remove a0
            remove a1
            remove c0
            remove b0
        "#]],
    );
    check(
        &pods,
        &total(0),
        &expect![[r#"
            remove a0
            remove a1
            remove c0
            remove b0
            remove c1
            remove a2
        "#]],
    );
}

// GC-02, TRAP-03: all of a pod that is not needed goes, once every source was heard.
#[test]
fn all_of_an_unneeded_pod_goes() {
    let pods = [
        pod("gone", &["s notready 1"], &["a0 a exited 1 s", "a1 a exited 2 s", "b0 b exited 2 s"]),
        pod("ended", &["t notready 1"], &["c0 a exited 1 t"]),
        pod("live", &["u notready 1"], &["d0 a exited 1 u"]),
    ];
    let seen = view(GcPolicy::default());
    check(
        &pods,
        &seen,
        &expect![[r#"
            remove a0
            remove a1
            remove b0
            remove sandbox s
        "#]],
    );
    check(&pods, &GcView { all_sources_seen: false, ..seen }, &expect![["remove a0\n"]]);
    check(
        &pods,
        &GcView { remove_ended: true, ..seen },
        &expect![[r#"
            remove a0
            remove a1
            remove b0
            remove c0
            remove sandbox s
            remove sandbox t
        "#]],
    );
}

// GC-03; upstream: kuberuntime_gc_test.go TestSandboxGC (v1.36)
#[test]
fn sandboxes_go_when_they_hold_nothing() {
    for (_law, pod, expected) in [
        ("the newest of a live pod stays, dead or not", pod("p", &["s0 notready 1"], &[]), expect![""]),
        (
            "older ones go",
            pod("p", &["s0 notready 1", "s1 notready 2", "s2 ready 3"], &[]),
            expect![["remove sandbox s0\nremove sandbox s1\n"]],
        ),
        ("a ready one stays, whatever its age", pod("p", &["s0 ready 1", "s1 ready 2"], &[]), expect![""]),
        (
            "one that holds a container stays",
            pod("p", &["s0 notready 1", "s1 ready 2"], &["a0 a exited 1 s0"]),
            expect![""],
        ),
        (
            "one that holds a container that goes goes with it",
            pod("p", &["s0 notready 1", "s1 ready 2"], &["a0 a exited 1 s0", "a1 a exited 2 s1"]),
            expect![["remove a0\nremove sandbox s0\n"]],
        ),
        (
            "of an unneeded pod all dead ones go",
            pod("gone", &["s0 notready 1", "s1 notready 2"], &[]),
            expect![["remove sandbox s0\nremove sandbox s1\n"]],
        ),
        ("but not one that still runs", pod("gone", &["s0 ready 1"], &["a0 a running 1 s0"]), expect![""]),
    ] {
        check(&[pod], &view(GcPolicy::default()), &expected);
    }
}

// GC-05, LOOP-09; upstream: pod_container_deletor_test.go (v1.36)
#[test]
fn a_death_prunes_its_elders() {
    let instance = |id: &str, name: &str, running: bool| ContainerObservation {
        id: id.into(),
        sandbox: "s".into(),
        name: name.into(),
        state: if running {
            ContainerState::Running { started_at: at(1) }
        } else {
            ContainerState::Exited(Exit {
                code: 0,
                started_at: at(1),
                finished_at: at(2),
                reason: String::new(),
                message: String::new(),
            })
        },
        created_at: at(1),
        image: String::new(),
        image_id: String::new(),
        marks: ContainerMarks::default(),
        log_path: String::new(),
        resources: None,
        user: None,
    };
    let mut seen = PodObservation::nothing(pod_ref("p"), Instant::START);
    seen.containers = vec![
        instance("a3", "a", true),
        instance("a2", "a", false),
        instance("b1", "b", false),
        instance("a1", "a", false),
        instance("a0", "a", false),
    ];
    let policy = |per_container| GcPolicy { per_container, ..GcPolicy::default() };
    for (per_container, fate, expected) in [
        (Some(1), PodFate::MayRun, vec!["a0", "a1"]),
        (Some(2), PodFate::MayRun, vec!["a0"]),
        (Some(0), PodFate::Ended, vec!["a0", "a1"]),
        (None, PodFate::MayRun, vec!["a0", "a1"]),
        (Some(1), PodFate::Unneeded, vec!["a0", "a1", "b1", "a2"]),
    ] {
        let pruned = prune_dead(&seen, &policy(per_container), fate);
        let pruned: Vec<&str> = pruned.iter().map(ContainerId::as_str).collect();
        assert_eq!(pruned, expected, "{per_container:?} {fate:?}");
    }
}

#[test]
fn a_plan_is_empty_when_it_removes_neither_containers_nor_sandboxes() {
    let plan = |pods: &[PodSummary]| plan_gc(&pods.iter().collect::<Vec<_>>(), fate, &view(GcPolicy::default()));
    assert!(plan(&[]).is_empty());
    assert!(plan(&[pod("p", &["s ready 1"], &["a0 a running 1 s"])]).is_empty());
    assert!(!plan(&[pod("p", &["s ready 1"], &["a0 a exited 1 s", "a1 a exited 2 s"])]).is_empty());
    assert!(!plan(&[pod("gone", &["s notready 1"], &[])]).is_empty());
}
