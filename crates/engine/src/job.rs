//! What all kinds of jobs on a pod share: the job's own state ([`PodMemory`]), the sync loop's state when the job began
//! ([`PodSnapshot`]), and the channel to the loop ([`JobContext`]).
//!
//! Each piece of a pod's state has one owner. The job owns the memory: the loop hands it to the job, and the job returns
//! it whole. The loop owns all other state, above all the pod's status. A job never decides a status: it publishes its
//! memory, and the loop answers with the status that it decided from it ([`JobContext::publish`]).

mod memory;
mod snapshot;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{JobEnd, Retry};
use rubelet_core::observe::PodObservation;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::look::look;
use crate::node::Node;
use crate::ports::{EventKind, PodEvent, RpcError, RpcErrorKind};
pub(crate) use memory::PodMemory;
pub(crate) use snapshot::PodSnapshot;

/// How a job ended, and its memory.
#[derive(Debug)]
pub(crate) struct JobResult {
    pub(crate) uid: PodUid,
    pub(crate) end: JobEnd,
    /// `None` if the job panicked: the memory that it published last still counts.
    pub(crate) memory: Option<PodMemory>,
    /// Why the job failed, for the log and the timeline.
    pub(crate) problem: Option<String>,
}

/// Why a job failed, and when the next one is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobError {
    pub(crate) retry: Retry,
    pub(crate) problem: String,
}

impl JobError {
    pub(crate) fn later(problem: impl Into<String>) -> Self {
        Self { retry: Retry::Later, problem: problem.into() }
    }

    /// The job's look at the runtime failed.
    pub(crate) fn unseen(err: &RpcError) -> Self {
        Self { retry: retry_after(err.kind), problem: format!("error determining status: {err}") }
    }

    pub(crate) fn soon(problem: impl Into<String>) -> Self {
        Self { retry: Retry::Soon, problem: problem.into() }
    }
}

/// When to try again after a call to the runtime failed. A runtime that cannot be reached is usually back in a moment;
/// one that hangs or refuses the call is not.
pub(crate) fn retry_after(kind: RpcErrorKind) -> Retry {
    match kind {
        RpcErrorKind::Unavailable => Retry::Soon,
        RpcErrorKind::NotFound
        | RpcErrorKind::AlreadyExists
        | RpcErrorKind::Timeout
        | RpcErrorKind::Unimplemented
        | RpcErrorKind::Garbage
        | RpcErrorKind::Failed => Retry::Later,
    }
}

/// What a job sends to the sync loop while it works.
#[derive(Debug)]
pub(crate) enum Note {
    /// What the job does or waits for from now on.
    Step { what: String },
    /// An entry for the pod's timeline.
    Happened { what: String, took: Option<Duration>, bad: bool },
    /// The pod's volumes are unmounted and its cgroup is removed. Only dead containers, its directory and its logs are
    /// left, and nothing outside the node depends on these.
    Released,
    /// The job's memory as it is now. The loop decides and writes the status, and answers with it.
    Learned { memory: Box<PodMemory>, status: oneshot::Sender<Arc<PodStatus>> },
}

/// What a job needs besides the pod: the node, the channel to the sync loop, and the signal to stop.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub(crate) node: Arc<Node>,
    pub(crate) pod: PodRef,
    notes: mpsc::Sender<(PodUid, Note)>,
    /// Cancelled when the pod has to end, or to end sooner: the job must stop.
    pub(crate) cancel: CancellationToken,
    /// One permit, which is taken while the runtime starts a container.
    starting: Arc<Semaphore>,
}

/// How long a container start that is in flight may go on when its pod has to end.
const START_PATIENCE: Duration = Duration::from_secs(10);

impl JobContext {
    pub(crate) fn new(
        node: Arc<Node>,
        pod: PodRef,
        notes: mpsc::Sender<(PodUid, Note)>,
        cancel: CancellationToken,
    ) -> Self {
        Self { node, pod, notes, cancel, starting: Arc::new(Semaphore::new(1)) }
    }

    /// Marks that the runtime is starting a container, until the result is dropped. Waits for ever if the pod has to end:
    /// no container may start from then on (WORK-04), and the job is dropped.
    pub(crate) async fn starting(&self) -> impl Sized {
        self.wait_if_ending().await;
        self.starting.acquire().await
    }

    /// Returns at once, unless the pod has to end: then it waits for ever, and the job is dropped.
    pub(crate) async fn wait_if_ending(&self) {
        if self.cancel.is_cancelled() {
            std::future::pending().await
        }
    }

    /// Waits until the job has to be dropped.
    ///
    /// A call in flight is given up: the next job begins with a look, and finds what the call made. Only a container start
    /// is waited for. If a start is given up half-way, the runtime reports that the container could not be started, though
    /// its process may have run, and the status of a pod that was merely deleted would show that failure. A start that
    /// hangs delays the end of the pod for no longer than [`START_PATIENCE`].
    pub(crate) async fn must_end(&self) {
        self.cancel.cancelled().await;
        let clock = &self.node.clock;
        let patience = clock.mono() + START_PATIENCE;
        tokio::select! {
            biased;
            _ = self.starting.acquire() => {}
            () = clock.sleep_until(Some(patience)) => {}
        }
    }

    /// Looks at the pod and keeps the observation in `memory`.
    pub(crate) async fn look(&self, memory: &mut PodMemory) -> Result<Arc<PodObservation>, RpcError> {
        let seen = Arc::new(look(&self.node, &self.pod, memory.seen.as_deref()).await?);
        memory.seen = Some(Arc::clone(&seen));
        memory.unseen = false;
        Ok(seen)
    }

    /// Sends the job's memory to the sync loop, which decides and writes the status. Returns that status.
    pub(crate) async fn publish(&self, memory: &PodMemory) -> Result<Arc<PodStatus>, JobError> {
        let (status, answer) = oneshot::channel();
        self.note(Note::Learned { memory: Box::new(memory.clone()), status }).await;
        answer.await.map_err(|_| JobError::later("the agent is stopping"))
    }

    /// Sets what the job does or waits for from now on, for `rubelet explain`.
    pub(crate) async fn step(&self, what: impl Into<String>) {
        self.note(Note::Step { what: what.into() }).await;
    }

    /// Adds an entry to the pod's timeline.
    pub(crate) async fn happened(&self, what: impl Into<String>, took: Option<Duration>) {
        self.note(Note::Happened { what: what.into(), took, bad: false }).await;
    }

    pub(crate) async fn note(&self, note: Note) {
        // Fails only after the loop has ended: then the note is of no use.
        let _gone = self.notes.send((self.pod.uid.clone(), note)).await;
    }

    /// Emits an event about the pod, and adds it to the pod's timeline.
    pub(crate) async fn emit(
        &self,
        pod: &Arc<Pod>,
        field_path: Option<String>,
        kind: EventKind,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let reason = reason.into();
        let message = message.into();
        let bad = kind == EventKind::Warning;
        self.note(Note::Happened { what: format!("{reason}: {message}"), took: None, bad }).await;
        self.node.ports.events.record(PodEvent {
            pod: Arc::clone(pod),
            field_path,
            kind,
            reason,
            message,
            annotations: std::collections::BTreeMap::new(),
        });
    }
}
