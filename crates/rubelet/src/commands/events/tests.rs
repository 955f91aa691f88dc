use expect_test::expect;
use jiff::tz::{Offset, TimeZone};
use rubelet_server::documents::{EventDocument, EventsDocument};

use super::{keep, notes, render};
use crate::commands::style::Style;

fn event(at: &str, reason: &str, message: &str) -> EventDocument {
    let at = at.parse().expect("a time");
    EventDocument {
        number: 1,
        at,
        first: at,
        times: 1,
        warning: false,
        reason: reason.into(),
        message: message.into(),
        namespace: Some("default".into()),
        pod: Some("web".into()),
        uid: Some("web-uid".into()),
        part: None,
    }
}

fn events() -> EventsDocument {
    let part = Some("spec.containers{app}".into());
    let node = EventDocument {
        namespace: None,
        pod: None,
        uid: None,
        ..event("2026-05-28T21:59:30Z", "Starting", "Starting kubelet.")
    };
    let back_off = EventDocument {
        warning: true,
        times: 7,
        part,
        ..event("2026-05-28T22:03:00Z", "BackOff", "Back-off \x1b[31m\nrestarting")
    };
    let dns = EventDocument {
        namespace: Some("kube-system".into()),
        pod: Some("dns".into()),
        ..event("2026-05-28T22:03:01Z", "Pulled", "Container image is present")
    };
    EventsDocument { newest: 9, dropped: 2, events: vec![node, back_off, dns] }
}

#[test]
fn events_are_shown_with_their_subject_and_count() {
    let zone = TimeZone::fixed(Offset::constant(2));
    expect![[r#"
        2026-05-28, UTC+02:00
        23:59:30   Starting node: Starting kubelet.
        2026-05-29, UTC+02:00
        00:03:00 ! BackOff web [app]: Back-off \u{1b}[31m
                   restarting (7 times)
        00:03:01   Pulled kube-system/dns: Container image is present
    "#]]
    .assert_eq(&render(&events(), Style::Plain, &zone));
    assert_eq!(notes(&events()), ["2 older events are no longer kept"]);
}

#[test]
fn a_namespace_leaves_out_the_node_and_other_pods() {
    let mut seen = events();
    keep(&mut seen, Some("kube-system"));
    assert_eq!(seen.events.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(), ["Pulled"]);
    keep(&mut seen, Some("none"));
    assert_eq!(notes(&seen), ["no events since the start of rubelet"]);
}
