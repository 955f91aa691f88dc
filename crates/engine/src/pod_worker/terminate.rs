//! Stops a pod: its containers, then its sandboxes; and is content only when the runtime says that nothing runs (6.2).

use rubelet_core::lifecycle::{Cause, Grace, JobEnd, Retry};
use rubelet_core::observe::PodObservation;

use crate::job::{JobContext, JobError, JobResult, PodMemory, PodSnapshot};
use crate::ports::EventKind;
use crate::runtime::{OnFailure, insist, kill_pod};

/// Runs the job.
#[doc(alias = "SyncTerminatingPod")]
#[doc(alias = "SyncTerminatingRuntimePod")]
pub(super) async fn run(snapshot: PodSnapshot, mut memory: PodMemory, job: JobContext) -> JobResult {
    let uid = job.pod.uid.clone();
    let (end, problem) = tokio::select! {
        biased;
        // It has to end sooner (WORK-04). Dropping a stop half-way is harmless: the next job stops the container again,
        // with less grace.
        () = job.cancel.cancelled() => (JobEnd::Failed(Retry::Soon), None),
        result = stop(&snapshot, &mut memory, &job) => match result {
            Ok(()) => (JobEnd::Stopped, None),
            Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
        },
    };
    JobResult { uid, end, memory: Some(memory), problem }
}

/// The final status is not published: it is written when the job has ended, because only then does the pod count as
/// stopped, and only then may its phase be shown (TERM-06).
async fn stop(snapshot: &PodSnapshot, memory: &mut PodMemory, job: &JobContext) -> Result<(), JobError> {
    let (node, subject, grace) = (&*job.node, &snapshot.subject, snapshot.grace);
    let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
    job.publish(memory).await?;
    // Sandboxes that ended by themselves are stopped too: only a stop gives their network back, and some runtimes refuse
    // to remove one that was never stopped (KILL-01).
    if seen.is_stopped() && seen.sandboxes.is_empty() {
        return Ok(());
    }
    // While grace is left, a container that could not be stopped is asked again; then its sandbox goes all the same.
    let or_else = if snapshot.cause() == Cause::Orphaned { OnFailure::StopSandboxes } else { OnFailure::KeepGrace };
    let began = node.clock.mono();
    let problems = if memory.insist {
        insist(node, subject, &seen, job).await
    } else {
        kill_pod(node, subject, &seen, grace, or_else, job).await
    };
    let over = grace == Grace::MIN || node.clock.mono().since(began) >= grace.get();
    if !problems.is_empty() {
        let message = format!("error killing pod: {}", problems.join("; "));
        if let Some(pod) = subject.pod() {
            job.emit(pod, None, EventKind::Warning, "FailedKillPod", message.clone()).await;
        }
        // A runtime that is away is looked at again soon, and insisted on only when it is back.
        let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
        return Err(still_there(memory, &seen, over, message));
    }
    let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
    if let Some(left) = seen.running().next() {
        // The runtime said that it had stopped it. upstream calls this a CRI violation (TERM-04).
        let message = format!("container {} still runs after the runtime stopped it", left.name);
        return Err(still_there(memory, &seen, over, message));
    }
    Ok(())
}

/// What could not be stopped. Once the grace is over, what still runs has no right to: the next job insists, and comes
/// soon.
fn still_there(memory: &mut PodMemory, seen: &PodObservation, over: bool, problem: String) -> JobError {
    let first = over && seen.running().next().is_some() && !memory.insist;
    memory.insist |= first;
    if first { JobError::soon(problem) } else { JobError::later(problem) }
}
