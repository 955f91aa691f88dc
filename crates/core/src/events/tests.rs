//! EVT-01; upstream: client-go tools/record/events_cache_test.go, event_test.go (v1.36)

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

const AT: i64 = 1_767_225_600;

fn at(secs: u64) -> Now {
    let wall = Timestamp::from_second(AT).expect("a time") + Duration::from_secs(secs);
    Now { mono: Instant::from_secs(secs), wall }
}

fn event_at(pod: &str, place: &str, reason: &str, message: &str, now: Now) -> Event {
    let mut object = Pod::default();
    object.metadata.name = Some(pod.to_owned());
    object.metadata.namespace = Some("shop".to_owned());
    object.metadata.uid = Some(format!("uid-of-{pod}"));
    object.metadata.resource_version = Some("12".to_owned());
    let place = Some(place.to_owned()).filter(|p| !p.is_empty());
    let words = Words { kind: "Warning", reason, message };
    new_event("node-a", pod_reference(&object, place), &words, now.wall, [0, 0])
}

/// The verdict in one line.
fn line(verdict: Verdict) -> String {
    match verdict {
        Verdict::Skip => "skip".to_owned(),
        Verdict::Create(event) => {
            format!(
                "create {} x{} {}",
                text(&event.metadata.name),
                event.count.unwrap_or_default(),
                text(&event.message)
            )
        }
        Verdict::Count { event, patch } => format!("count {} {patch}", text(&event.metadata.name)),
    }
}

