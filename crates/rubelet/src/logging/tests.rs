//! Verbosity, vmodule, the keys of JSON lines, and the bounds of all of it.

use std::io::Write;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rubelet_core::config::VModule;
use serde_json::Value;

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(logging: &Logging, work: impl FnOnce()) -> String {
    let captured = Captured::default();
    let writer = captured.clone();
    tracing::subscriber::with_default(subscriber(logging, move || writer.clone()), work);
    let bytes = captured.0.lock().expect("not poisoned").clone();
    String::from_utf8(bytes).expect("text")
}

fn with(verbosity: u32, vmodule: &[(&str, u32)]) -> Logging {
    let item = |(pattern, verbosity): &(&str, u32)| VModule { file_pattern: (*pattern).into(), verbosity: *verbosity };
    Logging { verbosity, vmodule: vmodule.iter().map(item).collect(), ..Logging::default() }
}

/// A place in the code, so that what was decided for it once is decided again.
fn debug_line() {
    tracing::debug!("detail");
}

#[test]
fn flg_01_the_verbosity_changes_while_the_process_runs() {
    let captured = Captured::default();
    let writer = captured.clone();
    let verbosity = Arc::new(AtomicU32::new(2));
    let subscriber = subscriber_of(&with(2, &[]), Arc::clone(&verbosity), move || writer.clone());
    tracing::subscriber::with_default(subscriber, || {
        for level in [2, 4, 4, 0] {
            verbosity.store(level, Ordering::Relaxed);
            tracing::callsite::rebuild_interest_cache();
            debug_line();
        }
    });
    let text = String::from_utf8(captured.0.lock().expect("not poisoned").clone()).expect("text");
    assert_eq!(text.matches("detail").count(), 2, "{text}");
}

#[test]
fn verbosity_chooses_levels_for_rubelet_and_for_libraries() {
    let lines = |logging: &Logging| {
        let text = logged(logging, || {
            tracing::warn!("own-warn");
            tracing::info!("own-info");
            tracing::debug!("own-debug");
            tracing::trace!("own-trace");
            tracing::debug!(target: "rubelet_engine::pleg", "pleg-debug");
            tracing::warn!(target: "hyper::proto", "lib-warn");
            tracing::info!(target: "hyper::proto", "lib-info");
            tracing::trace!(target: "hyper::proto", "lib-trace");
        });
        text.lines().filter_map(|line| line.split(' ').next_back()).collect::<Vec<_>>().join(" ")
    };
    let quiet = "own-warn own-info lib-warn";
    assert_eq!(lines(&with(0, &[])), quiet);
    assert_eq!(lines(&with(3, &[])), quiet);
    assert_eq!(lines(&with(4, &[])), "own-warn own-info own-debug pleg-debug lib-warn");
    assert_eq!(lines(&with(6, &[])), "own-warn own-info own-debug own-trace pleg-debug lib-warn lib-info");
    assert_eq!(lines(&with(8, &[])), "own-warn own-info own-debug own-trace pleg-debug lib-warn lib-info lib-trace");
    assert_eq!(lines(&with(0, &[("hyp*", 9)])), quiet, "a pattern is for the last name of a module, or the file");
    assert_eq!(lines(&with(0, &[("pr?to", 9)])), "own-warn own-info lib-warn lib-info lib-trace");
}

#[test]
fn json_lines_have_upstreams_keys() {
    let logging = Logging { format: LogFormat::Json, verbosity: 4, ..Logging::default() };
    let text = logged(&logging, || {
        let span = tracing::info_span!("sync", pod = "default/web", uid = "u1");
        let _entered = span.enter();
        tracing::info!(grace = 30, ready = true, "Pod is \"terminating\"");
        tracing::debug!(v = "taken", "why");
        tracing::error!(err = %"no such file", "gone");
    });
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [info, debug, error] = lines.as_slice() else { panic!("{text}") };
    assert!(info["ts"].as_f64().is_some_and(|ts| ts > 1.7e12), "milliseconds since the epoch");
    assert_eq!((info["msg"].as_str(), info["level"].as_str()), (Some("Pod is \"terminating\""), Some("info")));
    assert_eq!((info["v"].as_u64(), info["grace"].as_u64(), info["ready"].as_bool()), (Some(0), Some(30), Some(true)));
    assert_eq!((info["pod"].as_str(), info["uid"].as_str()), (Some("default/web"), Some("u1")));
    assert!(info["caller"].as_str().is_some_and(|caller| caller.contains("tests.rs:")));
    assert_eq!((debug["v"].as_u64(), debug["v_"].as_str()), (Some(4), Some("taken")));
    assert_eq!((error["v"].as_u64(), error["err"].as_str()), (None, Some("no such file")));
    assert!(text.starts_with("{\"ts\":"), "the time comes first");
}

