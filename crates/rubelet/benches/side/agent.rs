//! The agent as a process: found by its arguments, killed, and started again as it was.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::place::Place;
use crate::process::{arguments, with_argument};

/// A process that was killed is gone by then.
const END: Duration = Duration::from_secs(10);

pub(crate) struct Agent {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    pub(crate) pid: u32,
    /// Set once it was started here.
    child: Option<Child>,
}

impl Agent {
    /// The agent that `node.sh` has started.
    pub(crate) fn find(place: &Place) -> anyhow::Result<Self> {
        let config = place.at("config.yaml").to_string_lossy().into_owned();
        let &[pid] = with_argument(&config).as_slice() else {
            bail!("not exactly one agent runs in {}", place.dir.display());
        };
        let text = fs::read(format!("/proc/{pid}/environ")).context("read the agent's environment")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let environment = text.split_terminator('\0').filter_map(|one| one.split_once('='));
        Ok(Self {
            program: fs::read_link(format!("/proc/{pid}/exe")).context("find the agent's program")?,
            arguments: arguments(pid).split_off(1),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            log: place.at("agent.log"),
            pid,
            child: None,
        })
    }

    /// Ends it, as a power cut would.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        signal(self.pid, Signal::KILL)?;
        if let Some(mut child) = self.child.take() {
            child.wait().context("wait for the agent's end")?;
        }
        let deadline = Instant::now() + END;
        while fs::exists(format!("/proc/{}", self.pid)).unwrap_or_default() {
            ensure!(Instant::now() < deadline, "the agent was killed and does not end");
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Starts it with the arguments that it had, and `more`. Answers with the moment of the start.
    pub(crate) fn start(&mut self, more: &[&str]) -> anyhow::Result<Instant> {
        let log = OpenOptions::new().append(true).open(&self.log).context("open the agent's log")?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(more).env_clear().envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone().context("share the agent's log")?).stderr(log);
        // Its own group, as with `setsid`: what is meant for us from a terminal is not meant for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let began = Instant::now();
        let child = command.spawn().context("start the agent")?;
        self.pid = child.id();
        self.child = Some(child);
        Ok(began)
    }

    /// Follows its log from here on.
    pub(crate) fn log(&self) -> anyhow::Result<Tail> {
        let mut file = File::open(&self.log).context("open the agent's log")?;
        file.seek(SeekFrom::End(0)).context("open the agent's log")?;
        Ok(Tail { file, rest: String::new() })
    }

    /// Size of its program without symbols, in MiB.
    pub(crate) fn stripped_size(&self) -> anyhow::Result<f64> {
        let copy = tempfile::NamedTempFile::new().context("make a file")?;
        let strip = Command::new("strip").arg("-s").arg("-o").arg(copy.path()).arg(&self.program).status();
        let stripped = strip.is_ok_and(|status| status.success());
        let measured = if stripped { copy.path() } else { &self.program };
        let bytes = fs::metadata(measured).context("read the program's size")?.len();
        let kib = u32::try_from(bytes / 1024).context("a program below 4 TiB")?;
        Ok(f64::from(kib) / 1024.0)
    }
}

/// The growing end of a log.
pub(crate) struct Tail {
    file: File,
    rest: String,
}

impl Tail {
    /// Whole lines that are new.
    pub(crate) fn lines(&mut self) -> anyhow::Result<Vec<String>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).context("read the agent's log")?;
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let Some((whole, rest)) = self.rest.rsplit_once('\n') else { return Ok(Vec::new()) };
        let lines = whole.lines().map(str::to_owned).collect();
        self.rest = rest.to_owned();
        Ok(lines)
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process id")?;
    kill_process(pid, signal).with_context(|| format!("send a signal to process {}", pid.as_raw_nonzero()))
}
