//! A job on one pod, as all kinds of jobs see it: what the job knows ([`PodMemory`]), what the sync loop gave it
//! ([`PodSnapshot`]), and the way back to the loop ([`JobContext`]).
//!
//! Each piece of a pod's state has one owner. The job owns its memory: it travels with the job and comes back whole. The
//! loop owns the rest, and above all the pod's status: a job never decides one, it hands over what it knows and is
//! answered with the status that follows from it ([`JobContext::publish`]).

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

/// How a job came to rest, and its memory.
#[derive(Debug)]
pub(crate) struct JobResult {
    pub(crate) uid: PodUid,
    pub(crate) end: JobEnd,
    /// `None` if it panicked: what it published before still holds.
    pub(crate) memory: Option<PodMemory>,
    /// What to tell people if it failed.
    pub(crate) problem: Option<String>,
}

/// A job that could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobError {
    pub(crate) retry: Retry,
    pub(crate) problem: String,
}

impl JobError {
    pub(crate) fn later(problem: impl Into<String>) -> Self {
        Self { retry: Retry::Later, problem: problem.into() }
    }

    /// A look that failed.
    pub(crate) fn unseen(err: &RpcError) -> Self {
        Self { retry: retry_after(err.kind), problem: format!("error determining status: {err}") }
    }

    pub(crate) fn soon(problem: impl Into<String>) -> Self {
        Self { retry: Retry::Soon, problem: problem.into() }
    }
}

/// When to look again after a call to the runtime failed. A runtime that cannot be reached is usually back in a moment;
/// one that hangs or refuses is not.
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
    /// It now does or waits for this.
    Step { what: String },
    /// This happened; it goes into the timeline.
    Happened { what: String, took: Option<Duration>, bad: bool },
    /// Volumes and cgroup are undone: only dead containers, directory and logs are left, of which nobody else knows.
    Released,
    /// The job knows this now. The loop writes the status that follows from it, and answers with that status.
    Learned { memory: Box<PodMemory>, status: oneshot::Sender<Arc<PodStatus>> },
}

/// What a job needs besides the pod: the node, its way to the sync loop, and the sign to stop.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub(crate) node: Arc<Node>,
    pub(crate) pod: PodRef,
    notes: mpsc::Sender<(PodUid, Note)>,
    /// The pod has to end, or to end sooner: come to rest.
    pub(crate) cancel: CancellationToken,
    /// Its one permit is taken while the runtime starts a container.
    starting: Arc<Semaphore>,
}

/// How long a start that is under way when its pod has to end may take to come to its own end.
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

    /// Marks that the runtime is starting a container, until dropped. Waits for ever if the pod has to end: nothing may
    /// start from then on (WORK-04), and the job is dropped.
    pub(crate) async fn starting(&self) -> impl Sized {
        self.wait_if_ending().await;
        self.starting.acquire().await
    }

    /// Goes on, unless the pod has to end: then the job gets no further, and is dropped.
    pub(crate) async fn wait_if_ending(&self) {
        if self.cancel.is_cancelled() {
            std::future::pending().await
        }
    }

    /// Waits until the job has to be dropped.
    ///
    /// A call in flight is given up: whatever it made is found by the next job, which begins by looking. Only a start is
    /// waited for. Of one that is given up half-way the runtime says that the container could not be started, though its
    /// process may have run, and people would read that of a pod that they only deleted. One that hangs holds up the end
    /// for no longer than [`START_PATIENCE`].
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

    /// Looks at the pod and remembers what was seen.
    pub(crate) async fn look(&self, memory: &mut PodMemory) -> Result<Arc<PodObservation>, RpcError> {
        let seen = Arc::new(look(&self.node, &self.pod, memory.seen.as_deref()).await?);
        memory.seen = Some(Arc::clone(&seen));
        memory.unseen = false;
        Ok(seen)
    }

    /// Hands what the job knows to the sync loop, which writes the status that follows from it; answers with that status.
    pub(crate) async fn publish(&self, memory: &PodMemory) -> Result<Arc<PodStatus>, JobError> {
        let (status, answer) = oneshot::channel();
        self.note(Note::Learned { memory: Box::new(memory.clone()), status }).await;
        answer.await.map_err(|_| JobError::later("the agent is stopping"))
    }

    /// Says what the job now does or waits for.
    pub(crate) async fn step(&self, what: impl Into<String>) {
        self.note(Note::Step { what: what.into() }).await;
    }

    /// Says what happened.
    pub(crate) async fn happened(&self, what: impl Into<String>, took: Option<Duration>) {
        self.note(Note::Happened { what: what.into(), took, bad: false }).await;
    }

    pub(crate) async fn note(&self, note: Note) {
        // Fails only when the loop has gone, and then nobody listens.
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
        self.node.ports.events.record(PodEvent { pod: Arc::clone(pod), field_path, kind, reason, message });
    }
}
