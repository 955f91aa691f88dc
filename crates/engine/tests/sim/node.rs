//! The node's own object: registered, kept up to date, and not patched without a change.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeSystemInfo};
use rubelet_core::node::{Machine, NodeSetup};
use rubelet_engine::node_reporter::{NodeParts, NodeTiming, Registration};
use rubelet_engine::ports::ApiErrorKind;
use rubelet_testkit::FakeNodeApi;

use crate::sim::Sim;

pub(crate) fn parts(api: &FakeNodeApi) -> NodeParts {
    NodeParts {
        setup: NodeSetup {
            name: "node".into(),
            hostname: "node".into(),
            controller_attach_detach: true,
            port: 10250,
            max_images: Some(50),
            local_storage: true,
            kubelet_version: "v1.36.4".into(),
            pods: 110,
            machine: Machine {
                machine_id: "this".into(),
                boot_id: "boot".into(),
                architecture: "amd64".into(),
                cpu_millis: 64_000,
                memory_bytes: 64 << 30,
                storage_bytes: Some(1 << 40),
                ..Machine::default()
            },
            ..NodeSetup::default()
        },
        timing: NodeTiming {
            update_every: Duration::from_secs(10),
            report_every: Duration::from_secs(300),
            lease_seconds: 40,
        },
        registration: Registration::Ours,
        api: Arc::new(api.clone()),
        lease: Arc::new(api.clone()),
        watched: api.watched(),
    }
}

/// A node that is started with this API.
pub(crate) async fn started(prepare: impl FnOnce(&FakeNodeApi, &Sim)) -> (Sim, FakeNodeApi) {
    let mut sim = Sim::stopped(1);
    let api = FakeNodeApi::new();
    prepare(&api, &sim);
    let made = api.clone();
    sim.node = Some(Box::new(move || parts(&made)));
    sim.files.push([]);
    sim.start().await;
    (sim, api)
}

/// Status, reason and message of a condition.
pub(crate) fn condition(api: &FakeNodeApi, kind: &str) -> (String, String) {
    let conditions = api.node().and_then(|node| node.status).and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map(|found| (found.status, found.message.unwrap_or_default())).unwrap_or_default()
}

fn ready(api: &FakeNodeApi) -> String {
    condition(api, "Ready").0
}

fn count(api: &FakeNodeApi, call: &str) -> usize {
    api.calls().iter().filter(|made| *made == call).count()
}

