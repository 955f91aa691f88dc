//! Section 29; upstream: client-go tools/record/event_test.go (v1.36)

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_engine::ports::ApiErrorKind;
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::SeededRng;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::requests::fake::{FakeServer, error};

struct Rig {
    server: FakeServer,
    events: ApiEvents,
    _tasks: TaskGroup,
}

fn rig() -> Rig {
    let server = FakeServer::new();
    let clock = Clock::virtual_from(Timestamp::from_second(1_767_225_600).expect("a time"));
    let (events, sender) = ApiEvents::new(server.clone(), "node-a", clock, Arc::new(SeededRng::new(1)));
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("sender", sender.run(tasks.cancel_token()));
    Rig { server, events, _tasks: tasks }
}

impl Rig {
    fn pod_event(&self, message: &str) {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".into());
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.uid = Some("u1".into());
        self.events.record(PodEvent {
            pod: Arc::new(pod),
            field_path: Some("spec.containers{app}".into()),
            kind: EventKind::Warning,
            reason: "BackOff".into(),
            message: message.into(),
            annotations: std::collections::BTreeMap::new(),
        });
    }

    /// Method, path, count and message of each request since the last call.
    async fn sent(&self, after: Duration) -> Vec<String> {
        tokio::time::sleep(after).await;
        let short = |line: String| {
            let (request, body) = line.split_once(" {").expect("a body");
            let body: serde_json::Value = serde_json::from_str(&format!("{{{body}")).expect("JSON");
            format!("{request} x{} {}", body["count"], body["message"].as_str().unwrap_or_default())
        };
        self.server.asked().into_iter().map(short).collect()
    }
}

/// An event is sent half a second after it was recorded.
const SOON: Duration = Duration::from_millis(510);
const LIST: &str = "POST /api/v1/namespaces/shop/events";
const FIRST: &str = "PATCH /api/v1/namespaces/shop/events/web.18867251edfa0000";

#[tokio::test(start_paused = true)]
async fn evt_01_events_are_created_and_aggregated() {
    let rig = rig();
    rig.pod_event("one");
    rig.pod_event("one");
    rig.events.record_node(NodeEvent { kind: EventKind::Normal, reason: "NodeReady".into(), message: "ready".into() });
    let expected =
        [format!("{LIST} x1 one"), format!("{FIRST} x2 one"), "POST /api/v1/namespaces/default/events x1 ready".into()];
    assert!(rig.sent(Duration::from_millis(490)).await.is_empty(), "events are delayed while a pod starts");
    assert_eq!(rig.sent(SOON).await, expected);
}

#[tokio::test(start_paused = true)]
async fn evt_01_an_event_deleted_meanwhile_is_created_again_with_its_count() {
    let rig = rig();
    rig.pod_event("one");
    rig.server.answer(FIRST, Err(error(ApiErrorKind::NotFound)));
    rig.pod_event("one");
    assert_eq!(rig.sent(SOON).await, [format!("{LIST} x1 one"), format!("{FIRST} x2 one"), format!("{LIST} x2 one")]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_event_is_not_retried() {
    let rig = rig();
    for kind in [ApiErrorKind::Forbidden, ApiErrorKind::Invalid, ApiErrorKind::AlreadyExists] {
        rig.server.answer(LIST, Err(error(kind)));
        rig.pod_event(&format!("{kind:?}"));
    }
    assert_eq!(rig.sent(Duration::from_secs(60)).await.len(), 3, "one attempt each");
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_events_wait_in_order() {
    let rig = rig();
    rig.server.set_away(true);
    rig.pod_event("one");
    rig.pod_event("two");
    let tries = rig.sent(Duration::from_secs(60)).await;
    assert!(tries.len() > 3 && tries.iter().all(|line| line.ends_with("one")), "{tries:?}");
    rig.server.set_away(false);
    assert_eq!(rig.sent(Duration::from_secs(11)).await, [format!("{LIST} x1 one"), format!("{LIST} x1 two")]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_after_two_minutes_and_the_queue_is_bounded() {
    let rig = rig();
    rig.server.set_away(true);
    for n in 0..1002 {
        rig.pod_event(&format!("m{n}"));
    }
    assert!(rig.events.dropped() >= 1, "recording does not wait for room");
    rig.sent(Duration::from_secs(140)).await;
    rig.server.set_away(false);
    let sent = rig.sent(Duration::from_secs(11)).await;
    assert!(sent.first().is_some_and(|line| line.ends_with(" m1")), "{:?}", sent.first());
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_busy_server_is_honoured() {
    let rig = rig();
    let pause = Duration::from_secs(3);
    rig.server.answer(LIST, Err(error(ApiErrorKind::Busy { retry_after: Some(pause) })));
    rig.pod_event("one");
    assert_eq!(rig.sent(Duration::from_millis(3400)).await.len(), 1);
    assert_eq!(rig.sent(Duration::from_millis(200)).await.len(), 1);
}
