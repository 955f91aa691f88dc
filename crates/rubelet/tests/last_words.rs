//! The end of a process whose log has its own thread: its last lines must be written, and must not wait for a reader that
//! does not read.

use std::io::Write as _;
use std::process::{Command, Stdio};

use rubelet_core::config::Logging;

/// Set in the process that ends.
const ENDS: &str = "RUBELET_TEST_ENDS";
const NAME: &str = "a_panic_and_the_last_error_reach_stderr_and_wait_for_no_reader";
/// What a new pipe takes before a write to it blocks.
const PIPE_BYTES: usize = 64 * 1024;

#[test]
fn a_panic_and_the_last_error_reach_stderr_and_wait_for_no_reader() {
    if std::env::var_os(ENDS).is_some() {
        end();
    }
    let read = process().stderr(Stdio::piped()).output().expect("it can be started");
    let stderr = String::from_utf8_lossy(&read.stderr);
    let parts =
        ["first line", "thread 'worker' panicked at", "last_words.rs", "lost my way", "rubelet: the last error"];
    let places: Vec<_> = parts.iter().map(|part| stderr.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {stderr}");
    assert_eq!(read.status.code(), Some(7));

    let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
    writer.write_all(&[b'x'; PIPE_BYTES]).expect("it fits");
    // If it waited for its reader, this would never end.
    let stuck = process().stderr(writer).status().expect("it can be started");
    assert_eq!(stuck.code(), Some(7));
    drop(reader);
}

/// This test, in a process of its own.
fn process() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.args(["--exact", NAME, "--nocapture"]).env(ENDS, "1").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn end() -> ! {
    let log = rubelet::logging::init(&Logging::default()).expect("logging is set up once");
    tracing::info!(target: "rubelet", "first line");
    let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(|| panic!("lost my way"));
    let _panicked = worker.expect("a thread can be started").join();
    log.finish(Some("rubelet: the last error"));
    std::process::exit(7)
}
