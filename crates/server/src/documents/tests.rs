mod facts;
mod life;
mod status;

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::lifecycle::{Cause, Grace, Stage};
use rubelet_core::pod::Source;
use rubelet_core::status::rejected;
use rubelet_core::time::Instant;
use rubelet_core::timeline::{Entry, Waiting};
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};
use rubelet_engine::task::TaskPolls;
use rubelet_testkit::pod;

use super::{Extras, node_document, pod_story};
use crate::testing::{ago, end, ended, node, running, status, waiting, worker};

/// Every line in short: name, state, readiness, reason, restarts, age, address.
fn check(view: &NodeView, expected: Expect) {
    let lines = node_document(view).pods.into_iter().map(|line| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        format!(
            "{}/{} {} {}/{} {} restarts={} age={} ip={} | {}\n",
            line.namespace,
            line.name,
            line.state.as_str(),
            line.ready,
            line.total,
            or_none(line.reason),
            line.restarts,
            or_none(line.age_seconds.map(|s| s.to_string())),
            or_none(line.ip),
            or_none(line.message),
        )
    });
    expected.assert_eq(&lines.collect::<String>());
}

fn one(phase: &str, container: ContainerStatus) -> WorkerView {
    worker(pod("web").build(), status(phase, vec![container]))
}

fn at(stage: Stage, mut view: WorkerView) -> WorkerView {
    view.stage = stage;
    view
}

fn crashing() -> WorkerView {
    let container = ContainerStatus {
        restart_count: 4,
        last_state: Some(end(1, "Error", 15)),
        ..waiting("app", "CrashLoopBackOff", "back-off 40s restarting failed container=app pod=web_default(web-uid)")
    };
    WorkerView { next_look: Some(Instant::from_millis(3_624_500)), ..one("Running", container) }
}

fn initialising(init: Vec<ContainerStatus>) -> WorkerView {
    let spec = pod("web").sidecar("proxy").init("migrate").init("seed").container("app").build();
    let status = PodStatus {
        init_container_statuses: Some(init),
        ..status("Pending", vec![waiting("app", "PodInitializing", "")])
    };
    worker(spec, status)
}

