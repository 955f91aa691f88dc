//! Runs the command line: the node's agent, or one of the other commands (`rubelet help` lists them).
//!
//! Each of these commands gathers data, then renders it by a pure function; only this file writes to the terminal. The exit
//! code is 0 for success, 1 for a problem or a failure, and 2 for an invalid command line.

mod check;
mod config;
mod events;
mod explain;
mod human;
mod logs;
mod man;
mod node;
mod pods;
mod status;
mod style;
mod top;
mod version;

pub use events::Watch;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::tz::TimeZone;
use rubelet_core::config::missing_by_default;
use rubelet_engine::chain::Chain;
use rubelet_linux::heap::Heap;
use tracing::Level;

use crate::flags::{Command, RunOptions, parse};
use crate::{config_load, logging, run};
use style::Style;

/// How long an idle thread for blocking calls is kept. A new thread costs about 30 µs.
const BLOCKING_IDLE: Duration = Duration::from_secs(1);

/// `apiVersion` of the documents that commands print with `-o json`. It changes when a field changes its meaning or goes away;
/// new fields do not count.
const DOCUMENT_VERSION: &str = "rubelet/v1";

/// The output of a command.
#[derive(Debug, Default)]
struct Report {
    /// Its result.
    text: String,
    /// Remarks on it, for stderr.
    notes: Vec<String>,
    failed: bool,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let style = Style::detect();
    let report = match parse(std::env::args_os().skip(1)) {
        Err(err) => {
            complain(Level::ERROR, &[err.to_string()]);
            return ExitCode::from(2);
        }
        Ok(Command::Run(options)) => match run_node(&options) {
            Ok(code) => return code,
            Err(problem) => Err(problem),
        },
        Ok(Command::Print(text)) => Ok(Report { text, ..Report::default() }),
        Ok(Command::Pods { query, namespace }) => wait_for(pods::run(&query, namespace.as_deref(), style)),
        Ok(Command::Explain { query, pod }) => wait_for(explain::run(&query, &pod, style, TimeZone::system())),
        Ok(Command::ExplainNode { query }) => wait_for(node::run(&query, style)),
        Ok(Command::Top { query }) => wait_for(top::run(&query, style)),
        Ok(Command::Events { query, namespace, watch }) => {
            wait_for(events::run(&query, namespace.as_deref(), watch, style, TimeZone::system()))
        }
        Ok(Command::Logs { query, ask, wish }) => wait_for(logs::run(&query, &ask, &wish)),
        Ok(Command::Status { query }) => wait_for(status::run(&query, style)),
        Ok(Command::Check { output, options }) => wait_for(check::run(&options, output, style)),
        Ok(Command::ConfigShow { format, all, options }) => config::show(&options, all, format, style),
        Ok(Command::ConfigValidate { output, options }) => {
            config::check(&options, check::cgroup_version(), output, style)
        }
        Ok(Command::Version { format }) => version::run(format),
        Ok(Command::ManPages { dir }) => man::run(&dir),
    };
    print(report)
}

/// Runs the node's agent until it is asked to stop.
fn run_node(options: &RunOptions) -> Result<ExitCode, String> {
    let _heap = Heap::frugal();
    let loaded = config_load::load(options, check::cgroup_version()).map_err(|err| Chain(&err).to_string())?;
    let log = logging::init(&loaded.config.logging).map_err(|err| Chain(&err).to_string())?;
    tracing::warn!("{}", not_yet());
    for line in &loaded.tolerated {
        tracing::warn!("{line}; it is ignored, as upstream does; `rubelet check` fails for it");
    }
    for path in &loaded.skipped {
        tracing::info!(path = %path.display(), "Not a drop-in: its name does not end in .conf");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let result = wait_for(async { run::run(loaded, &log).await.map_err(|err| format!("{err:#}")) });
    // From here on only the log writes to stderr, because its reader may be stuck: the last error goes through it too.
    log.finish(result.as_ref().err().map(|problem| format!("rubelet: {problem}")).as_deref());
    Ok(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The capabilities that this node lacks, in one line.
fn not_yet() -> String {
    let names: Vec<&str> = missing_by_default().map(|missing| missing.what).collect();
    format!("Not built yet, and done by upstream's kubelet by default: {}. See `rubelet check`", names.join("; "))
}

/// One thread suffices: a node mostly waits.
fn wait_for<T>(command: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Threads for blocking calls take turns, so that the few calls of an idle node would keep all of them.
        .thread_keep_alive(BLOCKING_IDLE)
        .max_blocking_threads(rubelet_engine::blocking::threads())
        .build();
    runtime.map_err(|err| format!("cannot start: {err}"))?.block_on(command)
}

fn print(report: Result<Report, String>) -> ExitCode {
    let report = match report {
        Ok(report) => report,
        Err(problem) => {
            complain(Level::ERROR, &[problem]);
            return ExitCode::FAILURE;
        }
    };
    let mut out = io::stdout().lock();
    let written = out.write_all(report.text.as_bytes()).and_then(|()| out.flush());
    complain(Level::WARN, &report.notes);
    match written {
        // A closed pipe (`rubelet pods | head -1`) is not an error.
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
            complain(Level::ERROR, &[format!("cannot write the result to stdout: {err}")]);
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if report.failed => ExitCode::FAILURE,
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// Writes a part of a result that goes on. Answers whether somebody still reads it: a closed pipe is not an error.
fn write_on(part: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(part).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(err) => Err(format!("cannot write the result to stdout: {err}")),
    }
}

fn complain(level: Level, lines: &[String]) {
    let mut err = io::stderr().lock();
    for line in lines {
        let _gone = err.write_all(logging::for_stderr(level, &format!("rubelet: {line}\n")).as_bytes());
    }
}

/// A document with the version of its form and its kind before all else.
#[derive(serde::Serialize)]
struct Document<'a, T> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T> Document<'a, T> {
    fn new(kind: &'static str, content: &'a T) -> Self {
        Self { api_version: DOCUMENT_VERSION, kind, content }
    }
}

/// A document as `-o json` prints it.
fn json(document: &impl serde::Serialize) -> Result<String, String> {
    let text = serde_json::to_string_pretty(document).map_err(|err| format!("cannot print as JSON: {err}"))?;
    Ok(text + "\n")
}

/// A document as `-o yaml` prints it.
fn yaml(document: &impl serde::Serialize) -> Result<String, String> {
    serde_saphyr::to_string(document).map_err(|err| format!("cannot print as YAML: {err}"))
}