#[tokio::test(start_paused = true)]
async fn node_01_11_a_node_is_registered_and_ready_at_once() {
    let (sim, api) = started(|_, sim| drop(sim.runtime.add_image("registry.example/app:1"))).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(ready(&api), "True", "{:?}", condition(&api, "Ready"));
    assert_eq!(count(&api, "create"), 1);
    let status = api.node().unwrap().status.unwrap();
    assert!(status.images.is_some_and(|images| !images.is_empty()), "NODE-14");
    assert_eq!(status.addresses.unwrap()[0].address, "192.0.2.1");
    assert!(status.node_info.unwrap().container_runtime_version.contains("://"));
    sim.pass(1).await;
    let events = sim.events.node_lines();
    for line in [
        "Normal Starting: Starting kubelet.",
        "Normal NodeAllocatableEnforced: Updated Node Allocatable limit across pods",
        "Normal NodeHasSufficientMemory: Node node status is now: NodeHasSufficientMemory",
        "Normal NodeHasNoDiskPressure: Node node status is now: NodeHasNoDiskPressure",
        "Normal NodeHasSufficientPID: Node node status is now: NodeHasSufficientPID",
        "Normal NodeReady: Node node status is now: NodeReady",
    ] {
        assert_eq!(events.iter().filter(|event| *event == line).count(), 1, "{line}: {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn node_10_without_a_change_a_report_goes_out_now_and_then() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(2).await;
    api.forget();
    sim.pass(3600).await;
    let (reports, reads) = (count(&api, "patch_status"), count(&api, "get"));
    assert!((11..=13).contains(&reports), "one each five minutes: {reports}");
    assert_eq!(reads, 0, "the watch shows the object");
    for patch in api.patches() {
        let status = patch["status"].as_object().unwrap();
        assert!(status.keys().all(|key| key.ends_with("conditions")), "only heartbeats: {patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn node_20_a_network_that_comes_late_makes_the_node_ready_within_a_moment() {
    let (sim, api) = started(|_, sim| sim.runtime.set_network(false, "cni plugin not initialized")).await;
    sim.pass(20).await;
    let (status, message) = condition(&api, "Ready");
    assert_eq!(status, "False");
    assert!(message.starts_with("container runtime network not ready: NetworkReady=false reason:"), "{message}");
    assert!(message.ends_with("message:cni plugin not initialized"), "{message}");
    sim.runtime.set_network(true, "");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ready(&api), "True");
    assert!(sim.events.node_lines().iter().any(|line| line.contains("NodeReady")));
}

#[tokio::test(start_paused = true)]
async fn node_20_a_runtime_that_is_away_makes_the_node_unready_after_half_a_minute() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    sim.runtime.go_away(Duration::from_secs(120));
    sim.pass(25).await;
    assert_eq!(ready(&api), "True", "a slow answer is only slow");
    sim.pass(12).await;
    assert_eq!(condition(&api, "Ready"), ("False".to_owned(), "container runtime is down".to_owned()));
    assert!(sim.events.node_lines().iter().any(|line| line.contains("NodeNotReady")));
    sim.pass(95).await;
    assert_eq!(ready(&api), "True");
}

#[tokio::test(start_paused = true)]
async fn node_05_a_node_that_is_there_is_put_right_and_taken_over() {
    let (sim, api) = started(|api, _| {
        let mut node = Node { spec: Some(NodeSpec::default()), ..Node::default() };
        node.metadata.name = Some("node".into());
        node.metadata.labels = Some([("theirs".to_owned(), "yes".to_owned())].into());
        node.spec.as_mut().unwrap().unschedulable = Some(true);
        node.status.get_or_insert_default().node_info =
            Some(NodeSystemInfo { machine_id: "another".into(), boot_id: "old".into(), ..NodeSystemInfo::default() });
        api.put_node(Some(node));
    })
    .await;
    sim.pass(2).await;
    let node = api.node().unwrap();
    let labels = node.metadata.labels.unwrap();
    assert_eq!((labels["kubernetes.io/hostname"].as_str(), labels["theirs"].as_str()), ("node", "yes"));
    assert_eq!(node.spec.unwrap().unschedulable, Some(true), "a cordon is not ours to lift");
    assert_eq!(node.status.unwrap().node_info.unwrap().machine_id, "this");
    assert_eq!(ready(&api), "True");
    let events = sim.events.node_lines();
    assert!(events.contains(&"Warning Rebooted: Node node has been rebooted, boot id: boot".to_owned()), "NODE-15");
    assert!(events.contains(&"Normal NodeNotSchedulable: Node node status is now: NodeNotSchedulable".to_owned()));
    api.edit_node(|node| node.spec.as_mut().unwrap().unschedulable = None);
    sim.pass(310).await;
    let events = sim.events.node_lines();
    assert!(events.contains(&"Normal NodeSchedulable: Node node status is now: NodeSchedulable".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn node_01_registering_is_tried_until_it_succeeds() {
    let (sim, api) = started(|api, _| {
        for kind in [ApiErrorKind::Failed, ApiErrorKind::Unauthorized, ApiErrorKind::Busy { retry_after: None }] {
            api.refuse("create", kind);
        }
    })
    .await;
    sim.pass(3).await;
    assert_eq!(count(&api, "create"), 4);
    assert_eq!(ready(&api), "True");
}

#[tokio::test(start_paused = true)]
async fn node_01_one_that_may_not_be_made_may_still_be_there() {
    let mut there = Node::default();
    there.metadata.name = Some("node".into());
    let (sim, api) = started(|api, _| {
        api.put_node(Some(there));
        api.refuse("create", ApiErrorKind::Forbidden);
    })
    .await;
    sim.pass(2).await;
    assert_eq!(ready(&api), "True");

    let (sim, api) = started(|api, _| (0..50).for_each(|_| api.refuse("create", ApiErrorKind::Forbidden))).await;
    sim.pass(60).await;
    assert!(api.node().is_none());
    let tries = count(&api, "create");
    assert!((8..=16).contains(&tries), "0.1, 0.2, 0.4 … 7 s: {tries}");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_meets_a_change_by_others_starts_again_from_the_newest() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(2).await;
    api.forget();
    api.refuse("patch_status", ApiErrorKind::Conflict);
    sim.runtime.set_network(false, "gone");
    sim.pass(6).await;
    assert_eq!(ready(&api), "False");
    let calls: Vec<_> = api.calls().into_iter().filter(|call| !call.starts_with("lease")).collect();
    assert_eq!(calls, ["patch_status", "get", "patch_status"]);
}

#[tokio::test(start_paused = true)]
async fn what_others_do_to_our_conditions_is_put_back_within_seconds() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    api.edit_node(|node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.iter_mut().filter(|c| c.type_ == "Ready").for_each(|c| c.status = "Unknown".into());
    });
    sim.pass(1).await;
    assert_eq!(ready(&api), "True");
}

#[tokio::test(start_paused = true)]
async fn two_who_do_not_agree_do_not_write_as_fast_as_they_can() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    api.forget();
    for _ in 0..200 {
        api.edit_node(|node| drop(node.metadata.labels.as_mut().unwrap().remove("kubernetes.io/os")));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let writes = count(&api, "patch_status");
    assert!((5..=12).contains(&writes), "about one a second: {writes}");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_api_server_drops_is_not_sent_again_and_again() {
    let (sim, api) = started(|api, _| api.drop_field("runtimeHandlers")).await;
    sim.pass(2).await;
    // The object was made with the field; from the first patch on it is gone.
    api.edit_node(|node| node.status.as_mut().unwrap().runtime_handlers = None);
    sim.pass(60).await;
    api.forget();
    sim.pass(1200).await;
    let writes = count(&api, "patch_status");
    assert!((3..=8).contains(&writes), "with the reports that are due, no more: {writes}");
}

#[tokio::test(start_paused = true)]
async fn a_node_deleted_while_it_runs_is_not_made_again_until_the_next_start() {
    let (mut sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    api.put_node(None);
    api.put_lease(None);
    sim.pass(120).await;
    assert!(api.node().is_none(), "a deleted node stays deleted");
    assert!(api.lease().is_none(), "a lease belongs to a node");
    sim.restart().await;
    sim.pass(2).await;
    assert_eq!(ready(&api), "True");
    assert!(api.lease().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_was_away_finds_the_node_as_it_is() {
    let (sim, api) = started(|api, _| api.set_away(true)).await;
    sim.pass(120).await;
    assert!(api.node().is_none());
    api.set_away(false);
    sim.pass(8).await;
    assert_eq!(ready(&api), "True", "registration is tried at least every seven seconds");
    api.set_away(true);
    sim.pass(60).await;
    sim.runtime.set_network(false, "gone");
    sim.pass(60).await;
    assert_eq!(ready(&api), "True", "the API could not be reached");
    api.set_away(false);
    sim.pass(11).await;
    assert_eq!(ready(&api), "False");
}

#[tokio::test(start_paused = true)]
async fn a_restart_reports_the_node_within_a_second_and_the_lease_goes_on_rst_12() {
    let (mut sim, api) = started(|_, _| {}).await;
    sim.pass(25).await;
    api.forget();
    sim.restart().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count(&api, "patch_status"), 1, "{:?}", api.calls());
    sim.pass(11).await;
    assert!(count(&api, "lease update") >= 1 && count(&api, "lease create") == 0, "{:?}", api.calls());
    assert_eq!(ready(&api), "True");
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_a_change_reports_once_and_emits_no_condition_event() {
    let (mut sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    let before = sim.events.node_lines().len();
    api.forget();
    sim.restart().await;
    sim.pass(5).await;
    let calls: Vec<_> = api.calls().into_iter().filter(|call| !call.starts_with("lease")).collect();
    assert_eq!(calls, ["create", "get", "patch_status"]);
    assert_eq!(ready(&api), "True");
    let events = sim.events.node_lines().split_off(before);
    assert!(
        events.iter().all(|line| line.contains("Starting") || line.contains("NodeAllocatableEnforced")),
        "{events:?}"
    );
    assert!(events.contains(&"Normal Starting: Starting kubelet.".to_owned()), "RST-12: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_disturbs_no_report() {
    let (mut sim, api) = started(|_, _| {}).await;
    sim.pass(5).await;
    for hours in [-5, 24, -1] {
        sim.set_wall(jiff::SignedDuration::from_hours(hours));
        api.forget();
        sim.pass(900).await;
        let writes = count(&api, "patch_status");
        assert!((2..=6).contains(&writes), "{hours} h: {writes} writes");
        assert_eq!(ready(&api), "True");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_given_the_time_that_it_asks_for() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(2).await;
    api.refuse("patch_status", ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(4)) });
    api.forget();
    sim.runtime.set_network(false, "gone");
    sim.until(6, "a report", async |_| count(&api, "patch_status") == 1).await;
    sim.pass(3).await;
    assert_eq!(count(&api, "patch_status"), 1, "the server asked for four seconds");
    sim.pass(2).await;
    assert_eq!((count(&api, "patch_status"), ready(&api).as_str()), (2, "False"));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_fails_is_tried_again_after_pauses_that_grow() {
    let (sim, api) = started(|_, _| {}).await;
    sim.pass(2).await;
    (0..3).for_each(|_| api.refuse("patch_status", ApiErrorKind::Failed));
    api.forget();
    sim.runtime.set_network(false, "gone");
    sim.until(6, "a report", async |_| count(&api, "patch_status") == 1).await;
    // 0.1, 0.2 and 0.4 s.
    for (millis, reports) in [(50, 1), (100, 2), (100, 2), (100, 3), (300, 3), (100, 4)] {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        assert_eq!(count(&api, "patch_status"), reports, "after {millis} ms more");
    }
    assert_eq!(ready(&api), "False");
}
