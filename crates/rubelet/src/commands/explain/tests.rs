use expect_test::{Expect, expect};
use jiff::tz::{Offset, TimeZone};
use rubelet_server::documents::{
    CallDocument, ContainerFacts, ContainerStory, EndDocument, PodFacts, PodLine, PodState, PodStory, ProbeDocument,
    ProbeFacts, PullDocument, Step, WaitingDocument,
};

use super::render;
use crate::commands::style::Style;

fn check(story: &PodStory, expected: Expect) {
    let zone = TimeZone::fixed(Offset::constant(2));
    expected.assert_eq(&render(story, Style::Plain, &zone));
}

fn story() -> PodStory {
    let step = |at: &str, what: &str| Step {
        at: at.parse().expect("a time"),
        first: "2026-05-28T21:59:30Z".parse().expect("a time"),
        what: what.into(),
        times: 1,
        took_seconds: None,
        bad: false,
    };
    PodStory {
        line: PodLine {
            namespace: "default".into(),
            name: "web-demo".into(),
            uid: "0c3a7d1e5f".into(),
            state: PodState::Running,
            stage: Some("Syncing".into()),
            reason: None,
            message: None,
            ready: 1,
            total: 1,
            restarts: 0,
            age_seconds: Some(330),
            ip: Some("10.88.0.7".into()),
        },
        source: Some("file".into()),
        stage_seconds: Some(330),
        grace_seconds: None,
        problem: None,
        failures: 0,
        waiting: None,
        resize: Vec::new(),
        containers: vec![container()],
        timeline: vec![
            step("2026-05-28T21:59:59.5Z", "Accepted from file"),
            Step { took_seconds: Some(0.25), ..step("2026-05-28T22:00:00.004Z", "Sandbox started") },
            step("2026-05-28T22:00:00.1Z", "Started: Container started"),
        ],
        steps_dropped: 0,
        facts: PodFacts::default(),
    }
}

fn container() -> ContainerStory {
    ContainerStory {
        name: "app".into(),
        role: "regular".into(),
        image: "localhost/web:1".into(),
        state: "Running".into(),
        reason: None,
        message: None,
        ready: true,
        restarts: 0,
        since_seconds: Some(329),
        exit_code: None,
        next_start_in_seconds: None,
        last_end: None,
        failing_probes: Vec::new(),
        facts: ContainerFacts::default(),
    }
}

