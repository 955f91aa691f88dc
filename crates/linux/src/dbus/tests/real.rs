//! A real dbus-daemon, started for the test alone.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rubelet_engine::task::TaskGroup;
use tokio_util::sync::CancellationToken;

use crate::dbus::{Bus, BusError, Call, Endpoint, Others, SignalRule, Value};

const BUS: &str = "org.freedesktop.DBus";
const PATH: &str = "/org/freedesktop/DBus";

struct Daemon(Child);

impl Daemon {
    /// Starts a bus that listens in `dir`. It prints its address once it does.
    fn start(dir: &std::path::Path) -> (Self, Endpoint) {
        let socket = dir.join("bus");
        let mut child = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--address=unix:path={}", socket.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is installed (package dbus)");
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert!(line.starts_with("unix:path="), "{line}");
        (Self(child), Endpoint::Bus(socket))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn call(member: &str) -> Call {
    Call::new(BUS, PATH, BUS, member).within(Duration::from_secs(20))
}

#[tokio::test]
async fn node_bus_a_real_one_answers_signals_and_comes_back() {
    crate::testing::needs_node_tests();
    let dir = crate::testing::temp_dir();
    let (daemon, endpoint) = Daemon::start(dir.path());
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let bus = Bus::start(vec![endpoint], &mut tasks);
    let names = bus.call(call("ListNames")).await.unwrap();
    assert!(names.body[0].items().iter().any(|name| name.as_str() == Some(BUS)), "{names:?}");
    let err = bus.call(call("GetNameOwner").with([Value::str("org.example.Nobody")])).await.unwrap_err();
    assert_eq!(err.name(), Some("org.freedesktop.DBus.Error.NameHasNoOwner"));

    let rule = SignalRule {
        sender: BUS.to_owned(),
        others: Others::Ignored,
        path: PATH.to_owned(),
        interface: BUS.to_owned(),
        member: "NameAcquired".to_owned(),
        arg: Some((0, "org.example.Ours".to_owned())),
    };
    let mut signals = bus.subscribe(rule.clone()).await.unwrap();
    let request = call("RequestName").with([Value::str("org.example.Ours"), Value::U32(0)]);
    assert_eq!(bus.call(request).await.unwrap().body, [Value::U32(1)]);
    assert_eq!(signals.next().await.unwrap().body, [Value::str("org.example.Ours")]);

    drop(daemon);
    assert_eq!(signals.next().await, None);
    std::fs::remove_file(dir.path().join("bus")).ok();
    assert!(matches!(bus.call(call("GetId")).await, Err(BusError::Connect { .. })));
    let (_daemon, _) = Daemon::start(dir.path());
    bus.call(call("GetId")).await.unwrap();
    bus.subscribe(rule).await.unwrap();
    drop(bus);
    tasks.stop().await;
}
