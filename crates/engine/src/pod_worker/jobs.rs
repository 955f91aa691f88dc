//! Jobs in flight: starts a job on a pod, and waits for the next job that ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{Job, JobEnd, Retry};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info_span};

use super::workers::PodWorkers;
use super::{clean_up, sync_pod, terminate};
use crate::job::{JobContext, JobResult};
use crate::node::Node;
use crate::task::timed;
use crate::trace::{self, SpanKind};

/// The span of a job. upstream: kubelet.go SyncPod, SyncTerminatingPod, SyncTerminatedPod (v1.36)
fn traced_job(node: &Node, name: &'static str, pod: &PodRef, first: bool) -> Option<trace::Span> {
    let mut span = node.tracer.start(name, SpanKind::Internal, None)?;
    span.set("k8s.pod.uid", pod.uid.to_string());
    span.set("k8s.pod", format!("{}/{}", pod.namespace, pod.name));
    span.set("k8s.pod.name", pod.name.to_string());
    if name == "syncPod" {
        span.set("k8s.pod.update_type", if first { "create" } else { "sync" });
    }
    span.set("k8s.namespace.name", pod.namespace.to_string());
    Some(span)
}

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
        let (kind, traced) = match &job {
            Job::Sync => ("pod-sync", "syncPod"),
            Job::Terminate { .. } => ("pod-terminate", "syncTerminatingPod"),
            Job::CleanUp => ("pod-clean-up", "syncTerminatedPod"),
        };
        let first = memory.set_up.is_none();
        let mut traced = traced_job(&self.node, traced, &context.pod, first);
        let trace = traced.as_ref().map(trace::Span::context);
        let work = async move {
            // Boxed: tokio moves a task a dozen times before it runs, and the task is as large as the largest job.
            match job {
                Job::Sync => trace::within(trace, Box::pin(sync_pod::run(snapshot, memory, context))).await,
                Job::Terminate { .. } => {
                    trace::within(trace, Box::pin(terminate::run(snapshot, memory, context))).await
                }
                Job::CleanUp => trace::within(trace, Box::pin(clean_up::run(snapshot, memory, context))).await,
            }
        };
        // A job that panics must end neither the agent nor the pod: it counts as a failed job and is tried again.
        let guarded = AssertUnwindSafe(work).catch_unwind().map(move |result| {
            let result = result.unwrap_or_else(|_| JobResult {
                uid,
                end: JobEnd::Failed(Retry::Later),
                memory: None,
                problem: Some("internal error: the job on this pod panicked".to_owned()),
            });
            if let (Some(span), Some(problem)) = (&mut traced, &result.problem) {
                span.fail(problem);
            }
            result
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
