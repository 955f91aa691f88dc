//! Tasks that belong together: started by name, told to stop together, awaited at the end.

mod polls;

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, warn};

pub use polls::{PollClock, Polls, TaskPolls, Timed, timed};

/// How long tasks are given to stop.
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

    /// The token that tells the group's tasks to stop.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Starts a task. Each of its polls is measured as one of `name`: a kind of task, never an object.
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

    /// Waits for the next task that ends, and says which and whether it panicked. `None` if there is none.
    pub async fn next_end(&mut self) -> Option<Result<&'static str, JoinError>> {
        self.tasks.join_next().await
    }

    /// Tells all to stop and waits until they have. One that does not listen is cut off: whatever it was at, the next
    /// start finds by looking, and a process that will not end is worse.
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
            warn!(left = self.tasks.len(), "Cutting off tasks that did not stop");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_listen_is_cut_off() {
        let mut group = TaskGroup::new(&CancellationToken::new());
        group.start("deaf", std::future::pending());
        group.start("good", group.cancel_token().cancelled_owned());
        group.stop().await;
    }
}
