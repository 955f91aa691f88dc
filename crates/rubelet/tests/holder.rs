//! Calls to the runtime that outlive the agent: an agent ends in the midst of a call, and the runtime's end of the
//! connection is looked at (ADR 13).
//!
//! The agent is this test program, started again: it makes one call with the real adapter and the real holder. The runtime
//! is a socket that speaks just enough HTTP/2 to be called. The agent's end closes its descriptors before it can be waited
//! for, so that after the wait one read shows whether the connection is still open.
#![expect(clippy::print_stdout, reason = "the agent reports to the test over its standard output")]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_cri::{
    Connection, ConnectionOptions, CriRuntime, Endpoint, HandOver, KeptCalls, ListMode, OperationMetrics,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::Containers;
use rubelet_linux::socket_holder::HolderProcess;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The program that is started as the holder.
const RUBELET: &str = env!("CARGO_BIN_EXE_rubelet");
/// Names the directory of the test to the agent.
const DIR: &str = "RUBELET_TEST_HOLDER_DIR";
/// Whether the agent has a holder.
const HOLDER: &str = "RUBELET_TEST_HOLDER_START";
/// How long the agent's call may last, in seconds.
const DEADLINE: &str = "RUBELET_TEST_HOLDER_DEADLINE";
/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A deadline that no test waits for.
const LONG: u64 = 500;

#[test]
fn a_call_in_flight_goes_on_when_its_agent_is_killed_and_until_the_runtime_ends_it() {
    let mut agent = Agent::start(true, LONG);
    let mut runtime = agent.accept_call();
    agent.kill();
    assert_eq!(runtime.closed(), None, "the connection is open, the agent is gone");
    runtime.answer();
    assert_eq!(runtime.closed(), None, "an answer can be sent");
    assert!(!agent.holder_ended(Duration::ZERO));
    drop(runtime);
    assert!(agent.holder_ended(PATIENCE), "nothing is left to be held");
}

#[test]
fn a_call_in_flight_is_not_held_longer_than_its_deadline() {
    let mut agent = Agent::start(true, 1);
    let mut runtime = agent.accept_call();
    agent.kill();
    assert!(runtime.is_closed_in_time());
    assert!(agent.holder_ended(PATIENCE));
}

#[test]
fn without_a_holder_the_runtime_sees_the_agent_die() {
    let mut agent = Agent::start(false, LONG);
    let mut runtime = agent.accept_call();
    agent.kill();
    assert_eq!(runtime.closed(), Some(Closed { cancelled: false }));
}

#[test]
fn with_nothing_in_flight_the_holder_ends_with_its_agent() {
    let mut agent = Agent::start(true, LONG);
    let mut runtime = agent.accept_call();
    runtime.answer();
    assert_eq!(agent.line(), "answered true");
    agent.kill();
    assert!(runtime.is_closed_in_time());
    assert!(agent.holder_ended(PATIENCE));
}

#[test]
fn an_agent_that_stops_in_good_order_cancels_no_call() {
    let mut agent = Agent::start(true, LONG);
    let mut runtime = agent.accept_call();
    agent.stop();
    assert_eq!(runtime.closed(), None, "neither cancelled nor closed");
    drop(runtime);
    assert!(agent.holder_ended(PATIENCE));
}

#[test]
fn a_holder_that_dies_costs_a_warning_and_no_call() {
    let mut agent = Agent::start(true, LONG);
    let holder = agent.holder.take().expect("it has one");
    rustix::process::kill_process(holder, rustix::process::Signal::KILL).expect("it runs");
    agent.holder = Some(holder);
    assert!(agent.holder_ended(PATIENCE));
    let mut runtime = agent.accept_call();
    runtime.answer();
    assert_eq!(agent.line(), "answered true");
    agent.kill();
    assert!(runtime.is_closed_in_time());
}

