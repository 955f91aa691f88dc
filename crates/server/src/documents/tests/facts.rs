//! What explains a pod beyond its state.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rubelet_core::ended::EndedPod;
use rubelet_core::lifecycle::Stage;
use rubelet_core::observe::{ContainerMarks, ContainerObservation, ContainerState, PodObservation};
use rubelet_core::plan::Verdict;
use rubelet_core::probe::ProbeKind;
use rubelet_core::qos::{CgroupDriver, CgroupTree};
use rubelet_core::time::Instant;
use rubelet_engine::images::PullView;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::UnansweredCall;
use rubelet_engine::prober::{ProbeHistory, ProbeRun};
use rubelet_testkit::pod;

use super::{at, one};
use crate::documents::{
    Extras, LogAsk, NodeFigures, PodState, ThresholdState, Used, ended_story, node_story, pod_log, pod_story,
    top_document,
};
use crate::testing::{NOW, ago, ended, insight, node, running, status, usage, waiting, worker};

/// The pod, with a container that the runtime has.
fn seen(mut view: WorkerView) -> WorkerView {
    let container = ContainerObservation {
        id: "c1".into(),
        sandbox: "s1".into(),
        name: "app".into(),
        state: ContainerState::Running { started_at: ago(500) },
        created_at: ago(501),
        image: "test/app:1".into(),
        image_id: String::new(),
        marks: ContainerMarks::default(),
        log_path: "/var/log/pods/default_web_web-uid/app/0.log".into(),
        resources: None,
        user: None,
    };
    let nothing = PodObservation::nothing(view.pod.clone(), NOW);
    view.seen = Some(Arc::new(PodObservation { containers: vec![container], ..nothing }));
    view
}

fn call(operation: &'static str, subject: &str, seconds: u64) -> UnansweredCall {
    let since = Instant::from_secs(3600 - seconds);
    UnansweredCall { operation, subject: subject.into(), since, until: since + Duration::from_secs(120) }
}

fn waits_for(view: WorkerView, extras: &Extras) -> String {
    let waiting = pod_story(&node(vec![view]), "web", extras).expect("it is there").waiting;
    waiting
        .map_or_else(|| "nothing".to_owned(), |w| format!("{} {:?} {:?}", w.what, w.since_seconds, w.until_in_seconds))
}

#[test]
fn a_call_that_is_not_answered_is_waited_for() {
    let view = || seen(one("Running", running("app", 500, true)));
    let of = |calls: Vec<UnansweredCall>| waits_for(view(), &Extras { calls, ..Extras::default() });
    assert_eq!(of(vec![call("stop_container", "other", 30)]), "nothing");
    assert_eq!(of(vec![call("stop_container", "c1", 1)]), "nothing", "it has only begun");
    assert_eq!(
        of(vec![call("start_container", "c1", 5), call("stop_container", "c1", 30)]),
        "the runtime to answer stop_container of container app Some(30) Some(90)"
    );
    assert_eq!(
        of(vec![call("run_podsandbox", "web-uid", 3)]),
        "the runtime to answer run_podsandbox of its sandbox Some(3) Some(117)"
    );
}

#[test]
fn a_pull_is_queued_behind_others_or_runs() {
    let pull = |image: &str, pod: &str, began: Option<u64>| PullView {
        image: image.into(),
        pod: pod.into(),
        asked: Instant::from_secs(3580),
        began: began.map(Instant::from_secs),
    };
    let pulls =
        |began| vec![pull("a:1", "x-uid", Some(3590)), pull("b:1", "y-uid", None), pull("app:1", "web-uid", began)];
    let view = || one("Pending", waiting("app", "ContainerCreating", ""));
    let of = |began| waits_for(view(), &Extras { pulls: pulls(began), ..Extras::default() });
    assert_eq!(of(None), "image app:1: queued behind 2 other pulls, now a:1, b:1 Some(20) None");
    assert_eq!(of(Some(3595)), "image app:1 to be pulled Some(5) None");
}

#[test]
fn a_finalizer_keeps_the_object_of_a_pod_that_is_over() {
    let spec = pod("web").deleted(1_779_999_940, 30).build();
    let mut spec = (*spec).clone();
    spec.metadata.finalizers = Some(vec!["example.org/keep".into()]);
    let view = |stage| {
        let view = worker(Arc::new(spec.clone()), status("Succeeded", vec![ended("app", 0, "Completed", 20)]));
        at(stage, view)
    };
    assert_eq!(
        waits_for(view(Stage::Finished), &Extras::default()),
        "the finalizer example.org/keep to be removed by its owner: until then the API server keeps the object Some(60) None"
    );
    let stays = waits_for(view(Stage::Syncing { since: NOW }), &Extras::default());
    assert!(!stays.contains("finalizer"), "{stays}");
}