/// Correlates one event a second: object, place, reason, message.
fn check(events: &[(&str, &str, &str, &str)], expected: &Expect) {
    let mut correlator = Correlator::default();
    let lines = events.iter().zip(0..).map(|((pod, place, reason, message), second)| {
        let now = at(second);
        line(correlator.correlate(event_at(pod, place, reason, message, now), now))
    });
    expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn evt_01_an_event_as_the_api_server_gets_it() {
    let mut event = event_at("web", "spec.containers{app}", "BackOff", "Back-off restarting", at(0));
    expect![[r#"{"apiVersion":"v1","count":1,"firstTimestamp":"2026-01-01T00:00:00Z","involvedObject":{"apiVersion":"v1","fieldPath":"spec.containers{app}","kind":"Pod","name":"web","namespace":"shop","resourceVersion":"12","uid":"uid-of-web"},"kind":"Event","lastTimestamp":"2026-01-01T00:00:00Z","message":"Back-off restarting","metadata":{"name":"web.18867251edfa0000","namespace":"shop"},"reason":"BackOff","reportingComponent":"kubelet","reportingInstance":"node-a","source":{"component":"kubelet","host":"node-a"},"type":"Warning"}"#]]
        .assert_eq(&serde_json::to_value(&event).expect("JSON").to_string());

    let words = Words { kind: "Normal", reason: "NodeReady", message: "Node node-a status is now: NodeReady" };
    event = new_event("node-a", node_reference("node-a"), &words, at(0).wall, [0, 0]);
    assert_eq!(text(&event.metadata.namespace), "default", "events about objects without a namespace go to default");
    assert_eq!(text(&event.metadata.name), "node-a.18867251edfa0000");
    assert_eq!(event.involved_object.uid, None, "nodeRef has no UID");
}

#[test]
fn evt_01_an_event_whose_subjects_name_leaves_no_room_is_called_by_chance() {
    let words = Words { kind: "Normal", reason: "R", message: "m" };
    let subject = ObjectReference { name: Some("a".repeat(250)), ..ObjectReference::default() };
    let event = new_event("n", subject, &words, at(0).wall, [u64::MAX, u64::MAX]);
    assert_eq!(text(&event.metadata.name), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

#[test]
fn evt_01_equal_events_are_counted() {
    check(
        &[("web", "", "R", "m"), ("web", "", "R", "m"), ("web", "", "R", "m"), ("db", "", "R", "m")],
        &expect![[r#"
            create web.18867251edfa0000 x1 m
            count web.18867251edfa0000 {"count":2,"lastTimestamp":"2026-01-01T00:00:01Z","message":"m"}
            count web.18867251edfa0000 {"count":3,"lastTimestamp":"2026-01-01T00:00:02Z","message":"m"}
            create db.18867252a0ca5e00 x1 m"#]],
    );
}

#[test]
fn evt_01_events_of_two_containers_are_not_one() {
    check(
        &[("web", "spec.containers{a}", "R", "m"), ("web", "spec.containers{b}", "R", "m")],
        &expect![[r#"
            create web.18867251edfa0000 x1 m
            create web.188672522994ca00 x1 m"#]],
    );
}

#[test]
fn evt_01_the_tenth_similar_event_stands_for_all_that_follow() {
    let messages: Vec<String> = (1..=12).map(|n| format!("m{n}")).collect();
    let events: Vec<_> = messages.iter().map(|m| ("web", "", "R", m.as_str())).collect();
    check(
        &events,
        &expect![[r#"
            create web.18867251edfa0000 x1 m1
            create web.188672522994ca00 x1 m2
            create web.18867252652f9400 x1 m3
            create web.18867252a0ca5e00 x1 m4
            create web.18867252dc652800 x1 m5
            create web.1886725317fff200 x1 m6
            create web.18867253539abc00 x1 m7
            create web.188672538f358600 x1 m8
            create web.18867253cad05000 x1 m9
            create web.18867254066b1a00 x1 (combined from similar events): m10
            count web.18867254066b1a00 {"count":2,"lastTimestamp":"2026-01-01T00:00:10Z","message":"(combined from similar events): m11"}
            count web.18867254066b1a00 {"count":3,"lastTimestamp":"2026-01-01T00:00:11Z","message":"(combined from similar events): m12"}"#]],
    );
}

#[test]
fn evt_01_many_equal_events_are_never_combined() {
    let mut correlator = Correlator::default();
    for second in 0..20 {
        let verdict = correlator.correlate(event_at("web", "", "R", "m", at(second)), at(second));
        assert!(!line(verdict).contains("combined"), "at {second}");
    }
}

#[test]
fn evt_01_similar_events_far_apart_are_not_combined() {
    let mut correlator = Correlator::default();
    for n in 0..20 {
        let now = at(n * 601);
        let verdict = correlator.correlate(event_at("web", "", "R", &format!("m{n}"), now), now);
        assert!(matches!(verdict, Verdict::Create(_)), "the {n}th: {verdict:?}");
    }
}

#[test]
fn evt_01_an_object_with_too_many_events_is_rate_limited() {
    let mut correlator = Correlator::default();
    let mut correlate = |pod: &str, kind: &str, second: u64| {
        let mut event = event_at(pod, "", "R", "m", at(second));
        event.type_ = Some(kind.to_owned());
        correlator.correlate(event, at(second))
    };
    for n in 0..25 {
        assert_ne!(correlate("web", "Warning", 0), Verdict::Skip, "the {n}th");
    }
    assert_eq!(correlate("web", "Warning", 0), Verdict::Skip, "the burst is over");
    assert_eq!(correlate("web", "Warning", 299), Verdict::Skip);
    assert!(line(correlate("web", "Warning", 301)).contains(r#""count":28"#), "skipped events are counted");
    assert_eq!(correlate("web", "Warning", 302), Verdict::Skip, "one in five minutes");
    assert_ne!(correlate("web", "Normal", 302), Verdict::Skip, "each kind has its own allowance");
    assert_ne!(correlate("db", "Warning", 302), Verdict::Skip, "and each object");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut correlator = Correlator::remembering(2);
    let mut correlate = |pod: &str| correlator.correlate(event_at(pod, "", "R", "m", at(0)), at(0));
    assert!(matches!(correlate("a"), Verdict::Create(_)));
    assert!(matches!(correlate("b"), Verdict::Create(_)));
    assert!(matches!(correlate("a"), Verdict::Count { .. }));
    assert!(matches!(correlate("c"), Verdict::Create(_)));
    assert!(matches!(correlate("b"), Verdict::Create(_)), "b was forgotten");
}

proptest! {
    /// Whatever events come, no object gets more of them through than its allowance permits.
    #[test]
    fn no_object_is_heard_of_more_often_than_allowed(events in proptest::collection::vec((0u8..3, 0u8..30, 0u64..400), 0..200)) {
        let mut correlator = Correlator::default();
        let (mut second, mut heard) = (0, [0u32; 3]);
        for (pod, message, pause) in events {
            second += pause;
            let event = event_at(&format!("p{pod}"), "", "R", &format!("m{message}"), at(second));
            if correlator.correlate(event, at(second)) != Verdict::Skip {
                heard[usize::from(pod)] += 1;
            }
        }
        let most = 25 + u32::try_from(second / 300).expect("small");
        prop_assert!(heard.iter().all(|n| *n <= most), "{heard:?} of {most} in {second} s");
    }
}

#[test]
fn a_message_of_pages_is_cut() {
    let message = "\u{e4}".repeat(1 << 20);
    let words = Words { kind: "Warning", reason: "Failed", message: &message };
    let event = new_event("node-a", node_reference("node-a"), &words, at(0).wall, [0, 0]);
    assert_eq!(event.message.map(|text| text.len()), Some(LONGEST_MESSAGE));
}

#[test]
fn the_node_is_referred_to_by_its_name_alone() {
    let reference = serde_json::to_value(node_reference("n1")).expect("JSON");
    assert_eq!(reference, serde_json::json!({"apiVersion": "v1", "kind": "Node", "name": "n1"}));
}