#[test]
fn a_pod_that_is_well_has_a_short_story() {
    check(
        &story(),
        expect![[r#"
            Pod         default/web-demo
            UID         0c3a7d1e5f
            State       Running, 1 of 1 containers ready, here for 5m30s
            Stage       Syncing for 5m30s
            Source      file
            Address     10.88.0.7

            Containers
              app: Running for 5m29s, ready
                image localhost/web:1

            Timeline
              2026-05-28, UTC+02:00
              23:59:59.500     Accepted from file
              2026-05-29, UTC+02:00
              00:00:00.004     Sandbox started (250 ms)
              00:00:00.100     Started: Container started

            Waiting for nothing: it is running
        "#]],
    );
}

#[test]
fn a_crash_loop_shows_the_last_end_and_the_next_start() {
    let mut story = story();
    story.line.reason = Some("CrashLoopBackOff".into());
    story.line.message = Some("back-off 40s restarting failed container=app".into());
    story.line.ready = 0;
    story.steps_dropped = 7;
    story.containers = vec![
        ContainerStory {
            role: "init".into(),
            name: "migrate".into(),
            state: "Terminated".into(),
            exit_code: Some(0),
            reason: Some("Completed".into()),
            ready: false,
            ..container()
        },
        ContainerStory {
            state: "Waiting".into(),
            reason: Some("CrashLoopBackOff".into()),
            message: Some("back-off 40s restarting failed container=app".into()),
            ready: false,
            restarts: 4,
            since_seconds: None,
            next_start_in_seconds: Some(25),
            last_end: Some(EndDocument {
                exit_code: 1,
                reason: Some("Error".into()),
                message: Some("panic: \x1b[31mno database\nat main.rs:3\n".into()),
                seconds_ago: Some(15),
            }),
            ..container()
        },
    ];
    if let Some(step) = story.timeline.last_mut() {
        step.what = "BackOff: Back-off restarting failed container app".into();
        step.times = 9;
        step.bad = true;
    }
    let what = "the next start of container app".into();
    story.waiting = Some(WaitingDocument { what, since_seconds: Some(15), until_in_seconds: Some(25) });
    check(
        &story,
        expect![[r#"
            Pod         default/web-demo
            UID         0c3a7d1e5f
            State       Running, 0 of 1 containers ready, here for 5m30s
            Stage       Syncing for 5m30s
            Reason      CrashLoopBackOff: back-off 40s restarting failed container=app
            Source      file
            Address     10.88.0.7

            Containers
              migrate (init): Terminated (Completed), exit code 0, 5m29s ago
                image localhost/web:1
              app: Waiting (CrashLoopBackOff), restarted 4 times
                image localhost/web:1
                back-off 40s restarting failed container=app
                last ended 15s ago with exit code 1 (Error), message: panic: \u{1b}[31mno database
                at main.rs:3
                next try in 25s

            Timeline
              (7 older steps)
              2026-05-28, UTC+02:00
              23:59:59.500     Accepted from file
              2026-05-29, UTC+02:00
              00:00:00.004     Sandbox started (250 ms)
              00:00:00.100  !  BackOff: Back-off restarting failed container app (9 times over 30s)

            Waiting for: the next start of container app, since 15s (next try in 25s)
        "#]],
    );
}

#[test]
fn failed_probes_and_resizes_are_shown_with_their_container() {
    let mut story = story();
    story.line.ready = 0;
    let probe = |kind: &str, said: &str, times| ProbeDocument { kind: kind.into(), said: said.into(), times };
    story.containers = vec![ContainerStory {
        ready: false,
        failing_probes: vec![
            probe("readiness", "HTTP probe failed with statuscode: 503", 7),
            probe("liveness", "command timed out: \"check\" timed out after 1s", 1),
            probe("startup", "rpc error: no such container", 0),
        ],
        ..container()
    }];
    story.resize = vec![
        "in progress: app cpu limit 100m to 200m".into(),
        "pending (Deferred): Node didn't have enough resource: cpu".into(),
    ];
    story.timeline.clear();
    let what = "the readiness probe of container app to pass; its last output: HTTP probe failed with statuscode: 503";
    story.waiting = Some(WaitingDocument { what: what.into(), since_seconds: Some(8), until_in_seconds: None });
    check(
        &story,
        expect![[r#"
            Pod         default/web-demo
            UID         0c3a7d1e5f
            State       Running, 0 of 1 containers ready, here for 5m30s
            Stage       Syncing for 5m30s
            Resize      in progress: app cpu limit 100m to 200m
            Resize      pending (Deferred): Node didn't have enough resource: cpu
            Source      file
            Address     10.88.0.7

            Containers
              app: Running for 5m29s, not ready
                image localhost/web:1
                readiness probe failed 7 times in a row; its last output: HTTP probe failed with statuscode: 503
                liveness probe failed; its last output: command timed out: "check" timed out after 1s
                startup probe could not be run; its last output: rpc error: no such container

            Waiting for: the readiness probe of container app to pass; its last output: HTTP probe failed with statuscode: 503, since 8s
        "#]],
    );
}

#[test]
fn a_terminating_pod_shows_its_grace() {
    let mut story = story();
    story.line.state = PodState::Terminating;
    story.line.stage = Some("Terminating".into());
    story.line.reason = Some("Removed".into());
    story.stage_seconds = Some(12);
    story.grace_seconds = Some(30);
    story.problem = Some("stop_container: no answer from the runtime".into());
    story.failures = 3;
    story.containers.clear();
    story.timeline.clear();
    let what = "container app to stop".into();
    story.waiting = Some(WaitingDocument { what, since_seconds: Some(12), until_in_seconds: None });
    check(
        &story,
        expect![[r#"
            Pod         default/web-demo
            UID         0c3a7d1e5f
            State       Terminating, here for 5m30s
            Stage       Terminating for 12s, with 30 s of grace
            Reason      Removed
            Problem     stop_container: no answer from the runtime (3 tries failed)
            Source      file
            Address     10.88.0.7

            Waiting for: container app to stop, since 12s
        "#]],
    );
}

#[test]
fn an_invalid_manifest_shows_what_is_wrong_with_it() {
    let mut story = story();
    story.line = PodLine {
        namespace: String::new(),
        name: "/etc/kubernetes/manifests/b.yaml".into(),
        uid: String::new(),
        state: PodState::Invalid,
        stage: None,
        reason: Some("InvalidManifest".into()),
        message: Some("spec.contianers: unknown field; did you mean containers?".into()),
        ready: 0,
        total: 0,
        restarts: 0,
        age_seconds: None,
        ip: None,
    };
    story.problem = story.line.message.clone();
    story.source = None;
    story.stage_seconds = None;
    story.containers.clear();
    story.timeline.clear();
    check(
        &story,
        expect![[r#"
            Manifest    /etc/kubernetes/manifests/b.yaml
            State       Invalid
            Reason      InvalidManifest: spec.contianers: unknown field; did you mean containers?

            Waiting for: its manifest to be fixed
        "#]],
    );
}

#[test]
fn every_state_has_an_outlook() {
    let mut outlooks = String::new();
    for state in [
        PodState::Waiting,
        PodState::Pending,
        PodState::Running,
        PodState::Succeeded,
        PodState::Failed,
        PodState::Terminating,
        PodState::Terminated,
        PodState::Rejected,
        PodState::Invalid,
    ] {
        let mut story = story();
        story.line.state = state;
        outlooks.push_str(&format!("{}: {}\n", state.as_str(), super::outlook(&story)));
    }
    expect![[r#"
        Waiting: It is being worked on
        Pending: It is being worked on
        Running: Waiting for nothing: it is running
        Succeeded: Waiting for nothing: it has succeeded
        Failed: Waiting for nothing: it has failed and is not restarted
        Terminating: It is being worked on
        Terminated: Waiting for nothing: it was terminated, and its source still has it
        Rejected: Waiting for nothing: it was rejected, and is admitted again only after a change
        Invalid: Waiting for: its manifest to be fixed
    "#]]
    .assert_eq(&outlooks);
}

#[test]
fn where_a_pod_is_and_what_is_open_is_shown() {
    let facts = PodFacts {
        qos: Some("Burstable".into()),
        cgroup: Some("/kubepods/burstable/pod0c3a7d1e5f".into()),
        sandbox_id: Some("5f2b".into()),
        finalizers: vec!["example.org/keep".into()],
        calls: vec![CallDocument {
            operation: "stop_container".into(),
            subject: "container app".into(),
            since_seconds: 31,
            until_in_seconds: 119,
        }],
        pulls: vec![
            PullDocument { image: "a:1".into(), pulling_seconds: Some(12), asked_seconds: 20, behind: Vec::new() },
            PullDocument { image: "b:1".into(), pulling_seconds: None, asked_seconds: 20, behind: vec!["a:1".into()] },
        ],
        gone_seconds: Some(300),
    };
    let probe = ProbeFacts {
        kind: "readiness".into(),
        settings: "HTTP every 5 s, timeout 1 s; 3 failed or 1 passed in a row count".into(),
        history: vec!["failed twice, last 390 s ago".into(), "passed 79 times, last 3 s ago".into()],
    };
    let log_path = Some("/var/log/pods/default_web_0c3a/app/0.log".into());
    let of_container = ContainerFacts { id: Some("77aa".into()), log_path, probes: vec![probe] };
    let container = ContainerStory { facts: of_container, ..container() };
    let story = PodStory { facts, containers: vec![container], timeline: Vec::new(), ..story() };
    check(
        &story,
        expect![[r#"
        Pod         default/web-demo
        UID         0c3a7d1e5f
        State       Running, 1 of 1 containers ready, here for 5m30s
        Gone        from this node for 5m
        Stage       Syncing for 5m30s
        Source      file
        Address     10.88.0.7
        QoS         Burstable
        Cgroup      /kubepods/burstable/pod0c3a7d1e5f
        Sandbox     5f2b
        Finalizers  example.org/keep
        Pull        a:1, pulled by the runtime for 12s
        Pull        b:1, for 20s behind a:1
        Call        stop_container of container app, unanswered for 31s, given up in 119s

        Containers
          app: Running for 5m29s, ready
            image localhost/web:1
            id 77aa
            log /var/log/pods/default_web_0c3a/app/0.log
            readiness probe: HTTP every 5 s, timeout 1 s; 3 failed or 1 passed in a row count
              failed twice, last 390 s ago; then passed 79 times, last 3 s ago

        Waiting for nothing: it is running
    "#]],
    );
}
