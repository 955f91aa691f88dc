//! Groups of tasks: started by name, cancelled together, awaited at the end.

mod polls;

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, warn};

pub use polls::{PollClock, Polls, TaskPolls, Timed, timed};

/// How long tasks have to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// A group of tasks. Dropping it stops them all at their next await.
#[derive(Debug)]
pub struct TaskGroup {
    tasks: JoinSet<&'static str>,
    cancel: CancellationToken,
}

impl TaskGroup {
    /// An empty group that also stops when `parent` is cancelled.
    pub fn new(parent: &CancellationToken) -> Self {
        Self { tasks: JoinSet::new(), cancel: parent.child_token() }
    }

    /// The token that cancels the group's tasks.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Starts a task. Its polls are measured under `name`, which is a kind of task and never an object.
    pub fn start<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let span = tracing::info_span!("task", name);
        let task = async move {
            task.await;
            name
        };
        self.tasks.spawn(timed(name, task.instrument(span)));
    }

    /// Waits for the next task that ends. Returns its name, or the error if it panicked; `None` if no task is left.
    pub async fn next_end(&mut self) -> Option<Result<&'static str, JoinError>> {
        self.tasks.join_next().await
    }

    /// Cancels all tasks and waits until they have stopped. A task that does not stop in time is aborted: the next start
    /// observes the node again, and a process that does not end would be worse.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        let rest = async {
            while let Some(end) = self.tasks.join_next().await {
                if let Err(err) = end
                    && err.is_panic()
                {
                    error!(%err, "A task panicked");
                }
            }
        };
        if tokio::time::timeout(PATIENCE, rest).await.is_err() {
            warn!(left = self.tasks.len(), "Aborting tasks that did not stop in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ignores_cancellation_is_aborted() {
        let mut group = TaskGroup::new(&CancellationToken::new());
        group.start("deaf", std::future::pending());
        group.start("good", group.cancel_token().cancelled_owned());
        group.stop().await;
    }
}