#[test]
fn a_line_summarizes_a_pod() {
    let up = PodStatus { pod_ip: Some("10.88.0.7".into()), ..status("Running", vec![running("app", 500, true)]) };
    check(
        &node(vec![worker(pod("web").build(), up)]),
        expect![[r#"
        default/web Running 1/1 - restarts=0 age=600 ip=10.88.0.7 | -
    "#]],
    );
    check(
        &node(vec![one("Pending", waiting("app", "ContainerCreating", ""))]),
        expect![[r#"
        default/web Pending 0/1 ContainerCreating restarts=0 age=600 ip=- | -
    "#]],
    );
    check(
        &node(vec![one("Pending", waiting("app", "ImagePullBackOff", "Back-off pulling image \"x\""))]),
        expect![[r#"
        default/web Pending 0/1 ImagePullBackOff restarts=0 age=600 ip=- | Back-off pulling image "x"
    "#]],
    );
    check(
        &node(vec![crashing()]),
        expect![[r#"
        default/web Running 0/1 CrashLoopBackOff restarts=4 age=600 ip=- | back-off 40s restarting failed container=app pod=web_default(web-uid)
    "#]],
    );
    check(
        &node(vec![one("Succeeded", ended("app", 0, "Completed", 30))]),
        expect![[r#"
        default/web Succeeded 0/1 Completed restarts=0 age=600 ip=- | -
    "#]],
    );
    check(
        &node(vec![one("Failed", ended("app", 137, "OOMKilled", 30))]),
        expect![[r#"
        default/web Failed 0/1 OOMKilled restarts=0 age=600 ip=- | -
    "#]],
    );
    check(
        &node(vec![one("Failed", ended("app", 3, "", 30))]),
        expect![[r#"
        default/web Failed 0/1 ExitCode:3 restarts=0 age=600 ip=- | -
    "#]],
    );
}

#[test]
fn a_completed_container_beside_a_running_one_is_no_reason() {
    let spec = pod("web").container("app").container("once").build();
    let both = status("Running", vec![running("app", 500, true), ended("once", 0, "Completed", 400)]);
    check(
        &node(vec![worker(spec, both)]),
        expect![[r#"
        default/web Running 1/2 - restarts=0 age=600 ip=- | -
    "#]],
    );
}

#[test]
fn init_containers_and_sidecars_are_shown_as_by_kubectl() {
    let proxy = || running("proxy", 60, true);
    check(
        &node(vec![initialising(vec![proxy(), running("migrate", 5, false)])]),
        expect![[r#"
        default/web Pending 1/2 Init:1/3 restarts=0 age=600 ip=- | -
    "#]],
    );
    let failed = ContainerStatus { restart_count: 2, ..ended("migrate", 1, "Error", 5) };
    check(
        &node(vec![initialising(vec![proxy(), failed])]),
        expect![[r#"
        default/web Pending 1/2 Init:Error restarts=2 age=600 ip=- | -
    "#]],
    );
    let done = |name: &str| ended(name, 0, "Completed", 5);
    check(
        &node(vec![initialising(vec![proxy(), done("migrate"), done("seed")])]),
        expect![[r#"
        default/web Pending 1/2 PodInitializing restarts=0 age=600 ip=- | -
    "#]],
    );
}

#[test]
fn a_terminating_pod_is_shown_with_its_cause() {
    let up = || one("Running", running("app", 500, true));
    let since = Instant::from_secs(3590);
    let grace = Grace::secs(30);
    for_stages(
        [
            Stage::Waiting,
            Stage::Terminating { since, grace, until: since + grace.get(), ending: Cause::Removed.into() },
            Stage::Terminated { since, ending: Cause::Orphaned.into() },
            Stage::Terminating { since, grace, until: since + grace.get(), ending: Cause::Ended.into() },
            Stage::Finished,
        ],
        up,
        expect![[r#"
            Waiting: Waiting -
            Terminating: Terminating Removed
            Terminated: Terminating Orphaned
            Terminating: Terminating -
            Finished: Terminated -
        "#]],
    );
    let over = || one("Succeeded", ended("app", 0, "Completed", 20));
    for_stages(
        [Stage::Terminated { since, ending: Cause::Ended.into() }, Stage::Finished],
        over,
        expect![[r#"
        Terminated: Succeeded Completed
        Finished: Succeeded Completed
    "#]],
    );
}

fn for_stages<const N: usize>(stages: [Stage; N], pod: impl Fn() -> WorkerView, expected: Expect) {
    let mut shown = String::new();
    for stage in stages {
        let view = node(vec![at(stage, pod())]);
        for line in node_document(&view).pods {
            let reason = line.reason.as_deref().unwrap_or("-");
            shown.push_str(&format!("{}: {} {reason}\n", line.stage.expect("it has a life"), line.state.as_str()));
        }
    }
    expected.assert_eq(&shown);
}

/// A running pod, a rejected pod, and an invalid manifest.
fn mixed() -> NodeView {
    let refused = pod("greedy").build();
    let message = "Pod was rejected: Node didn't have enough resource: cpu";
    let refusal = Arc::new(rejected(&refused, "OutOfcpu", message, ago(90)));
    let mut view = node(vec![
        one("Running", running("app", 500, true)),
        worker(pod("dns").ns("kube-system").build(), status("Pending", vec![])),
    ]);
    view.rejected.push(Rejected { pod: refused, status: refusal });
    view.bad.push(BadPod { origin: "/etc/kubernetes/manifests/b.yaml".into(), problem: "it is not YAML".into() });
    view
}

#[test]
fn rejected_pods_and_invalid_manifests_have_lines() {
    check(
        &mixed(),
        expect![[r#"
            default/greedy Rejected 0/1 OutOfcpu restarts=0 age=90 ip=- | Pod was rejected: Node didn't have enough resource: cpu
            default/web Running 1/1 - restarts=0 age=600 ip=- | -
            kube-system/dns Pending 0/1 - restarts=0 age=600 ip=- | -
            //etc/kubernetes/manifests/b.yaml Invalid 0/0 InvalidManifest restarts=0 age=- ip=- | it is not YAML
        "#]],
    );
}

#[test]
fn the_age_goes_back_to_the_oldest_known_time_across_a_restart() {
    let mut old = one("Running", running("app", 86_400, true));
    old.arrived.wall = ago(3);
    check(
        &node(vec![old]),
        expect![[r#"
        default/web Running 1/1 - restarts=0 age=86400 ip=- | -
    "#]],
    );
    let mut future = one("Pending", waiting("app", "", ""));
    future.arrived.wall = ago(-100);
    check(
        &node(vec![future]),
        expect![[r#"
        default/web Pending 0/1 - restarts=0 age=0 ip=- | -
    "#]],
    );
}

#[test]
fn a_pod_is_found_by_name_namespaced_name_uid_or_prefix() {
    let mut view = mixed();
    let web = pod("web-frontend").ns("shop").uid("9b1deb4d-1").build();
    view.pods.push(worker(web, status("Running", vec![])));
    // A static pod whose manifest changed: the old pod terminates while the new one waits.
    let mut young = one("Pending", waiting("app", "", ""));
    young.pod.uid = "web-uid-2".into();
    young.arrived.wall = ago(2);
    view.pods.push(young);
    let mut shown = String::new();
    for word in [
        "web-uid",
        "default/web",
        "web",
        "web-f",
        "shop/",
        "9b1d",
        "dns",
        "b.yaml",
        "gredy",
        "wob",
        "web-frontent",
        "kube",
        "",
        "default",
        "nothing",
    ] {
        let found = match pod_story(&view, word, &Extras::default()) {
            Ok(story) => format!("{} {}", story.line.name, story.line.uid),
            Err(miss) => format!("error: {miss}"),
        };
        shown.push_str(&format!("{word:?}: {found}\n"));
    }
    expect![[r#"
        "web-uid": web web-uid
        "default/web": web web-uid-2
        "web": web web-uid-2
        "web-f": web-frontend 9b1deb4d-1
        "shop/": web-frontend 9b1deb4d-1
        "9b1d": web-frontend 9b1deb4d-1
        "dns": dns dns-uid
        "b.yaml": /etc/kubernetes/manifests/b.yaml 
        "gredy": error: no pod "gredy" on this node; did you mean default/greedy?
        "wob": error: no pod "wob" on this node; did you mean default/web or shop/web-frontend?
        "web-frontent": error: no pod "web-frontent" on this node; did you mean shop/web-frontend?
        "kube": dns dns-uid
        "": error: no pod "" on this node; rubelet pods lists all
        "default": error: "default" may mean default/greedy or default/web: say which, by namespace/name or UID
        "nothing": error: no pod "nothing" on this node; rubelet pods lists all
    "#]]
    .assert_eq(&shown);
}

fn story(view: &NodeView, expected: Expect) {
    let story = pod_story(view, "web", &Extras::default()).expect("it is there");
    expected.assert_eq(&serde_json::to_string_pretty(&story).expect("plain data"));
    let read: super::PodStory =
        serde_json::from_str(&serde_json::to_string(&story).expect("plain data")).expect("what was written is read");
    assert_eq!(read, story);
}

#[test]
fn a_story_has_all_details() {
    let mut pod = crashing();
    let step =
        |secs, what: &str, bad| Entry { at: ago(secs), first: ago(secs), what: what.into(), times: 1, took: None, bad };
    pod.timeline.add(step(600, "Accepted from file", false));
    pod.timeline.add(Entry { took: Some(Duration::from_millis(250)), ..step(599, "Sandbox started", false) });
    pod.timeline.add(step(20, "BackOff: Back-off restarting failed container app", true));
    pod.timeline.add(step(15, "BackOff: Back-off restarting failed container app", true));
    story(
        &node(vec![pod]),
        expect![[r#"
            {
              "namespace": "default",
              "name": "web",
              "uid": "web-uid",
              "state": "Running",
              "stage": "Syncing",
              "reason": "CrashLoopBackOff",
              "message": "back-off 40s restarting failed container=app pod=web_default(web-uid)",
              "ready": 0,
              "total": 1,
              "restarts": 4,
              "age_seconds": 600,
              "ip": null,
              "source": null,
              "stage_seconds": 600,
              "grace_seconds": null,
              "problem": null,
              "failures": 0,
              "waiting": {
                "what": "the next start of container app",
                "since_seconds": 15,
                "until_in_seconds": 25
              },
              "resize": [],
              "containers": [
                {
                  "name": "app",
                  "role": "regular",
                  "image": "test/app:1",
                  "state": "Waiting",
                  "reason": "CrashLoopBackOff",
                  "message": "back-off 40s restarting failed container=app pod=web_default(web-uid)",
                  "ready": false,
                  "restarts": 4,
                  "since_seconds": null,
                  "exit_code": null,
                  "next_start_in_seconds": 25,
                  "last_end": {
                    "exit_code": 1,
                    "reason": "Error",
                    "message": null,
                    "seconds_ago": 15
                  },
                  "failing_probes": []
                }
              ],
              "timeline": [
                {
                  "at": "2026-05-28T20:16:40Z",
                  "first": "2026-05-28T20:16:40Z",
                  "what": "Accepted from file",
                  "times": 1,
                  "took_seconds": null,
                  "bad": false
                },
                {
                  "at": "2026-05-28T20:16:41Z",
                  "first": "2026-05-28T20:16:41Z",
                  "what": "Sandbox started",
                  "times": 1,
                  "took_seconds": 0.25,
                  "bad": false
                },
                {
                  "at": "2026-05-28T20:26:25Z",
                  "first": "2026-05-28T20:26:20Z",
                  "what": "BackOff: Back-off restarting failed container app",
                  "times": 2,
                  "took_seconds": null,
                  "bad": true
                }
              ],
              "steps_dropped": 0,
              "qos": "BestEffort"
            }"#]],
    );
}

/// Checks what the pod `web` waits for.
fn waits(view: &NodeView, expected: Expect) {
    let waiting = pod_story(view, "web", &Extras::default()).expect("it is there").waiting;
    let text = waiting.map_or_else(
        || "nothing".to_owned(),
        |w| format!("{}; since {:?}, until {:?}", w.what, w.since_seconds, w.until_in_seconds),
    );
    expected.assert_eq(&text);
}

#[test]
fn the_reason_for_waiting_is_shown_with_its_times() {
    waits(&node(vec![one("Running", running("app", 500, true))]), expect!["nothing"]);
    waits(&node(vec![crashing()]), expect!["the next start of container app; since Some(15), until Some(25)"]);
    let mut pulling = one("Pending", waiting("app", "ContainerCreating", ""));
    let since = Instant::from_secs(3588);
    pulling.waiting = Some(Waiting { what: "image x to be pulled".into(), since, until: None });
    waits(&node(vec![pulling.clone()]), expect!["image x to be pulled; since Some(12), until None"]);
    pulling.waiting = Some(Waiting { what: "the next try".into(), since, until: Some(Instant::from_secs(3601)) });
    waits(&node(vec![pulling.clone()]), expect!["the next try; since Some(12), until Some(1)"]);
    let mut down = node(vec![pulling]);
    down.runtime.up = false;
    down.runtime.problem = Some("status: no such socket".into());
    waits(&down, expect!["the container runtime: status: no such socket; since None, until None"]);
    let mut unready = one("Running", running("app", 500, false));
    let ready = PodCondition {
        type_: "Ready".into(),
        status: "False".into(),
        last_transition_time: Some(Time(ago(7))),
        ..PodCondition::default()
    };
    unready.status = Arc::new(PodStatus { conditions: Some(vec![ready]), ..(*unready.status).clone() });
    waits(&node(vec![unready]), expect!["container app to become ready; since Some(7), until None"]);
    let over = at(Stage::Finished, one("Succeeded", ended("app", 0, "Completed", 20)));
    waits(&node(vec![over]), expect!["nothing"]);
}

#[test]
fn the_node_document_has_the_state_of_the_node() {
    let mut view = node(Vec::new());
    view.runtime.up = false;
    view.runtime.problem = Some("status: no such socket".into());
    view.runtime.status.network.ready = false;
    view.unread_sources.push(Source::Http);
    view.job_panics = 2;
    let longest = Duration::from_micros(12_345);
    view.longest_hold_up = Some(TaskPolls { task: "pod-sync", polls: 7, longest, over_10_ms: 1, over_100_ms: 0 });
    expect![[r#"
        {
          "runtime": {
            "up": false,
            "problem": "status: no such socket",
            "network_problem": "the runtime's network is not ready"
          },
          "unread_sources": [
            "http"
          ],
          "job_panics": 2,
          "longest_hold_up": {
            "task": "pod-sync",
            "millis": 12
          },
          "pods": []
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&node_document(&view)).expect("plain data"));
}
