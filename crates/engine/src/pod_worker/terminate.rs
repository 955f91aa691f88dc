//! Stops a pod: its containers, then its sandboxes; and is content only when the runtime says that nothing runs (6.2).

use std::sync::Arc;

use rubelet_core::lifecycle::{Cause, Grace, JobEnd, Retry, Subject};
use rubelet_core::observe::PodObservation;
use rubelet_core::status::Ending;

use super::sync_pod::decide;
use super::{JobError, JobLine, JobResult, PodMemory, tell, tell_status};
use crate::look::look;
use crate::node::Node;
use crate::ports::EventKind;
use crate::runtime::{OnFailure, insist, kill_pod};

/// Runs the job.
#[doc(alias = "SyncTerminatingPod")]
#[doc(alias = "SyncTerminatingRuntimePod")]
pub(super) async fn run(
    node: &Node,
    subject: Subject,
    cause: Cause,
    grace: Grace,
    mut memory: PodMemory,
    line: JobLine,
) -> JobResult {
    let uid = line.pod.uid.clone();
    let (end, problem) = tokio::select! {
        biased;
        // It has to end sooner (WORK-04). Dropping a stop half-way is harmless: the next job stops the container again,
        // with less grace.
        () = line.cancel.cancelled() => (JobEnd::Failed(Retry::Soon), None),
        result = stop(node, &subject, cause, grace, &mut memory, &line) => match result {
            Ok(()) => (JobEnd::Stopped, None),
            Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
        },
    };
    JobResult { uid, end, memory: Some(memory), problem }
}

async fn stop(
    node: &Node,
    subject: &Subject,
    cause: Cause,
    grace: Grace,
    memory: &mut PodMemory,
    line: &JobLine,
) -> Result<(), JobError> {
    let seen = observe(node, memory, line).await?;
    if let Some(pod) = subject.pod() {
        tell_status(node, pod, memory, &seen, Ending::Terminating, line).await;
    }
    // Sandboxes that ended by themselves are stopped too: only a stop gives their network back, and some runtimes refuse
    // to remove one that was never stopped (KILL-01).
    if !seen.is_stopped() || !seen.sandboxes.is_empty() {
        // While grace is left, a container that could not be stopped is asked again; then its sandbox goes all the same.
        let or_else = if cause == Cause::Orphaned { OnFailure::StopSandboxes } else { OnFailure::KeepGrace };
        let began = node.clock.mono();
        let problems = if memory.insist {
            insist(node, subject, &seen, line).await
        } else {
            kill_pod(node, subject, &seen, grace, or_else, line).await
        };
        let over = grace == Grace::MIN || node.clock.mono().since(began) >= grace.get();
        if !problems.is_empty() {
            let message = format!("error killing pod: {}", problems.join("; "));
            if let Some(pod) = subject.pod() {
                tell(node, line, pod, None, EventKind::Warning, "FailedKillPod", message.clone()).await;
            }
            // A runtime that is away is looked at again soon, and insisted on only when it is back.
            let seen = observe(node, memory, line).await?;
            return Err(still_there(memory, &seen, over, message));
        }
        let seen = observe(node, memory, line).await?;
        if let Some(left) = seen.running().next() {
            // The runtime said that it had stopped it. upstream calls this a CRI violation (TERM-04).
            let message = format!("container {} still runs after the runtime stopped it", left.name);
            return Err(still_there(memory, &seen, over, message));
        }
        settle(node, subject, memory, &seen);
        return Ok(());
    }
    settle(node, subject, memory, &seen);
    Ok(())
}

/// What could not be stopped. Once the grace is over, what still runs has no right to: the next job insists, and comes
/// soon.
fn still_there(memory: &mut PodMemory, seen: &PodObservation, over: bool, problem: String) -> JobError {
    let first = over && seen.running().next().is_some() && !memory.insist;
    memory.insist |= first;
    if first { JobError::soon(problem) } else { JobError::later(problem) }
}

async fn observe(node: &Node, memory: &mut PodMemory, line: &JobLine) -> Result<Arc<PodObservation>, JobError> {
    let seen = look(node, &line.pod, memory.seen.as_deref()).await;
    let seen = Arc::new(seen.map_err(|err| JobError::unseen(&err))?);
    memory.seen = Some(Arc::clone(&seen));
    Ok(seen)
}

/// The last status is told with the end of the job: only then does the pod count as stopped, and only then may it be
/// shown (TERM-06).
fn settle(node: &Node, subject: &Subject, memory: &mut PodMemory, seen: &PodObservation) {
    if let Some(pod) = subject.pod() {
        memory.status = Arc::new(decide(node, pod, memory, seen, Ending::Terminal));
    }
}
