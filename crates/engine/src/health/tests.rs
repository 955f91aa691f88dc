//! What is published and logged of a runtime's health; when the runtime is asked is shown in `tests/sim/health.rs`.

use std::io;
use std::sync::Mutex;

use super::*;

/// A log that a test can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What publishing logs, and whether readers are woken.
fn published(before: &RuntimeHealth, after: &RuntimeHealth) -> (String, bool) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let (sender, mut reader) = watch::channel(before.clone());
    reader.mark_unchanged();
    tracing::subscriber::with_default(subscriber, || publish(&sender, after.clone()));
    assert_eq!(*reader.borrow(), *after);
    let text = String::from_utf8(log.0.lock().expect("no test panicked").clone()).expect("text");
    (text.trim().to_owned(), reader.has_changed().expect("the sender is here"))
}

fn health(up: bool, problem: Option<&str>) -> RuntimeHealth {
    RuntimeHealth { up, problem: problem.map(str::to_owned), ..RuntimeHealth::default() }
}

#[test]
fn a_change_is_published_once_and_a_new_problem_is_logged_once() {
    let (well, slow, down) = (health(true, None), health(true, Some("slow")), health(false, Some("gone")));
    let answered = RuntimeHealth { answered: true, ..down.clone() };
    for (before, after, line, changed) in [
        (&well, &well, "", false),
        (&down, &down, "", false),
        (&down, &well, "INFO The runtime is ready", true),
        (&health(false, None), &slow, "INFO The runtime is ready", true),
        (&well, &down, "WARN The runtime is not ready: pods wait problem=gone", true),
        (&well, &slow, "WARN The runtime does not answer problem=slow", true),
        (&slow, &health(true, Some("slower")), "WARN The runtime does not answer problem=slower", true),
        (&down, &health(false, Some("away")), "WARN The runtime does not answer problem=away", true),
        (&down, &answered, "", true),
        (&slow, &well, "", true),
    ] {
        assert_eq!(published(before, after), (line.to_owned(), changed), "{before:?} to {after:?}");
    }
}

#[test]
fn a_runtime_is_well_when_it_is_up_and_has_no_problem() {
    for (up, problem, well) in
        [(true, None, true), (true, Some("slow"), false), (false, None, false), (false, Some("gone"), false)]
    {
        assert_eq!(health(up, problem).is_well(), well, "{up} {problem:?}");
    }
}

#[test]
fn sync_05_a_network_that_is_not_ready_has_a_reason() {
    let mut health = health(true, None);
    assert_eq!(health.network_problem().as_deref(), Some("the runtime's network is not ready"));
    health.status.network.message = "no CNI configuration".to_owned();
    assert_eq!(health.network_problem().as_deref(), Some("no CNI configuration"));
    health.status.network.ready = true;
    assert_eq!(health.network_problem(), None);
}
