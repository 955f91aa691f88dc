//! Undoes what a stopped pod had on the node: volumes, cgroup, and, once no source asks for it, directory, logs and dead
//! containers (6.4).

use rubelet_core::lifecycle::{Cause, JobEnd, Retry, Subject};

use super::{JobError, JobLine, JobResult, Note, PodMemory, retry_after};
use crate::chain::Chain;
use crate::look::look;
use crate::node::Node;
use crate::removal::{DeadContainer, RemoveError, remove_container};
use crate::{resources, volumes};

/// Runs the job.
#[doc(alias = "SyncTerminatedPod")]
pub(super) async fn run(
    node: &Node,
    subject: Subject,
    cause: Cause,
    mut memory: PodMemory,
    line: JobLine,
) -> JobResult {
    let uid = line.pod.uid.clone();
    memory.set_up = None;
    let (end, problem) = match clean_up(node, &subject, cause, &line).await {
        Ok(()) => (JobEnd::CleanedUp, None),
        Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
    };
    JobResult { uid, end, memory: Some(memory), problem }
}

/// Goes on after a failure and tells every one: what can go, goes.
async fn clean_up(node: &Node, subject: &Subject, cause: Cause, line: &JobLine) -> Result<(), JobError> {
    let uid = &line.pod.uid;
    let mut problems = Vec::new();
    let mut retry = Retry::Later;
    line.step("its volumes to be unmounted").await;
    problems.extend(volumes::unmount_all(node, uid).await);
    if let Some(cluster) = &node.ports.cluster {
        cluster.objects.release(uid);
        cluster.tokens.forget(uid);
    }
    line.step("its cgroup to be removed").await;
    if let Err(err) = resources::remove_pod(node, subject.pod().map(AsRef::as_ref), uid).await {
        problems.push(Chain(&err).to_string());
    }
    if problems.is_empty() {
        // Whoever deleted it need not wait for the rest. upstream: kubelet.go SyncTerminatedPod leaves dead containers to
        // garbage collection (v1.36)
        line.note(Note::Released).await;
    }
    // A pod that ended by itself is still wanted: its logs and last states are there to be read (TERM-21).
    if cause != Cause::Ended && problems.is_empty() {
        line.step("its dead containers to be removed").await;
        let (remains, when) = remove_remains(node, line).await;
        problems.extend(remains);
        retry = when;
    }
    if problems.is_empty() { Ok(()) } else { Err(JobError { retry, problem: problems.join("; ") }) }
}

/// Answers with what went wrong and when to try again.
async fn remove_remains(node: &Node, line: &JobLine) -> (Vec<String>, Retry) {
    let mut problems = Vec::new();
    let mut retry = Retry::Later;
    match look(node, &line.pod, None).await {
        Ok(seen) => {
            for container in &seen.containers {
                if let Err(err) = remove_container(node, DeadContainer::seen(&line.pod, container)).await {
                    if let RemoveError::Runtime(err) = &err {
                        retry = retry_after(err.kind);
                    }
                    problems.push(Chain(&err).to_string());
                }
            }
            for sandbox in &seen.sandboxes {
                if let Err(err) = crate::runtime::remove_sandbox(node, &sandbox.id).await {
                    retry = retry_after(err.kind);
                    problems.push(err.to_string());
                }
            }
        }
        Err(err) => {
            retry = retry_after(err.kind);
            problems.push(err.to_string());
        }
    }
    if let Err(err) = node.ports.log_cleaner.remove(&line.pod).await {
        problems.push(Chain(&err).to_string());
    }
    if let Err(err) = node.ports.dirs.remove(&line.pod.uid).await {
        problems.push(Chain(&err).to_string());
    }
    (problems, retry)
}
