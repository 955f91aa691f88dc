//! Init containers, restarts, probes and resizes in a story.

use std::time::Duration;

use expect_test::expect;
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::probe::ProbeKind;
use rubelet_engine::prober::ProbeTrouble;
use rubelet_testkit::pod;

use super::{initialising, waits};
use crate::documents::{Extras, pod_story};
use crate::testing::{end, ended, node, running, status, waiting, worker};

#[test]
fn the_running_init_container_is_named_with_its_position() {
    let done = || ended("migrate", 0, "Completed", 5);
    let proxy = |started| ContainerStatus { started: Some(started), ..running("proxy", 60, true) };
    let starting = initialising(vec![proxy(false), waiting("migrate", "PodInitializing", "")]);
    waits(&node(vec![starting]), expect!["sidecar proxy to have started (1 of 2); since Some(60), until None"]);
    let first = initialising(vec![proxy(true), running("migrate", 5, false), waiting("seed", "PodInitializing", "")]);
    waits(&node(vec![first]), expect!["init container migrate to end (2 of 3); since Some(5), until None"]);
    let second = initialising(vec![proxy(true), done(), running("seed", 2, false)]);
    waits(&node(vec![second]), expect!["init container seed to end (3 of 3); since Some(2), until None"]);
    let failed = ContainerStatus { last_state: Some(end(1, "Error", 4)), ..waiting("migrate", "CrashLoopBackOff", "") };
    let mut failed = initialising(vec![proxy(true), failed]);
    failed.next_starts.insert("migrate".into(), Duration::from_millis(5_200));
    waits(&node(vec![failed]), expect!["the next start of container migrate; since Some(4), until Some(6)"]);
}

#[test]
fn each_container_has_its_next_start_and_its_failing_probes() {
    let spec = pod("web").container("app").container("helper").build();
    let back_off = |name: &str| waiting(name, "CrashLoopBackOff", "back-off");
    let mut view = worker(spec, status("Running", vec![back_off("app"), back_off("helper"), running("web", 9, false)]));
    view.next_starts = [("app", 10), ("helper", 300)].map(|(name, s)| (name.into(), Duration::from_secs(s))).into();
    view.probe_troubles = vec![ProbeTrouble {
        container: "web".into(),
        kind: ProbeKind::Liveness,
        said: "HTTP probe failed with statuscode: 500".into(),
        times: 2,
    }];
    let story = pod_story(&node(vec![view]), "web", &Extras::default()).expect("it is there");
    let shown = story.containers.iter().map(|c| {
        let probes = c.failing_probes.iter().map(|p| format!(" {} x{}: {}", p.kind, p.times, p.said));
        format!("{} {:?}{}\n", c.name, c.next_start_in_seconds, probes.collect::<String>())
    });
    expect![[r#"
        app Some(10)
        helper Some(300)
        web None liveness x2: HTTP probe failed with statuscode: 500
    "#]]
    .assert_eq(&shown.collect::<String>());
}

#[test]
fn a_resize_is_shown_with_its_reason_and_its_changes() {
    let condition = |kind: &str, reason: &str, message: &str| PodCondition {
        type_: kind.into(),
        status: "True".into(),
        reason: Some(reason.into()).filter(|r: &String| !r.is_empty()),
        message: Some(message.into()).filter(|m: &String| !m.is_empty()),
        ..PodCondition::default()
    };
    let show = |conditions: Vec<PodCondition>| {
        let spec = pod("web").request("cpu", "100m").limit("cpu", "200m").limit("memory", "1Gi").build();
        let list = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned()))).collect())
        };
        let has = ResourceRequirements {
            requests: list(&[("cpu", "0.1")]),
            limits: list(&[("cpu", "100m")]),
            ..ResourceRequirements::default()
        };
        let app = ContainerStatus { resources: Some(has), ..running("app", 500, true) };
        let status = PodStatus { conditions: Some(conditions), ..status("Running", vec![app]) };
        pod_story(&node(vec![worker(spec, status)]), "web", &Extras::default()).expect("it is there").resize.join("\n")
    };
    assert_eq!(show(Vec::new()), "");
    expect!["in progress: app cpu limit 100m to 200m, app memory limit none to 1Gi"].assert_eq(&show(vec![condition(
        "PodResizeInProgress",
        "",
        "",
    )]));
    expect![[r#"
        in progress: app cpu limit 100m to 200m, app memory limit none to 1Gi; cannot decrease memory limits
        pending (Deferred): Node didn't have enough resource: cpu"#]]
    .assert_eq(&show(vec![
        condition("PodResizePending", "Deferred", "Node didn't have enough resource: cpu"),
        condition("PodResizeInProgress", "Error", "cannot decrease memory limits"),
    ]));
}