#[test]
fn patterns_match_as_in_a_shell() {
    let table = [
        ("pleg", "pleg", true),
        ("pleg", "plegs", false),
        ("p*", "pleg", true),
        ("*eg", "pleg", true),
        ("*", "", true),
        ("p?eg", "pleg", true),
        ("p?", "p", false),
        ("*l*", "pleg", true),
        ("a*b*c", "axxbyyc", true),
        ("ü*", "über", true),
    ];
    for (pattern, name, expected) in table {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn a_line_is_cut_however_long_its_fields_are() {
    let long = "x".repeat(16 << 20);
    let text = logged(&with(0, &[]), || {
        let span = tracing::info_span!("sync", pod = %long);
        let _entered = span.enter();
        tracing::warn!(err = %long, "short");
        tracing::warn!("{long}");
    });
    for line in text.lines() {
        assert!(line.len() < 17 * 1024, "{} bytes", line.len());
        assert!(line.ends_with("bytes of this line were cut)"), "{}", &line[line.len() - 80..]);
    }
    assert_eq!(text.lines().count(), 2);

    let logging = Logging { format: LogFormat::Json, ..Logging::default() };
    let text = logged(&logging, || {
        let span = tracing::info_span!("sync", pod = %long, uid = tracing::field::Empty);
        span.record("uid", "u1");
        let _entered = span.enter();
        tracing::warn!(err = %long, image = long, "short");
    });
    let line: Value = serde_json::from_str(&text).expect("what is cut is still JSON");
    assert!(text.len() < 40 * 1024, "{} bytes", text.len());
    assert_eq!((line["msg"].as_str(), line["uid"].as_str()), (Some("short"), Some("u1")));
    for field in ["pod", "err"] {
        assert!(line[field].as_str().is_some_and(|value| value.ends_with("x… (cut)")), "{field}");
    }
    assert_eq!(line["image"].as_str(), Some("… (cut)"), "the fields of an event share one limit");
}

#[test]
fn a_cut_respects_characters() {
    let long = "ü".repeat(bounded::MAX_LINE);
    let text = logged(&with(0, &[]), || tracing::warn!("a{long}"));
    assert!(text.contains("aüü") && text.contains("ü… ("), "{text}");
}

#[test]
fn a_flood_of_warnings_from_one_place_is_held_back_and_counted() {
    let queue = Arc::new(Queue::default());
    let begin = now() + Duration::from_secs(3600);
    // A clock that stands still: `begin` lies in the future.
    let lines = Lines {
        queue: Arc::clone(&queue),
        pace: Pace::default(),
        begin,
        format: LogFormat::Text,
        priorities: Priorities::None,
    };
    tracing::subscriber::with_default(subscriber(&with(0, &[]), lines), || {
        for _ in 0..1000 {
            tracing::warn!("from one place");
            tracing::info!("what happened is not held back");
        }
        tracing::warn!("from another place");
    });
    assert_eq!(queue.dropped(DropCause::Paced), 800);
    assert_eq!(queue.dropped(DropCause::Full), 0);
    let out = Reader::of(&queue).read(&queue);
    assert_eq!(out.matches("from one place").count(), 200);
    assert_eq!(out.matches("what happened").count(), 1000);
    assert_eq!(out.matches("from another place").count(), 1);
}

/// stderr with a reader that reads only when it is allowed to.
struct Stuck {
    entered: mpsc::Sender<()>,
    permissions: mpsc::Receiver<io::Result<()>>,
    read: mpsc::Sender<Vec<u8>>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _over = self.entered.send(());
        // Without permissions left the test is over, and so is this thread.
        self.permissions.recv().unwrap_or_else(|_| std::panic::resume_unwind(Box::new("the test is over")))?;
        let _over = self.read.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The test's end of it.
struct Reader {
    /// A write has begun.
    entered: mpsc::Receiver<()>,
    allow: mpsc::Sender<io::Result<()>>,
    lines: mpsc::Receiver<Vec<u8>>,
}

impl Reader {
    fn of(queue: &Arc<Queue>) -> Self {
        let (entering, entered) = mpsc::channel();
        let (allow, permissions) = mpsc::channel();
        let (read, lines) = mpsc::channel();
        let queue = Arc::clone(queue);
        let stderr = Stuck { entered: entering, permissions, read };
        std::thread::spawn(move || queue.write_to(stderr, |text| format!("({text})\n").into()));
        Self { entered, allow, lines }
    }

    /// All that the queue holds.
    fn read(&self, queue: &Queue) -> String {
        for _ in 0..4 {
            self.allow.send(Ok(())).expect("the writer runs");
        }
        queue.flush(Duration::from_secs(60));
        self.lines.try_iter().map(|bytes| String::from_utf8(bytes).expect("text")).collect()
    }
}

#[test]
fn a_reader_that_does_not_read_blocks_no_logger_and_lines_are_counted() {
    let queue = Arc::new(Queue::default());
    let reader = Reader::of(&queue);
    queue.push(b"first\n");
    reader.entered.recv().expect("the writer tries");
    let line = [b'x'; 1024];
    for _ in 0..100_000 {
        queue.push(&line);
    }
    // This is reached at all: no push has waited for the reader.
    let dropped = 100_000 - 256;
    assert_eq!(queue.dropped(DropCause::Full), dropped, "256 KiB wait");
    queue.flush_unless_stuck(Duration::from_secs(3600));
    queue.push(b"short\n");
    let text = reader.read(&queue);
    assert!(!text.contains("short"), "a line after the first dropped one is dropped, too: order is kept");
    let end = format!("({} log lines were dropped because the reader of stderr did not keep up)\n", dropped + 1);
    assert!(text.starts_with("first\nx") && text.ends_with(&end), "{}", &text[text.len() - 200..]);
    queue.push(b"in time\n");
    assert_eq!(reader.read(&queue), "in time\n", "what was dropped is reported once");
}

#[test]
fn the_number_of_waiting_lines_is_bounded_too() {
    let queue = Arc::new(Queue::default());
    for _ in 0..10_000 {
        queue.push(b"\n");
    }
    assert_eq!(queue.dropped(DropCause::Full), 10_000 - queue::MAX_LINES);
    queue.push_last(b"the last line\n");
    let text = Reader::of(&queue).read(&queue);
    assert!(text.contains("\nthe last line\n"), "the last line of a process needs no room");
}

#[test]
fn lines_that_could_not_be_written_are_reported_once_it_works_again() {
    let queue = Arc::new(Queue::default());
    let reader = Reader::of(&queue);
    for line in ["one\n", "two\n"] {
        queue.push(line.as_bytes());
        reader.allow.send(Err(io::ErrorKind::StorageFull.into())).expect("the writer runs");
        queue.flush(Duration::from_secs(60));
    }
    assert_eq!(queue.dropped(DropCause::Failed), 2);
    queue.push(b"three\n");
    let text = reader.read(&queue);
    assert_eq!(text, "(2 log lines were dropped because stderr could not be written)\nthree\n");
}

#[test]
fn a_full_descriptor_in_non_blocking_mode_is_tried_again() {
    let queue = Arc::new(Queue::default());
    let reader = Reader::of(&queue);
    for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted] {
        reader.allow.send(Err(kind.into())).expect("the writer runs");
    }
    queue.push(b"one\n");
    let text = reader.read(&queue);
    assert_eq!((text.as_str(), queue.dropped(DropCause::Failed)), ("one\n", 0));
}

#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    let written = |priorities: Priorities| {
        let queue = Arc::new(Queue::default());
        let lines = Lines {
            queue: Arc::clone(&queue),
            pace: Pace::default(),
            begin: now(),
            format: LogFormat::Text,
            priorities,
        };
        tracing::subscriber::with_default(subscriber(&with(6, &[]), lines), || {
            tracing::error!("e");
            tracing::warn!("w");
            tracing::info!("i");
            tracing::debug!("d");
        });
        let captured = Captured::default();
        let (reader, thread_queue) = (captured.clone(), Arc::clone(&queue));
        std::thread::spawn(move || thread_queue.write_to(reader, |text| text.as_bytes().to_vec()));
        queue.flush(Duration::from_secs(5));
        let bytes = captured.0.lock().expect("not poisoned").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|line| line.chars().take(3).collect()).collect::<Vec<String>>()
    };
    assert_eq!(written(Priorities::Written), ["<3>", "<4>", "<6>", "<7>"]);
    assert!(written(Priorities::None).iter().all(|start| start.starts_with("20")));
    let text = "a panic\nof two lines\n";
    assert_eq!(Priorities::Written.each_line(&Level::ERROR, text), "<3>a panic\n<3>of two lines\n");
    assert_eq!(Priorities::None.each_line(&Level::ERROR, text), text);
}
