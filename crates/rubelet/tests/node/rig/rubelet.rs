//! The process under test: starting, killing, stopping and querying it.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rubelet_server::documents::{NodeDocument, PodLine, PodStory};
use rubelet_server::local::Client;
use rustix::process::{Pid, Signal, kill_process};

use super::{Node, POLL};

/// The binary under test.
const RUBELET: &str = env!("CARGO_BIN_EXE_rubelet");

/// How long a rubelet may take to stop at the end of a test; then it is killed.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// What a new pipe takes before a write to it blocks.
const PIPE_BYTES: usize = 64 * 1024;

/// How a rubelet that was run to its end ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Node {
    /// Starts rubelet. Its log goes on where the last one ended.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the directory is ours");
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor is free")).stderr(log);
        self.child = Some(command.spawn().expect("rubelet can be started"));
    }

    /// Starts rubelet with its log, of this verbosity, in a pipe that is full from the beginning. The other end is for the
    /// caller to hold, and to read or not.
    pub(crate) fn start_with_a_stuck_log(&mut self, verbosity: u8) -> std::io::PipeReader {
        assert!(self.child.is_none(), "it runs already");
        let (reader, mut writer) = std::io::pipe().expect("descriptors are free");
        writer.write_all(&[b'x'; PIPE_BYTES]).expect("it fits");
        let mut command = self.command();
        command.arg(format!("--v={verbosity}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        self.child = Some(command.spawn().expect("rubelet can be started"));
        reader
    }

    /// rubelet with the node's settings.
    fn command(&self) -> Command {
        let mut command = bare();
        command.arg("--config").arg(self.config_file()).arg("--root-dir").arg(self.root());
        command.args(["--hostname-override", &self.name]);
        command
    }

    /// A second rubelet with the same settings, with these flags added, run until it ends by itself.
    pub(crate) fn run_another(&self, flags: &[&str]) -> Ended {
        let mut command = self.command();
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.run_to_end(command.spawn().expect("rubelet can be started"))
    }

    /// rubelet with only these arguments.
    pub(crate) fn run_bare(&self, words: &[&str]) -> Ended {
        let mut command = bare();
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.run_to_end(command.spawn().expect("rubelet can be started"))
    }

    fn run_to_end(&self, mut child: Child) -> Ended {
        self.until("a rubelet that has to end by itself", || match child.try_wait() {
            Ok(ended) => ended,
            Err(err) => panic!("its end can be waited for: {err}"),
        });
        let output = child.wait_with_output().expect("what it said can be read");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The answer that `rubelet pods` gets; `None` without one.
    pub(crate) fn document(&self) -> Option<NodeDocument> {
        self.block_on(self.client().pods()).ok()
    }

    /// The line of `rubelet pods` about the pod of this manifest, or about the file that is none.
    pub(crate) fn line(&self, name: &str) -> Option<PodLine> {
        let (full, file) = (self.full_name(name), self.manifests().join(name));
        let is_meant = |line: &PodLine| line.name == full || Path::new(&line.name) == file;
        self.document()?.pods.into_iter().find(is_meant)
    }

    /// Waits for a line of `rubelet pods` of which `wanted` is true.
    pub(crate) fn until_line(&self, name: &str, what: &str, wanted: impl Fn(&PodLine) -> bool) -> PodLine {
        let mut last = None;
        self.until_or(&format!("rubelet pods to show {name} {what}"), || {
            last = self.line(name);
            last.clone().filter(&wanted).ok_or_else(|| format!("{last:#?}"))
        })
    }

    /// Waits for a story of `rubelet explain` of which `wanted` is true.
    pub(crate) fn until_story(&self, name: &str, what: &str, wanted: impl Fn(&PodStory) -> bool) -> PodStory {
        let full = self.full_name(name);
        self.until_or(&format!("rubelet explain to show {name} {what}"), || {
            let story = self.block_on(self.client().story(&full)).map_err(|err| err.to_string())?;
            if wanted(&story) { Ok(story) } else { Err(format!("{story:#?}")) }
        })
    }

    fn client(&self) -> Client {
        Client::new(&self.root().join("rubelet.sock"))
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    /// Stops it, waits, and returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it is our child");
        let status: ExitStatus = self.until("rubelet to stop after SIGTERM", || child.try_wait().expect("it is ours"));
        assert_eq!(status.signal(), None, "it ended by itself");
        status.code()
    }

    /// Whether it runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }

    /// Its PID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Ends it if it runs, at the end of a test: in good order if it can, so that no call to the runtime is cut off.
    pub(super) fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _told = kill_process(Pid::from_child(&child), Signal::TERM);
        let began = self.clock.mono();
        while self.clock.mono().since(began) < END_PATIENCE && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.let_pass(POLL);
        }
        let _ended = child.kill();
        let _reaped = child.wait();
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read(self.log_file()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Waits for a line in its log that has all these words.
    pub(crate) fn until_logged(&self, words: &[&str]) -> String {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        self.until(&format!("a log line with {words:?}"), || self.log().lines().find(has_all).map(str::to_owned))
    }
}

/// rubelet. It dies with the test that started it, however that dies.
fn bare() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", RUBELET]);
    command
}