#[test]
fn where_a_pod_is_and_how_its_probes_are_set_is_shown() {
    let spec = pod("web").container("app").request("cpu", "100m").probe(
        |container| &mut container.readiness_probe,
        5,
        |probe| probe.initial_delay_seconds = Some(2),
    );
    let view = seen(worker(spec.build(), status("Running", vec![running("app", 500, true)])));
    let run = |result, last, times| ProbeRun { result: Some(result), first: ago(400), last: ago(last), times };
    let extras = Extras {
        tree: Some(CgroupTree::new("/", CgroupDriver::Systemd, true)),
        probes: vec![ProbeHistory {
            container: "app".into(),
            kind: ProbeKind::Readiness,
            runs: vec![run(Verdict::Failure, 390, 2), run(Verdict::Success, 3, 79)],
        }],
        ..Extras::default()
    };
    let story = pod_story(&node(vec![view]), "web", &extras).expect("it is there");
    expect![[r#"
        PodFacts {
            qos: Some(
                "Burstable",
            ),
            cgroup: Some(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podweb_uid.slice",
            ),
            sandbox_id: None,
            finalizers: [],
            calls: [],
            pulls: [],
            gone_seconds: None,
        }
    "#]]
    .assert_debug_eq(&story.facts);
    expect![[r#"
        ContainerFacts {
            id: Some(
                "c1",
            ),
            log_path: Some(
                "/var/log/pods/default_web_web-uid/app/0.log",
            ),
            probes: [
                ProbeFacts {
                    kind: "readiness",
                    settings: "nothing every 5 s after 2 s, timeout 1 s; 3 failed or 1 passed in a row count",
                    history: [
                        "failed 2 times, last 390 s ago",
                        "passed 79 times, last 3 s ago",
                    ],
                },
            ],
        }
    "#]]
    .assert_debug_eq(&story.containers[0].facts);
}

#[test]
fn a_pod_that_is_gone_is_explained_for_a_while() {
    let gone = EndedPod {
        ended: ago(120),
        arrived: ago(600),
        namespace: "default".into(),
        name: "old".into(),
        uid: "old-uid".into(),
        status: PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() },
        timeline: Vec::new(),
    };
    let view = node(vec![one("Running", running("app", 500, true))]);
    let story = ended_story(&view, std::slice::from_ref(&gone), "old").expect("it is remembered");
    assert_eq!((story.line.state, story.facts.gone_seconds, story.waiting), (PodState::Succeeded, Some(120), None));
    assert!(ended_story(&view, &[gone], "other").is_none());
}

#[test]
fn the_log_of_a_container_is_found_or_why_there_is_none() {
    let container = || ContainerStatus { container_id: Some("containerd://c1".into()), ..running("app", 500, true) };
    let view = node(vec![seen(one("Running", container()))]);
    let log = |ask: LogAsk| pod_log(&view, &ask).map_err(|miss| miss.to_string());
    let ask = || LogAsk { pod: "web".into(), ..LogAsk::default() };
    let found = log(ask()).expect("a log");
    assert_eq!(
        (found.path.as_str(), found.running),
        ("/var/log/pods/default_web_web-uid/app/0.log", vec!["c1".to_owned()])
    );
    let none = log(LogAsk { container: Some("db".into()), ..ask() });
    assert_eq!(none, Err("pod web has no container \"db\"; it has app".into()));
    let before = log(LogAsk { previous: true, ..ask() });
    assert_eq!(before, Err("previous terminated container \"app\" in pod \"web\" not found".into()));
    let unknown = log(LogAsk { pod: "wbe".into(), ..ask() });
    assert_eq!(unknown, Err("no pod \"wbe\" on this node; did you mean default/web?".into()));
}

#[test]
fn the_node_is_counted_and_its_thresholds_stand_somewhere() {
    let spec = pod("web").container("app").request("cpu", "250m").request("memory", "1Gi").build();
    let over = at(Stage::Finished, one("Succeeded", ended("app", 0, "Completed", 20)));
    let view = node(vec![worker(spec, status("Running", vec![running("app", 500, true)])), over]);
    let (insight, usage) = (insight(None), usage());
    let figures = |usage| NodeFigures {
        node: "node-1",
        version: "v1.36.4",
        limits: &insight.limits,
        allocatable: &insight.limits.capacity,
        usage,
        disks: usage.ok(),
        eviction: None,
    };
    let story = node_story(&view, &figures(Ok(&usage)));
    let resources: Vec<_> =
        story.resources.iter().map(|r| (r.name.as_str(), r.capacity, r.requested, r.used)).collect();
    assert_eq!(
        resources,
        [("cpu", 2000, 250, Some(300)), ("memory", 8 << 30, 1 << 30, Some(7 << 30)), ("pods", 110, 1, Some(1))]
    );
    let states: Vec<_> = story.thresholds.iter().map(|t| (t.signal.as_str(), t.hard, t.threshold, t.state)).collect();
    assert_eq!(
        states,
        [
            ("memory.available", true, Some(100 << 20), ThresholdState::Far),
            ("nodefs.available", true, Some(10 << 30), ThresholdState::Crossed),
            ("memory.available", false, Some(1 << 30), ThresholdState::Near),
        ]
    );
    assert_eq!(story.disks.len(), 1, "nodefs and imagefs are one");
    let disk = story.disk_use.expect("it was measured");
    assert_eq!((disk.images, disk.volumes, disk.logs, disk.pods.len()), (Some(5 << 30), 64 << 20, 2 << 20, 1));
    let story = node_story(&view, &figures(Err("nothing is measured")));
    assert!(story.thresholds.iter().all(|threshold| threshold.state == ThresholdState::Unknown));
    assert_eq!((story.disk_use, story.usage_problem.as_deref()), (None, Some("nothing is measured")));

    let top = top_document(&usage, &insight.limits);
    let pods: Vec<_> = top.pods.iter().map(|pod| (pod.name.as_str(), pod.used, pod.containers.len())).collect();
    let used = |nanos, bytes| Used { cpu_nanocores: Some(nanos), memory_bytes: Some(bytes) };
    assert_eq!((top.node, pods), (used(300_000_000, 7 << 30), vec![("web", used(12_000_000, 40 << 20), 1)]));
}
