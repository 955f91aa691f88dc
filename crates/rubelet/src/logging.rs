//! rubelet's own log: to stderr, one line per event, as text for people or as JSON for collectors.
//!
//! How `-v` (klog's scale) becomes a level:
//!
//! | `-v` | rubelet's lines | lines of libraries |
//! |---|---|---|
//! | 0 to 3 | info: what happened | warn |
//! | 4, 5 | debug: and why | warn |
//! | 6, 7 | trace: every call | info |
//! | 8 and more | trace | trace |
//!
//! `--vmodule=pattern=N` sets the scale for modules whose last name, or whose source file, matches the pattern.
//! JSON lines carry upstream's keys: `ts` in milliseconds since the epoch, `v` for info and finer, `msg`, then the
//! fields of the enclosing spans and of the event; `level` and `caller` complete them.
//!
//! If stderr is the journal, each line begins with its priority, which the journal takes out: `journalctl -p warning` works.
//!
//! Logging never blocks the agent, and its memory is bounded: lines are cut (`bounded`), warnings are paced (`pace`), and a thread
//! of its own writes them from a bounded queue (`queue`).

mod bounded;
mod json;
mod pace;
mod queue;

#[cfg(test)]
mod tests;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rubelet_core::config::{LogFormat, Logging};
use rubelet_linux::service::stderr_is_the_journal;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::registry::Registry;

use bounded::Bounded;
use pace::{PER_SECOND, Pace, Verdict};

pub(crate) use queue::{DropCause, Queue};

/// How long the process waits at its end for the last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long a thread that panics waits for its message to be read: it may be the last thing that the process does.
const PANIC_LINES: Duration = Duration::from_millis(200);
/// Stack of the writer's thread, which writes, and formats a line now and then.
const WRITER_STACK: usize = 256 * 1024;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogSetupError {
    /// Logging was set up before.
    #[error("logging is already set up")]
    Twice(#[source] tracing::subscriber::SetGlobalDefaultError),
    /// The thread that writes cannot be started.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
}

/// The log of this process.
#[derive(Clone)]
pub struct Log {
    queue: Arc<Queue>,
    priorities: Priorities,
    /// Of lines that no pattern of `--vmodule` matches.
    verbosity: Arc<AtomicU32>,
}

/// `/debug/flags/v`: the verbosity changes while the process runs, but for what `--vmodule` sets.
impl rubelet_server::api::Verbosity for Log {
    fn set(&self, verbosity: u32) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
        // Whether a line is written is decided once for each place in the code, and again from here on.
        tracing::callsite::rebuild_interest_cache();
        tracing::info!(verbosity, "The log level was changed over the node's API");
    }
}

impl Log {
    /// Where lines wait, and how many were dropped.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Writes a last line, an error, if there is one, and waits a moment for all of the log to be read.
    pub fn finish(&self, last: Option<&str>) {
        if let Some(text) = last {
            self.queue.push_last(self.priorities.each_line(&Level::ERROR, &format!("{text}\n")).as_bytes());
        }
        self.queue.flush(LAST_LINES);
    }
}

/// Sends every line of this process to stderr from now on, and the message of every panic.
///
/// # Errors
/// [`LogSetupError`], among others the second time.
pub fn init(logging: &Logging) -> Result<Log, LogSetupError> {
    let queue = Arc::new(Queue::default());
    let priorities = Priorities::detect();
    let lines =
        Lines { queue: Arc::clone(&queue), pace: Pace::default(), begin: now(), format: logging.format, priorities };
    let verbosity = Arc::new(AtomicU32::new(logging.verbosity));
    let subscriber = subscriber_of(logging, Arc::clone(&verbosity), lines);
    tracing::subscriber::set_global_default(subscriber).map_err(LogSetupError::Twice)?;
    start_writer(&queue, logging.format, priorities).map_err(LogSetupError::Thread)?;
    let of_panics = Arc::clone(&queue);
    std::panic::set_hook(Box::new(move |info| {
        // Not as an event: a panic inside an event would be lost.
        of_panics.push(priorities.each_line(&Level::ERROR, &panic_message(info)).as_bytes());
        of_panics.flush_unless_stuck(PANIC_LINES);
    }));
    Ok(Log { queue, priorities, verbosity })
}

/// Lines for stderr while there is no log: before it is set up, and of commands that have none.
pub(crate) fn for_stderr(level: Level, lines: &str) -> String {
    Priorities::detect().each_line(&level, lines)
}

