//! Tasks that belong together: started by name, told to stop together, awaited at the end.

use std::future::Future;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error};

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

    /// Starts a task.
    pub fn start<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let span = tracing::info_span!("task", name);
        self.tasks.spawn(
            async move {
                task.await;
                name
            }
            .instrument(span),
        );
    }

    /// Waits for the next task that ends, and says which and whether it panicked. `None` if there is none.
    pub async fn next_end(&mut self) -> Option<Result<&'static str, JoinError>> {
        self.tasks.join_next().await
    }

    /// Tells all to stop and waits until they have.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        while let Some(end) = self.tasks.join_next().await {
            if let Err(err) = end
                && err.is_panic()
            {
                error!(%err, "A task panicked");
            }
        }
    }
}
