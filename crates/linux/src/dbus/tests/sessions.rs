//! Calls and signals over a socket.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use rubelet_engine::task::TaskGroup;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeBus, FakeClient};
use crate::dbus::{Bus, BusError, Call, Endpoint, Others, Reply, Signal, SignalRule, Value};

const SERVICE: &str = "org.example.S";
const JOB_REMOVED: (&str, &str, &str) = ("/o", "org.example.I", "Removed");
const OWNER_CHANGED: (&str, &str, &str) = ("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged");

/// Runs `client` on a bus of which `script` is the other side.
async fn on_bus<T>(script: impl FnOnce(&FakeBus) + Send + 'static, client: impl AsyncFnOnce(&Bus) -> T) -> T {
    let fake = FakeBus::new();
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let bus = Bus::start(vec![Endpoint::Bus(fake.path.clone())], &mut tasks);
    let server = std::thread::spawn(move || script(&fake));
    let result = client(&bus).await;
    drop(bus);
    tasks.stop().await;
    server.join().unwrap();
    result
}

fn call(member: &str) -> Call {
    Call::new(SERVICE, "/o", "org.example.I", member).within(Duration::from_secs(20))
}

fn rule() -> SignalRule {
    SignalRule {
        sender: SERVICE.to_owned(),
        others: Others::Ignored,
        path: "/o".to_owned(),
        interface: "org.example.I".to_owned(),
        member: "Removed".to_owned(),
        arg: Some((1, "it's".to_owned())),
    }
}

fn texts(reply: &Reply) -> Vec<&str> {
    reply.body.iter().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn replies_are_matched_by_serial() {
    let script = |fake: &FakeBus| {
        let mut client = fake.accept();
        let (first, second) = (client.receive().0, client.receive().0);
        client.reply(&second, &[Value::str(second.member.clone().unwrap())]);
        client.reply(&first, &[Value::str(first.member.clone().unwrap())]);
    };
    on_bus(script, async |bus| {
        let (a, b) = tokio::join!(bus.call(call("A")), bus.call(call("B")));
        assert_eq!((texts(&a.unwrap()), texts(&b.unwrap())), (vec!["A"], vec!["B"]));
    })
    .await;
}

#[tokio::test]
async fn an_error_has_its_name_and_a_descriptor_arrives() {
    let script = |fake: &FakeBus| {
        let mut client = fake.accept();
        let (first, body) = client.receive();
        assert_eq!(body, [Value::U32(3)]);
        client.reply_error(&first, "org.example.Refused");
        let (second, _) = client.receive();
        client.reply_fd(&second, File::open("/proc/self/comm").unwrap());
    };
    on_bus(script, async |bus| {
        let err = bus.call(call("A").with([Value::U32(3)])).await.unwrap_err();
        assert_eq!(err.name(), Some("org.example.Refused"));
        assert_eq!(err.to_string(), "A answered org.example.Refused: it is so");
        let mut text = String::new();
        let fd = bus.call(call("Inhibit")).await.unwrap().into_fd().unwrap();
        File::from(fd).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_lost_connection_fails_its_calls_and_the_next_call_opens_another() {
    let script = |fake: &FakeBus| {
        let mut client = fake.accept();
        client.accept_subscription(":1.2");
        client.receive();
        drop(client);
        let mut client = fake.accept();
        let (again, _) = client.receive();
        client.reply(&again, &[]);
    };
    on_bus(script, async |bus| {
        let mut signals = bus.subscribe(rule()).await.unwrap();
        assert!(matches!(bus.call(call("A")).await, Err(BusError::Lost { .. })));
        assert_eq!(signals.next().await, None);
        bus.call(call("A")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn signals_count_only_from_the_owner_of_the_name() {
    let body = |unit: &str| [Value::U32(4), Value::str(unit)];
    let script = move |fake: &FakeBus| {
        let mut client = fake.accept();
        let expected =
            r"type='signal',sender='org.example.S',path='/o',interface='org.example.I',member='Removed',arg1='it'\''s'";
        assert_eq!(client.accept_subscription(":1.2"), expected);
        client.signal(":1.66", JOB_REMOVED, &body("it's"));
        client.signal(":1.2", JOB_REMOVED, &body("another"));
        client.signal(":1.66", OWNER_CHANGED, &[Value::str(SERVICE), Value::str(":1.2"), Value::str(":1.66")]);
        client.signal(":1.2", JOB_REMOVED, &body("it's"));
        client.signal(
            "org.freedesktop.DBus",
            OWNER_CHANGED,
            &[Value::str(SERVICE), Value::str(":1.2"), Value::str("")],
        );
        assert_removed(&mut client);
    };
    on_bus(script, async |bus| {
        let mut signals = bus.subscribe(rule()).await.unwrap();
        assert_eq!(signals.next().await, Some(Signal { is_of_service: true, body: body("it's").to_vec() }));
        assert_eq!(signals.next().await, None, "its sender was replaced");
    })
    .await;
}

#[tokio::test]
async fn signals_of_others_are_told_from_those_of_the_service() {
    let body = [Value::Bool(true), Value::str("it's")];
    let (sent, expected) = (body.clone(), body.to_vec());
    let script = move |fake: &FakeBus| {
        let mut client = fake.accept();
        let rule = r"type='signal',path='/o',interface='org.example.I',member='Removed',arg1='it'\''s'";
        assert_eq!(client.accept_subscription(":1.2"), rule);
        client.signal(":1.66", JOB_REMOVED, &sent);
        client.signal(":1.66", ("/o", "org.example.I", "Added"), &sent);
        client.signal(":1.2", JOB_REMOVED, &sent);
        client.signal(
            "org.freedesktop.DBus",
            OWNER_CHANGED,
            &[Value::str(SERVICE), Value::str(":1.2"), Value::str("")],
        );
        assert_removed(&mut client);
    };
    on_bus(script, async |bus| {
        let mut signals = bus.subscribe(SignalRule { others: Others::Trusted, ..rule() }).await.unwrap();
        for is_of_service in [false, true] {
            assert_eq!(signals.next().await, Some(Signal { is_of_service, body: expected.clone() }));
        }
        assert_eq!(signals.next().await, None, "its service was replaced");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_subscription_takes_its_rules_back() {
    let script = |fake: &FakeBus| {
        let mut client = fake.accept();
        client.accept_subscription(":1.2");
        assert_removed(&mut client);
        let (last, _) = client.receive();
        client.reply(&last, &[]);
    };
    on_bus(script, async |bus| {
        drop(bus.subscribe(rule()).await.unwrap());
        bus.call(call("A")).await.unwrap();
    })
    .await;
}

fn assert_removed(client: &mut FakeClient) {
    for _ in 0..2 {
        assert_eq!(client.receive().0.member.as_deref(), Some("RemoveMatch"));
    }
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let script = |fake: &FakeBus| {
        let mut client = fake.accept();
        client.receive();
        let (second, _) = client.receive();
        client.reply(&second, &[]);
    };
    on_bus(script, async |bus| {
        let late = bus.call(call("A").within(Duration::from_millis(1))).await;
        assert!(matches!(late, Err(BusError::Timeout { .. })), "{late:?}");
        bus.call(call("B")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn no_socket_is_an_error_that_names_it() {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let bus = Bus::start(vec![Endpoint::Bus("/nonexistent/bus".into())], &mut tasks);
    let err = bus.call(call("A")).await.unwrap_err();
    assert_eq!(err.to_string(), "connect to D-Bus at /nonexistent/bus");
}
