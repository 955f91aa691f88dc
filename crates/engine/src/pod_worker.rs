//! Work on one pod. Each pod has at most one job in flight; a job is a task that looks at the runtime, decides by `core`,
//! acts, looks again, and comes to rest.
//!
//! A worker is a task only while it works: between jobs a pod is an entry in a map ([`PodWorkers`]), so that a thousand
//! idle pods cost a thousand entries and one timer.

mod clean_up;
mod counts;
mod jobs;
mod names;
mod probes;
mod reports;
mod resizes;
mod rest;
mod sync_pod;
mod terminate;
mod view;
mod workers;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::backoff::{BackoffPolicy, Backoffs};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{JobEnd, Retry};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::ProbeView;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{PodAllocation, ResizeState};
use rubelet_core::status::Ending;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::ports::{EventKind, PodEvent, RpcError, RpcErrorKind};
use crate::volumes::VolumeMemory;
use rest::{OfNode, Rest};
pub use view::WorkerView;
pub use workers::{Outcome, PodWorkers};

/// What is remembered of a pod between jobs. A job works on a copy and hands it back; one that panics loses only what it
/// learnt. Nothing in it is needed for correctness: after a restart it is empty.
#[derive(Clone, Debug)]
pub struct PodMemory {
    /// The last look at the runtime.
    pub seen: Option<Arc<PodObservation>>,
    /// Something was started since.
    pub(crate) unseen: bool,
    /// The last status decided.
    pub status: Arc<PodStatus>,
    /// Why containers could not be started.
    pub failures: BTreeMap<String, StartFailure>,
    /// Delays of containers that keep ending.
    pub crashes: Backoffs,
    /// Delays of images that can't be pulled.
    pub pulls: Backoffs,
    /// How long its images took to be pulled.
    pub(crate) pulling: Duration,
    /// The last failure of each image, for the message while it waits.
    pub pull_errors: BTreeMap<String, (WaitingReason, String)>,
    /// What the probes say.
    pub probes: Arc<ProbeView>,
    /// Directories, cgroup and volumes were made ready by this process; where the volumes are.
    pub set_up: Option<Arc<BTreeMap<String, PathBuf>>>,
    /// What the runtime was last told of its containers' resources.
    pub(crate) told: Option<Arc<PodAllocation>>,
    /// How its resize stands.
    pub(crate) resize: ResizeState,
    /// How its volumes fare.
    pub(crate) volumes: VolumeMemory,
    /// Containers of it ran when its grace was over and the runtime had been asked to stop them: they are killed by all
    /// means (KILL-01).
    pub(crate) insist: bool,
    /// The runtime handler by which its status is decided.
    pub(crate) handler: String,
    /// What the last look left nothing to do for, if so.
    rest: Option<Rest>,
}

impl PodMemory {
    /// Of a pod that is new here; `before` is its status as it was told before.
    pub fn new(before: PodStatus, crashes: BackoffPolicy) -> Self {
        Self {
            seen: None,
            unseen: false,
            resize: ResizeState::of(&before),
            told: None,
            status: Arc::new(before),
            failures: BTreeMap::new(),
            crashes: Backoffs::new(crashes),
            pulls: Backoffs::new(BackoffPolicy::image()),
            pulling: Duration::ZERO,
            pull_errors: BTreeMap::new(),
            probes: Arc::default(),
            set_up: None,
            volumes: VolumeMemory::default(),
            insist: false,
            handler: String::new(),
            rest: None,
        }
    }
}

/// How a job came to rest, and what it remembers.
#[derive(Debug)]
pub(crate) struct JobResult {
    pub(crate) uid: PodUid,
    pub(crate) end: JobEnd,
    /// `None` if it panicked: what was remembered before it still holds.
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

/// What a job tells while it works.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// It now does or waits for this.
    Step { what: String },
    /// This happened; it goes into the timeline.
    Happened { what: String, took: Option<Duration>, bad: bool },
    /// Volumes and cgroup are undone: only dead containers, directory and logs are left, of which nobody else knows.
    Released,
    /// A look in the middle of the job: what has been started is probed from now on.
    Seen { seen: Arc<PodObservation> },
    /// The pod's status is now this.
    Status { status: Arc<PodStatus> },
}

/// A job's way to tell what it does, and to be told to stop.
#[derive(Clone, Debug)]
pub(crate) struct JobLine {
    pub(crate) pod: PodRef,
    pub(crate) notes: mpsc::Sender<(PodUid, Note)>,
    /// The pod was told to end, or to end sooner: come to rest.
    pub(crate) cancel: CancellationToken,
    /// Its one permit is taken while the runtime starts a container.
    starting: Arc<Semaphore>,
}

/// How long a start that is under way when its pod is told to end may take to come to its own end.
const START_PATIENCE: Duration = Duration::from_secs(10);

impl JobLine {
    pub(crate) fn new(pod: PodRef, notes: mpsc::Sender<(PodUid, Note)>, cancel: CancellationToken) -> Self {
        Self { pod, notes, cancel, starting: Arc::new(Semaphore::new(1)) }
    }

    /// Marks that the runtime is starting a container, until dropped. Waits for ever if the pod was told to end: nothing
    /// may start from then on (WORK-04), and whoever told it drops the job.
    pub(crate) async fn starting(&self) -> impl Sized {
        self.rest_if_told().await;
        self.starting.acquire().await
    }

    /// Goes on, unless the pod was told to end: then the job gets no further, and is dropped.
    pub(crate) async fn rest_if_told(&self) {
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
    pub(crate) async fn told_to_end(&self, clock: &Clock) {
        self.cancel.cancelled().await;
        let patience = clock.mono() + START_PATIENCE;
        tokio::select! {
            biased;
            _ = self.starting.acquire() => {}
            () = clock.sleep_until(Some(patience)) => {}
        }
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
}

/// Decides the status from what was seen and tells it, if it changed.
pub(crate) async fn tell_status(
    node: &crate::node::Node,
    pod: &Pod,
    memory: &mut PodMemory,
    seen: &PodObservation,
    ending: Ending,
    line: &JobLine,
) {
    let new = sync_pod::decide(node, pod, memory, seen, ending);
    if *memory.status != new {
        memory.status = Arc::new(new);
        line.note(Note::Status { status: Arc::clone(&memory.status) }).await;
    }
}

/// An event, told to the API and to the pod's timeline alike.
pub(crate) async fn tell(
    node: &crate::node::Node,
    line: &JobLine,
    pod: &Arc<Pod>,
    field_path: Option<String>,
    kind: EventKind,
    reason: impl Into<Cow<'static, str>>,
    message: impl Into<String>,
) {
    let reason = reason.into();
    let message = message.into();
    let bad = kind == EventKind::Warning;
    line.note(Note::Happened { what: format!("{reason}: {message}"), took: None, bad }).await;
    node.ports.events.record(PodEvent { pod: Arc::clone(pod), field_path, kind, reason, message });
}