#[test]
fn a_holder_has_nothing_of_its_agent_but_the_sockets() {
    let mut agent = Agent::start(true, LONG);
    let runtime = agent.accept_call();
    let holder = agent.holder.expect("it has one").as_raw_nonzero();
    let wanted = ["/dev/null", "/dev/null", "socket", "socket"];
    // The call is in flight before the holder had its turn: looked at until it has, or a bound is reached.
    let looks = PATIENCE.as_millis() / LOOK.as_millis();
    let last = (0..looks).map(|_| open_files(holder)).find(|open| *open == wanted || agent.holder_ended(LOOK));
    assert_eq!(last.unwrap_or_else(|| open_files(holder)), wanted);
    let command = fs::read_to_string(format!("/proc/{holder}/cmdline")).expect("it runs");
    assert_eq!(command, "rubelet\0hold-runtime-sockets\0");
    let threads = fs::read_dir(format!("/proc/{holder}/task")).expect("it runs").count();
    assert_eq!(threads, 1);
    agent.kill();
    drop(runtime);
    assert!(agent.holder_ended(PATIENCE));
}

/// Kinds of what a process has open: the path, or what comes before the colon.
fn open_files(pid: impl std::fmt::Display) -> Vec<String> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok()).map(|target| target.display().to_string());
    let mut kinds: Vec<String> =
        targets.map(|target| target.split(':').next().unwrap_or_default().to_owned()).collect();
    kinds.sort();
    kinds
}

/// An agent in a process of its own, and the socket that it calls.
struct Agent {
    process: Child,
    /// A line on it makes the agent stop in good order.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    listener: UnixListener,
    holder: Option<Pid>,
    _dir: tempfile::TempDir,
}

impl Agent {
    fn start(with_holder: bool, deadline: u64) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let listener = UnixListener::bind(socket_in(dir.path())).expect("the directory is ours");
        let mut process = Command::new(std::env::current_exe().expect("we run"))
            .args(["--exact", "the_agent_of_the_other_tests", "--nocapture"])
            .env(DIR, dir.path())
            .env(HOLDER, if with_holder { "yes" } else { "no" })
            .env(DEADLINE, deadline.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be started");
        let input = process.stdin.take().expect("it is a pipe");
        let output = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut agent = Self { process, input, output, listener, holder: None, _dir: dir };
        agent.holder = match agent.line().as_str() {
            "holder none" => None,
            line => Pid::from_raw(line.trim_start_matches("holder ").parse().expect("a PID")),
        };
        assert_eq!(agent.holder.is_some(), with_holder);
        agent
    }

    /// The next line that the agent wrote, and not the test program around it.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("the agent's output can be read");
            assert_ne!(length, 0, "the agent ended");
            if let Some(said) = line.split("agent: ").nth(1) {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Waits for the agent's call.
    fn accept_call(&mut self) -> Runtime {
        let (stream, _) = self.listener.accept().expect("the agent calls");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        let mut runtime = Runtime { stream };
        runtime.read_call();
        runtime
    }

    fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }

    fn stop(&mut self) {
        self.input.write_all(b"stop\n").expect("the agent listens");
        assert!(self.process.wait().expect("it is our child").success());
    }

    /// Whether the holder ends within this time.
    fn holder_ended(&self, within: Duration) -> bool {
        let Ok(holder) = pidfd_open(self.holder.expect("it has one"), PidfdFlags::empty()) else { return true };
        let within = Timespec::try_from(within).expect("a short time");
        poll(&mut [PollFd::new(&holder, PollFlags::IN)], Some(&within)).expect("its end can be waited for") == 1
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// How the agent's side of a connection was closed.
#[derive(Debug, PartialEq, Eq)]
struct Closed {
    /// The call was cancelled first.
    cancelled: bool,
}

/// The runtime's end of a connection.
struct Runtime {
    stream: UnixStream,
}

/// Kinds of frames, and their flags (RFC 9113).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Runtime {
    /// Reads what a client begins with, and frames up to the end of the call's message.
    fn read_call(&mut self) {
        self.send(SETTINGS, 0, 0, &[]);
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface).expect("a client begins with it");
        assert!(preface.starts_with(b"PRI * HTTP/2.0"));
        loop {
            let (kind, flags) = self.frame().expect("the call comes");
            if kind == DATA && flags & END_STREAM != 0 {
                return;
            }
        }
    }

