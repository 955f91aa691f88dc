//! The clean-up job: unmounts the volumes of a stopped pod, then removes its cgroup; once no source wants the pod, also its
//! directory, logs and dead containers (6.4).

use rubelet_core::lifecycle::{Cause, JobEnd, Retry, Subject};

use crate::chain::Chain;
use crate::job::{JobContext, JobError, JobResult, Note, PodMemory, PodSnapshot, retry_after};
use crate::look::look;
use crate::node::Node;
use crate::removal::{DeadContainer, RemoveError, remove_container};
use crate::{resources, volumes};

/// Runs the job.
#[doc(alias = "SyncTerminatedPod")]
pub(super) async fn run(snapshot: PodSnapshot, mut memory: PodMemory, job: JobContext) -> JobResult {
    let uid = job.pod.uid.clone();
    memory.set_up = None;
    let (end, problem) = match clean_up(&job.node, &snapshot.subject, snapshot.cause(), &job).await {
        Ok(()) => (JobEnd::CleanedUp, None),
        Err(err) => (JobEnd::Failed(err.retry), Some(err.problem)),
    };
    JobResult { uid, end, memory: Some(memory), problem }
}

/// Goes on after a failure, so that one failure does not keep the rest, and returns all failures.
async fn clean_up(node: &Node, subject: &Subject, cause: Cause, job: &JobContext) -> Result<(), JobError> {
    let uid = &job.pod.uid;
    let mut problems = Vec::new();
    let mut retry = Retry::Later;
    job.step("its volumes to be unmounted").await;
    problems.extend(volumes::unmount_all(node, uid).await);
    if let Some(cluster) = &node.ports.cluster {
        cluster.objects.release(uid);
        cluster.tokens.forget(uid);
    }
    let pod = subject.pod().map(AsRef::as_ref);
    let done = if problems.is_empty() {
        job.step("its cgroup to be removed").await;
        resources::remove_pod(node, pod, uid).await
    } else {
        resources::lower_pod(node, pod, uid).await
    };
    problems.extend(done.err().map(|err| Chain(&err).to_string()));
    if problems.is_empty() {
        // From here on the pod may be deleted from the API: a client that deleted it need not wait for the rest.
        // upstream: kubelet.go SyncTerminatedPod leaves dead containers to garbage collection (v1.36)
        job.note(Note::Released).await;
    }
    // A source still wants a pod that ended by itself: its logs and last states stay readable (TERM-21).
    if !matches!(cause, Cause::Ended | Cause::NodeShutdown) && problems.is_empty() {
        job.step("its dead containers to be removed").await;
        let (failures, when) = remove_remains(node, job).await;
        problems.extend(failures);
        retry = when;
    }
    if problems.is_empty() { Ok(()) } else { Err(JobError { retry, problem: problems.join("; ") }) }
}

/// Removes dead containers, sandboxes, logs and the directory. Returns the failures and when to try again.
async fn remove_remains(node: &Node, job: &JobContext) -> (Vec<String>, Retry) {
    let mut problems = Vec::new();
    let mut retry = Retry::Later;
    match look(node, &job.pod, None).await {
        Ok(seen) => {
            for container in &seen.containers {
                if let Err(err) = remove_container(node, DeadContainer::seen(&job.pod, container)).await {
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
    if let Err(err) = node.ports.log_cleaner.remove(&job.pod).await {
        problems.push(Chain(&err).to_string());
    }
    if let Err(err) = node.ports.dirs.remove(&job.pod.uid).await {
        problems.push(Chain(&err).to_string());
    }
    (problems, retry)
}
