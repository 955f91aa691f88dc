//! Jobs in flight: starts a job on a pod, and waits for the next job that ends.

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
            // Boxed: tokio moves a task a dozen times before it runs, and the task is as large as the largest job.
            match job {
                Job::Sync => Box::pin(sync_pod::run(snapshot, memory, context)).await,
                Job::Terminate { .. } => Box::pin(terminate::run(snapshot, memory, context)).await,
                Job::CleanUp => Box::pin(clean_up::run(snapshot, memory, context)).await,
            }
        };
        // A job that panics must end neither the agent nor the pod: it counts as a failed job and is tried again.
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

    /// Waits for the next job to end; for ever if none is in flight. Cancel-safe, as `join_next` is.
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
                // Sends queued updates to the prober meanwhile; `flush` is cancel-safe.
                () = self.prober.flush() => {}
            }
        }
    }

    /// No job is in flight.
    pub(crate) fn are_resting(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Waits up to `patience` for jobs in flight to end, then drops them. Dropping is safe: after the next start, the
    /// first look at each pod finds what its job had done (RST-18).
    pub async fn stop(mut self, patience: Duration) {
        let rest = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, rest).await.is_err() {
            debug!(left = self.jobs.len(), "Dropping jobs in flight");
        }
    }
}