fn start_writer(queue: &Arc<Queue>, format: LogFormat, priorities: Priorities) -> io::Result<()> {
    let queue = Arc::clone(queue);
    // A descriptor of its own: a blocked write through `io::stderr` would hold its lock and block every other user.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let writer = std::thread::Builder::new().name("log-writer".to_owned()).stack_size(WRITER_STACK);
    // The thread ends with the process: `Log::finish` waits for the lines, not for the thread.
    let _detached = writer.spawn(move || {
        queue.write_to(stderr, |text| priorities.each_line(&Level::WARN, &notice(format, text)).into_bytes())
    })?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the pace of log lines is real time, and no decision depends on it")]
fn now() -> Instant {
    Instant::now()
}

/// A warning of the log about itself.
fn notice(format: LogFormat, text: &str) -> String {
    match format {
        LogFormat::Json => json::message(Level::WARN, text),
        LogFormat::Text => {
            let mut line = String::new();
            // Writing to a string cannot fail.
            let _ = SystemTime.format_time(&mut Writer::new(&mut line));
            line + &format!("  WARN {}: {text}\n", module_path!())
        }
    }
}

/// The panic message as the standard library prints it, cut.
fn panic_message(info: &PanicHookInfo<'_>) -> String {
    use std::fmt::Write as _;
    let thread = std::thread::current();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let what = info.payload_as_str().unwrap_or("a value that is no text");
    let mut text = String::new();
    let mut cut = bounded::Cut::new(&mut text);
    // Writing to a string cannot fail.
    let _ = writeln!(cut, "thread '{}' panicked at {place}:\n{what}", thread.name().unwrap_or("<unnamed>"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = writeln!(cut, "stack backtrace:\n{backtrace}");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Makes the writer of each line: one that appends to the queue, or for a line that is held back none.
struct Lines {
    queue: Arc<Queue>,
    pace: Pace,
    begin: Instant,
    format: LogFormat,
    priorities: Priorities,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { queue: Some(&self.queue), priority: self.priorities.of(&Level::INFO) }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        let line = Line { queue: Some(&self.queue), priority: self.priorities.of(metadata.level()) };
        match self.pace.admit(metadata, now().saturating_duration_since(self.begin)) {
            Verdict::HoldBack => {
                self.queue.hold_back();
                Line { queue: None, ..line }
            }
            Verdict::Write { held_back: 0 } => line,
            Verdict::Write { held_back } => {
                let text = format!(
                    "{held_back} log lines like the next one were dropped because one place in the code may warn \
                     {PER_SECOND} times a second"
                );
                let notice = notice(self.format, &text);
                self.queue.push(self.priorities.each_line(&Level::WARN, &notice).as_bytes());
                line
            }
        }
    }
}

/// One line on its way.
struct Line<'a> {
    queue: Option<&'a Queue>,
    priority: &'static str,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(queue) = self.queue {
            if self.priority.is_empty() {
                queue.push(line);
            } else {
                queue.push(&[self.priority.as_bytes(), line].concat());
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether lines begin with the journal's priorities. Anybody else would read them as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priorities {
    Written,
    None,
}

impl Priorities {
    fn detect() -> Self {
        if stderr_is_the_journal() { Self::Written } else { Self::None }
    }

    /// The beginning of a line of this level. man: sd-daemon(3)
    fn of(self, level: &Level) -> &'static str {
        match (self, *level) {
            (Self::None, _) => "",
            (Self::Written, Level::ERROR) => "<3>",
            (Self::Written, Level::WARN) => "<4>",
            (Self::Written, Level::INFO) => "<6>",
            (Self::Written, Level::DEBUG | Level::TRACE) => "<7>",
        }
    }

    /// A text of several lines: the journal takes each of them for a message.
    fn each_line(self, level: &Level, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::Written => text.split_inclusive('\n').map(|line| format!("{}{line}", self.of(level))).collect(),
        }
    }
}

/// The subscriber that writes to `writer`.
pub fn subscriber<W>(logging: &Logging, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    subscriber_of(logging, Arc::new(AtomicU32::new(logging.verbosity)), writer)
}

/// The subscriber that writes to `writer` what `verbosity` allows, which may change.
fn subscriber_of<W>(logging: &Logging, verbosity: Arc<AtomicU32>, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = Verbosity::new(logging, verbosity);
    match logging.format {
        LogFormat::Text => {
            let layer = tracing_subscriber::fmt::layer()
                .fmt_fields(Bounded(DefaultFields::new()))
                .event_format(Bounded(Format::default().with_ansi(false)))
                .with_ansi(false)
                .with_writer(writer);
            Box::new(Registry::default().with(layer.with_filter(filter)))
        }
        LogFormat::Json => {
            let layer = tracing_subscriber::fmt::layer()
                .fmt_fields(json::SpanFields)
                .event_format(json::Lines)
                .with_writer(writer);
            Box::new(Registry::default().with(layer.with_filter(filter)))
        }
    }
}

/// The level of rubelet's own lines at a klog verbosity.
#[must_use]
pub const fn level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    }
}

const fn library_level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=5 => LevelFilter::WARN,
        6 | 7 => LevelFilter::INFO,
        8.. => LevelFilter::TRACE,
    }
}

struct Verbosity {
    general: Arc<AtomicU32>,
    modules: Vec<(String, LevelFilter)>,
}

/// Asked once for each place in the code that logs, and again after a change.
impl<S> Filter<S> for Verbosity {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.allows(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.allows(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most())
    }
}

impl Verbosity {
    fn new(logging: &Logging, general: Arc<AtomicU32>) -> Self {
        let modules = logging.vmodule.iter().map(|item| (item.file_pattern.clone(), level(item.verbosity))).collect();
        Self { general, modules }
    }

    fn most(&self) -> LevelFilter {
        let general = self.general.load(Ordering::Relaxed);
        let of_modules = self.modules.iter().map(|(_, level)| *level);
        of_modules.chain([level(general), library_level(general)]).max().unwrap_or(LevelFilter::INFO)
    }

    fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let module = target.rsplit("::").next().unwrap_or(target);
        let file = metadata.file().and_then(|file| file.rsplit('/').next()).map(|file| file.trim_end_matches(".rs"));
        let named = self
            .modules
            .iter()
            .find(|(pattern, _)| matches(pattern, module) || file.is_some_and(|file| matches(pattern, file)));
        let general = self.general.load(Ordering::Relaxed);
        let general = if target.starts_with("rubelet") { level(general) } else { library_level(general) };
        *metadata.level() <= named.map_or(general, |(_, level)| *level)
    }
}

/// Shell patterns of `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    loop {
        match pattern.next() {
            None => return name.next().is_none(),
            Some('*') => {
                let tail = pattern.as_str();
                return (0..=name.as_str().len())
                    .filter_map(|at| name.as_str().get(at..))
                    .any(|name| matches(tail, name));
            }
            Some('?') if name.next().is_some() => {}
            Some(letter) if letter != '?' && name.next() == Some(letter) => {}
            Some(_) => return false,
        }
    }
}
