//! Rotates the logs of running containers (LOG-04).
//!
//! A log is not looked at every ten seconds but when it may have grown to half of what is left to its limit: a log that is
//! written fast is rotated near its limit, and one that nobody writes costs a `stat` per `containerLogMonitorInterval`.
//! One pass looks at all logs that are due. Watching every write by inotify would cost a wake-up per write.
//!
//! Which containers run is known from the PLEG's lists, and of a container that was just started from the job that started
//! it. Neither is believed: the runtime is asked before a log is renamed.
//!
//! Invariants: one rotation of a log at a time; no file is ever replaced by a rename, so that a call to the runtime whose
//! answer is lost costs no line; compression runs beside the rotations and holds up none.

mod rotate;
mod task;

use rubelet_core::id::ContainerId;
use tokio::sync::mpsc;

use crate::ports::LogId;
pub use task::LogRotator;

/// How many started containers may wait for the task, which takes them at once.
const INBOX: usize = 64;

/// A container that was started.
#[derive(Clone, Debug)]
pub(crate) struct StartedLog {
    pub(crate) id: ContainerId,
    pub(crate) log: LogId,
}

/// Reports started containers to the rotator.
#[derive(Clone, Debug, Default)]
pub struct LogRotatorHandle {
    /// `None` where rotation is off.
    ask: Option<mpsc::Sender<StartedLog>>,
}

impl LogRotatorHandle {
    /// The log of a container begins.
    pub(crate) async fn started(&self, id: &ContainerId, log: LogId) {
        if let Some(ask) = &self.ask {
            // If the task has ended, so does the process.
            let _ended = ask.send(StartedLog { id: id.clone(), log }).await;
        }
    }
}
