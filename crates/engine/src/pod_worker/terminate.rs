//! The terminate job: stops the containers of a pod, then its sandboxes. It succeeds only when a look shows that nothing
//! runs (6.2).

use rubelet_core::lifecycle::{Cause, Grace, JobEnd, Retry};
use rubelet_core::observe::PodObservation;

use crate::job::{JobContext, JobError, JobResult, PodMemory, PodSnapshot};
use crate::ports::EventKind;
use crate::runtime::{OnFailure, force_kill_pod, kill_pod};

/// Runs the job.
#[doc(alias = "SyncTerminatingPod")]
#[doc(alias = "SyncTerminatingRuntimePod")]
pub(super) async fn run(snapshot: PodSnapshot, mut memory: PodMemory, job: JobContext) -> JobResult {
    let uid = job.pod.uid.clone();
    let (end, problem) = tokio::select! {
        biased;
        // The pod has to end sooner (WORK-04). A stop may be dropped half-way: the next job stops the container again, with
        // less grace.
        () = job.cancel.cancelled() => (JobEnd::Failed(Retry::Soon), None),
        result = stop(&snapshot, &mut memory, &job) => match result {
            Ok(()) => (JobEnd::Stopped, None),
            Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
        },
    };
    JobResult { uid, end, memory: Some(memory), problem }
}

/// The last observation is not published: the loop decides the status when the job has ended. Only then does the pod count
/// as stopped, and only then may its final phase be written (TERM-06).
async fn stop(snapshot: &PodSnapshot, memory: &mut PodMemory, job: &JobContext) -> Result<(), JobError> {
    let (node, subject, grace) = (&*job.node, &snapshot.subject, snapshot.grace);
    let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
    job.publish(memory).await?;
    // Sandboxes that ended by themselves are stopped too: only a stop releases their network, and some runtimes refuse to
    // remove a sandbox that was never stopped (KILL-01).
    if seen.is_stopped() && seen.sandboxes.is_empty() {
        return Ok(());
    }
    // While grace is left, a stop that failed is tried again. After that the sandbox is stopped, which ends the container.
    let or_else = if snapshot.cause() == Cause::Orphaned { OnFailure::StopSandboxes } else { OnFailure::KeepGrace };
    let began = node.clock.mono();
    let problems = if memory.force_kill {
        force_kill_pod(node, subject, &seen, job).await
    } else {
        kill_pod(node, subject, &seen, grace, or_else, job).await
    };
    let over = grace == Grace::MIN || node.clock.mono().since(began) >= grace.get();
    if !problems.is_empty() {
        let message = format!("error killing pod: {}", problems.join("; "));
        if let Some(pod) = subject.pod() {
            job.emit(pod, None, EventKind::Warning, "FailedKillPod", message.clone()).await;
        }
        // If the runtime is down, this look fails and the job is retried soon, without a forced kill.
        let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
        return Err(still_there(memory, &seen, over, message));
    }
    let seen = job.look(memory).await.map_err(|err| JobError::unseen(&err))?;
    if let Some(left) = seen.running().next() {
        // The runtime had answered that the container was stopped. Upstream calls this a CRI violation (TERM-04).
        let message = format!("container {} still runs after the runtime stopped it", left.name);
        return Err(still_there(memory, &seen, over, message));
    }
    Ok(())
}

/// The error of a pod that still runs. If its grace period is over, the next job comes soon and kills it by force.
fn still_there(memory: &mut PodMemory, seen: &PodObservation, over: bool, problem: String) -> JobError {
    let first = over && seen.running().next().is_some() && !memory.force_kill;
    memory.force_kill |= first;
    if first { JobError::soon(problem) } else { JobError::later(problem) }
}
