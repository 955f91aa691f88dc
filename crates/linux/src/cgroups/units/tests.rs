use rubelet_core::qos::{CgroupDriver, CgroupTree};
use rubelet_engine::chain::Chain;
use rubelet_engine::task::TaskGroup;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::dbus::Endpoint;
use crate::dbus::tests::fake::{FakeBus, FakeClient, Received};

const OWNER: &str = ":1.1";

/// Runs `client` with the units of a systemd that `script` plays.
async fn with_systemd<T>(
    script: impl FnOnce(&mut FakeClient) -> Vec<String> + Send + 'static,
    client: impl AsyncFnOnce(&Units, &CgroupPath) -> T,
) -> (T, Vec<String>) {
    let fake = FakeBus::new();
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let units = Units::new(Bus::start(vec![Endpoint::Bus(fake.path.clone())], &mut tasks));
    let server = std::thread::spawn(move || script(&mut fake.accept()));
    let path = CgroupTree::new("", CgroupDriver::Systemd, true).root();
    let result = client(&units, &path).await;
    let calls = server.join().unwrap();
    tasks.stop().await;
    (result, calls)
}

/// Answers a call that starts a job, whose end is this result.
fn end_job(bus: &mut FakeClient, call: &Received, result: &str) {
    let job = Value::Path("/org/freedesktop/systemd1/job/7".to_owned());
    bus.reply(call, std::slice::from_ref(&job));
    let body = [Value::U32(7), job, Value::str("kubepods.slice"), Value::str(result)];
    bus.signal(OWNER, (PATH, MANAGER, "JobRemoved"), &body);
}

fn named(call: &Received, body: &[Value]) -> String {
    let unit = body.first().and_then(Value::as_str).unwrap_or_default();
    format!("{} {unit}", call.member.as_deref().unwrap_or_default())
}

#[test]
fn versions_of_distributions_are_read() {
    for (text, version) in [("252.39-1~deb12u1", 252), ("v245.4-1.fc32", 245), ("\"249", 249), ("257~rc1", 257)] {
        assert_eq!(parse_version(text), Some(version), "{text}");
    }
    assert_eq!(parse_version("x"), None);
}

#[tokio::test]
async fn a_slice_that_somebody_else_made_is_taken_over_and_gets_our_limits() {
    let script = |bus: &mut FakeClient| {
        let mut calls = Vec::new();
        bus.serve(OWNER, "SetUnitProperties", |bus, call, body| {
            calls.push(named(call, body));
            match call.member.as_deref() {
                Some("StartTransientUnit") => bus.reply_error(call, UNIT_EXISTS),
                Some("Get") => bus.reply(call, &[Value::str("252").boxed()]),
                _ => bus.reply(call, &[]),
            }
        });
        calls
    };
    let client = async |units: &Units, path: &CgroupPath| {
        units.start(path, CgroupVersion::V2).await?;
        let values = CgroupValues { pids_limit: Some(100), ..CgroupValues::default() };
        units.set(path, &values, CgroupVersion::V2).await
    };
    let (done, calls) = with_systemd(script, client).await;
    done.unwrap();
    assert_eq!(
        calls,
        ["StartTransientUnit kubepods.slice", &format!("Get {MANAGER}"), "SetUnitProperties kubepods.slice"]
    );
}

#[tokio::test]
async fn a_slice_that_systemd_refuses_is_named_with_systemds_reason() {
    let script = |bus: &mut FakeClient| {
        bus.serve(OWNER, "StartTransientUnit", |bus, call, _| {
            bus.reply_error(call, "org.freedesktop.systemd1.UnitMasked")
        });
        Vec::new()
    };
    let client = async |units: &Units, path: &CgroupPath| units.start(path, CgroupVersion::V1).await;
    let (done, _) = with_systemd(script, client).await;
    let err = done.unwrap_err();
    assert_eq!(
        Chain(&err).to_string(),
        "start systemd unit kubepods.slice: StartTransientUnit answered org.freedesktop.systemd1.UnitMasked: it is so"
    );
}

#[tokio::test]
async fn a_job_that_fails_is_an_error_and_the_failed_unit_is_reset() {
    let script = |bus: &mut FakeClient| {
        let mut calls = Vec::new();
        bus.serve(OWNER, "ResetFailedUnit", |bus, call, body| {
            calls.push(named(call, body));
            match call.member.as_deref() {
                Some("StartTransientUnit") => end_job(bus, call, "failed"),
                _ => bus.reply(call, &[]),
            }
        });
        calls
    };
    let client = async |units: &Units, path: &CgroupPath| units.start(path, CgroupVersion::V1).await;
    let (done, calls) = with_systemd(script, client).await;
    let err = done.unwrap_err();
    assert_eq!(Chain(&err).to_string(), "start systemd unit kubepods.slice: systemd's job ended with \"failed\"");
    assert_eq!(calls, ["StartTransientUnit kubepods.slice", "ResetFailedUnit kubepods.slice"]);
}

/// The cgroup is what counts: the caller kills its processes and removes it, and fails if that cannot be done.
#[tokio::test]
async fn a_unit_that_cannot_be_stopped_is_reset_and_leaves_the_rest_to_its_cgroup() {
    for result in ["failed", "timeout", "canceled"] {
        let script = move |bus: &mut FakeClient| {
            let mut calls = Vec::new();
            bus.serve(OWNER, "ResetFailedUnit", |bus, call, body| {
                calls.push(named(call, body));
                match call.member.as_deref() {
                    Some("StopUnit") => end_job(bus, call, result),
                    _ => bus.reply(call, &[]),
                }
            });
            calls
        };
        let (done, calls) = with_systemd(script, async |units: &Units, path: &CgroupPath| units.stop(path).await).await;
        done.unwrap();
        assert_eq!(calls, ["StopUnit kubepods.slice", "ResetFailedUnit kubepods.slice"], "{result}");
    }
}