    /// The kind and the flags of the next frame.
    fn frame(&mut self) -> io::Result<(u8, u8)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]).try_into().expect("a small frame")];
        self.stream.read_exact(&mut payload)?;
        Ok((kind, flags))
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).expect("a small frame");
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
        frame.extend(payload);
        self.stream.write_all(&frame).expect("the connection is open");
    }

    /// Answers the call with an empty message.
    fn answer(&mut self) {
        // ":status: 200" of the table of headers, and "content-type", which is there without our value.
        let mut headers = vec![0x88, 0x0f, 0x10, 16];
        headers.extend(b"application/grpc");
        self.send(HEADERS, END_HEADERS, 1, &headers);
        self.send(DATA, 0, 1, &[0; 5]);
        let mut trailers = vec![0, 11];
        trailers.extend(b"grpc-status");
        trailers.extend([1, b'0']);
        self.send(HEADERS, END_HEADERS | END_STREAM, 1, &trailers);
    }

    /// How the connection was closed or its call cancelled by now; `None`: neither.
    fn closed(&mut self) -> Option<Closed> {
        self.stream.set_nonblocking(true).expect("it can be set");
        let end = self.read_to_end();
        self.stream.set_nonblocking(false).expect("it can be set");
        end
    }

    fn is_closed_in_time(&mut self) -> bool {
        self.read_to_end().is_some()
    }

    fn read_to_end(&mut self) -> Option<Closed> {
        let mut cancelled = false;
        loop {
            match self.frame() {
                Ok((kind, _)) => cancelled |= kind == RST_STREAM,
                Err(err) if err.kind() == ErrorKind::WouldBlock => return cancelled.then_some(Closed { cancelled }),
                Err(_) => return Some(Closed { cancelled }),
            }
        }
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("runtime.sock")
}

/// The agent's side; in an ordinary run there is nothing to do.
#[test]
fn the_agent_of_the_other_tests() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio starts");
    tokio.block_on(be_the_agent(Path::new(&dir)));
}

async fn be_the_agent(dir: &Path) {
    let set = |name| std::env::var(name).expect("the test sets it");
    let hand_over = HandOver::default();
    // As a supervisor may do: a descriptor that is not closed by `exec`.
    let lock = File::create(dir.join("lock")).expect("the directory is there");
    let _inherited = rustix::io::dup(&lock).expect("a descriptor is free");
    let kept = (set(HOLDER) == "yes").then(|| {
        let holder = HolderProcess::start(Path::new(RUBELET)).expect("rubelet can be started");
        println!("agent: holder {}", holder.pid().expect("it was just started"));
        Arc::new(KeptCalls::new(Arc::new(holder), hand_over.clone()))
    });
    if kept.is_none() {
        println!("agent: holder none");
    }
    let clock = Clock::real();
    let options = ConnectionOptions {
        request_timeout: Duration::from_secs(set(DEADLINE).parse().expect("a number")),
        list_mode: ListMode::Whole,
        metrics: Arc::new(OperationMetrics::default()),
        now: Arc::new(move || clock.mono()),
        tracer: rubelet_engine::trace::Tracer::off(),
        kept,
    };
    let endpoint: Endpoint = socket_in(dir).to_str().expect("a text").parse().expect("an endpoint");
    let runtime = CriRuntime::new(Connection::lazy(&endpoint, options));
    let container = ContainerId::from("c1");
    let (typed, asked) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _line = io::stdin().read_line(&mut String::new());
        let _gone = typed.send(());
    });
    // As the agent does: the hand-over begins before the job that waits for the call is dropped.
    let stop = async {
        let _line = asked.await;
        hand_over.begin();
    };
    tokio::select! {
        biased;
        answer = runtime.start_container(&container) => {
            println!("agent: answered {}", answer.is_ok());
            std::future::pending::<()>().await;
        }
        () = stop => {}
    }
    // The call is dropped now; the connection gets time to cancel it, as during an orderly stop.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
