//! Writes log lines to stderr: a bounded queue, and one thread that writes.
//!
//! A write to stderr blocks for as long as its reader (journald, a pipe, a terminal that was stopped) does not read. Only
//! the writer's thread waits for that. Every other thread appends to the queue; if the queue is full, the line is dropped and
//! counted. Once there is room again, a line reports how many are missing, in their place.
//!
//! Order is kept: from the first dropped line on, every line is dropped until the writer has taken what is queued.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most bytes that wait. The batch that is being written may be as large again.
pub(super) const MAX_BYTES: usize = 256 * 1024;
/// Most lines that wait.
pub(super) const MAX_LINES: u64 = 4096;
/// How long the writer waits before it tries a descriptor again that is in non-blocking mode and full.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Why lines are missing from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropCause {
    /// The reader of stderr was too slow, or did not read at all.
    Full,
    /// stderr could not be written: closed by its reader, or a file on a full disk.
    Failed,
    /// Warnings from one place in the code came too fast.
    Paced,
}

impl DropCause {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Failed, Self::Paced];

    /// The value of the metric's label.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "queue_full",
            Self::Failed => "write_failed",
            Self::Paced => "rate_limited",
        }
    }
}

/// The queue. Shared by every thread that logs, and the writer.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// All is written.
    drained: Condvar,
    full: AtomicU64,
    failed: AtomicU64,
    paced: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Whole lines, in order.
    pending: Vec<u8>,
    lines: u64,
    /// Lines dropped because `pending` was full: they are missing after it.
    overflow: u64,
    /// Lines whose write failed: they are missing before `pending`.
    lost: u64,
    /// Whether the writer holds a batch.
    writing: bool,
}

/// What the writer takes at once.
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
    overflow: u64,
    lost: u64,
}

impl Queue {
    /// Appends a line, or drops it if there is no room. Never waits for the reader of stderr.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        let room = state.lines < MAX_LINES && line.len() <= MAX_BYTES.saturating_sub(state.pending.len());
        if state.overflow > 0 || !room {
            state.overflow += 1;
            drop(state);
            self.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.append(line);
        drop(state);
        self.filled.notify_one();
    }

    /// Appends the last line of the process, whether or not there is room.
    pub(super) fn push_last(&self, line: &[u8]) {
        self.lock().append(line);
        self.filled.notify_one();
    }

    /// Counts a line that was held back before it came here.
    pub(super) fn hold_back(&self) {
        self.paced.fetch_add(1, Ordering::Relaxed);
    }

    /// How many lines are missing from the log for this cause.
    pub(crate) fn dropped(&self, cause: DropCause) -> u64 {
        let count = match cause {
            DropCause::Full => &self.full,
            DropCause::Failed => &self.failed,
            DropCause::Paced => &self.paced,
        };
        count.load(Ordering::Relaxed)
    }

    /// Waits until all is written, but not longer than this.
    pub(super) fn flush(&self, within: Duration) {
        let state = self.lock();
        let unwritten = |state: &mut State| state.writing || !state.pending.is_empty();
        let _ended = self.drained.wait_timeout_while(state, within, unwritten);
    }

    /// The same, unless the reader is known to be stuck: then it does not wait.
    pub(super) fn flush_unless_stuck(&self, within: Duration) {
        if self.lock().overflow == 0 {
            self.flush(within);
        }
    }

    /// Writes lines for ever. `notice` makes a log line of a text.
    pub(super) fn write_to(&self, mut out: impl Write, notice: impl Fn(&str) -> Vec<u8>) {
        loop {
            let mut batch = self.take();
            let before = lost_notice(batch.lost).map(|text| notice(&text)).unwrap_or_default();
            if let Some(text) = overflow_notice(batch.overflow) {
                batch.bytes.extend(notice(&text));
            }
            let written = write_all(&mut out, &before).and_then(|()| write_all(&mut out, &batch.bytes));
            self.done(&batch, written.is_ok());
        }
    }

    fn take(&self) -> Batch {
        let state = self.lock();
        let empty = |state: &mut State| state.pending.is_empty();
        let mut state = self.filled.wait_while(state, empty).unwrap_or_else(PoisonError::into_inner);
        state.writing = true;
        Batch {
            bytes: std::mem::take(&mut state.pending),
            lines: std::mem::take(&mut state.lines),
            overflow: std::mem::take(&mut state.overflow),
            lost: std::mem::take(&mut state.lost),
        }
    }

    fn done(&self, batch: &Batch, written: bool) {
        let mut state = self.lock();
        state.writing = false;
        if !written {
            state.lost += batch.lost + batch.lines + batch.overflow;
            self.failed.fetch_add(batch.lines, Ordering::Relaxed);
        }
        drop(state);
        self.drained.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left whole lines: no operation in here can fail half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, line: &[u8]) {
        self.pending.extend_from_slice(line);
        self.lines += 1;
    }
}

fn overflow_notice(lines: u64) -> Option<String> {
    (lines > 0).then(|| format!("{lines} log lines were dropped because the reader of stderr did not keep up"))
}

fn lost_notice(lines: u64) -> Option<String> {
    (lines > 0).then(|| format!("{lines} log lines were dropped because stderr could not be written"))
}

fn write_all(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            // Another process that shares the descriptor has set it to non-blocking mode.
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => std::thread::park_timeout(FULL_PAUSE),
            Err(err) => return Err(err),
        }
    }
    Ok(())
}
