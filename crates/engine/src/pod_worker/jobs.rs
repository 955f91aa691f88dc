//! Jobs in flight: how one is started on a pod, and how they come to rest.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::{Job, JobEnd, Retry};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info_span};

use super::workers::PodWorkers;
use super::{clean_up, sync_pod, terminate};
use crate::job::{JobContext, JobResult};
use crate::task::timed;

impl PodWorkers {
    pub(super) fn start(&mut self, uid: &PodUid, job: Job) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.cancel = CancellationToken::new();
        let pod = worker.life.subject().reference();
        let context = JobContext::new(Arc::clone(&self.node), pod, self.notes.clone(), worker.cancel.clone());
        let span = info_span!("job", pod = %context.pod);
        let (snapshot, memory) = (worker.snapshot(self.node.clock.mono()), worker.memory.clone());
        let uid = uid.clone();
        debug!(pod = %context.pod, ?job, "Starting a job");
        worker.job_begins(&self.node, &job);
        let kind = match &job {
            Job::Sync => "pod-sync",
            Job::Terminate { .. } => "pod-terminate",
            Job::CleanUp => "pod-clean-up",
        };
        let work = async move {
            // Boxed: a task is moved a dozen times before it runs, and is as large as the largest of these.
            match job {
                Job::Sync => Box::pin(sync_pod::run(snapshot, memory, context)).await,
                Job::Terminate { .. } => Box::pin(terminate::run(snapshot, memory, context)).await,
                Job::CleanUp => Box::pin(clean_up::run(snapshot, memory, context)).await,
            }
        };
        // A job that panics must not take the node down, nor its pod: it counts as a failure and is tried again.
        let guarded = AssertUnwindSafe(work).catch_unwind().map(move |result| {
            result.unwrap_or_else(|_| JobResult {
                uid,
                end: JobEnd::Failed(Retry::Later),
                memory: None,
                problem: Some("internal error: the job on this pod panicked".to_owned()),
            })
        });
        self.jobs.spawn(timed(kind, guarded.instrument(span)));
    }

    /// Waits for the next job that comes to rest; for ever if none is in flight. Cancel-safe, as `join_next` is.
    pub(crate) async fn next_end(&mut self) -> JobResult {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.jobs.join_next() => match ended {
                    Ok(result) => return result,
                    Err(err) => {
                        self.panics += 1;
                        error!(%err, "A job was lost");
                    }
                },
                // Between jobs, what the prober is to know is sent; cancel-safe, as it says.
                () = self.prober.flush() => {}
            }
        }
    }

    /// No job is in flight.
    pub(crate) fn are_resting(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Lets jobs in flight come to rest for up to `patience`, then drops them. Dropping is safe: whatever was under way
    /// is found by looking, after the next start (RST-18).
    pub async fn stop(mut self, patience: Duration) {
        let rest = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, rest).await.is_err() {
            debug!(left = self.jobs.len(), "Dropping jobs in flight");
        }
    }
}
