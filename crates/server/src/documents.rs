//! The data that `rubelet pods`, `explain` and the other commands of this machine show.
//!
//! Made by pure functions from the sync loop's view, without waiting and without a clock. The documents travel as JSON and
//! are also the output of `-o json`, so fields are never renamed. Durations are in seconds, so that a reader needs no clock
//! of its own; points in time are timestamps.

mod container;
mod events;
mod facts;
mod find;
mod line;
mod log;
mod node;
mod page;
mod resize;
mod status;
mod story;
mod top;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use rubelet_core::ended::EndedPod;
use rubelet_core::id::PodUid;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};
use serde::{Deserialize, Serialize};

pub use events::{EventDocument, EventsDocument};
pub use facts::{CallDocument, ContainerFacts, Extras, PodFacts, ProbeFacts, PullDocument};
pub use find::Miss;
pub use log::{LogAsk, LogDocument, pod_log};
pub use node::{
    DiskDocument, DiskUseDocument, NodeFigures, NodeLimits, NodeStory, PodDiskDocument, ResourceDocument,
    ThresholdDocument, ThresholdState, Unit, node_story,
};
pub use page::{Bar, PageDocument, PagePod, page_document};
pub use status::{
    AgentView, ApiServerDocument, CertificateDocument, ConditionDocument, PodCounts, StatusDocument,
    StatusRuntimeDocument, status_document,
};
pub use top::{TopContainer, TopDocument, TopPod, Used, top_document};

/// The node, and one line per pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDocument {
    /// State of the container runtime.
    pub runtime: RuntimeDocument,
    /// Sources of pods that have not been read yet: `file`, `http`, `api`.
    pub unread_sources: Vec<String>,
    /// Pod jobs that panicked since the start. Each is a bug.
    pub job_panics: u64,
    /// The longest poll of a task since the start; `None` before there was one.
    #[serde(default)]
    pub longest_hold_up: Option<HoldUpDocument>,
    /// The pods, by namespace and name; invalid manifests come last.
    pub pods: Vec<PodLine>,
}

/// A task that blocked the agent's only thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldUpDocument {
    /// The kind of task.
    pub task: String,
    /// The duration of the poll.
    pub millis: u64,
}

/// State of the container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeDocument {
    /// The runtime responds.
    pub up: bool,
    /// Why it does not, or its most recent problem.
    pub problem: Option<String>,
    /// Why pods with a network of their own cannot be started.
    pub network_problem: Option<String>,
}

/// One pod in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLine {
    /// Namespace; empty for an invalid manifest.
    pub namespace: String,
    /// Name; for an invalid manifest, its file or URL.
    pub name: String,
    /// UID; empty for an invalid manifest.
    pub uid: String,
    /// Summary state.
    pub state: PodState,
    /// Stage of the pod's life cycle on this node; `None` if it has none.
    pub stage: Option<String>,
    /// Reason of the state, in one word.
    pub reason: Option<String>,
    /// The reason in a sentence.
    pub message: Option<String>,
    /// Ready containers, of `total`.
    pub ready: u32,
    /// Regular containers and sidecars.
    pub total: u32,
    /// Restarts of its containers.
    pub restarts: u32,
    /// Age of the pod, as far back as it is known.
    pub age_seconds: Option<u64>,
    /// IP address.
    pub ip: Option<String>,
}

/// Summary state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PodState {
    /// An older pod of the same name has not finished yet.
    Waiting,
    /// Not all containers have started.
    Pending,
    /// A container runs, or will be restarted.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have ended and one has failed; or the pod was ended, for example by its deadline.
    Failed,
    /// The pod is being terminated.
    Terminating,
    /// The pod was terminated, and is forgotten when its source drops it.
    Terminated,
    /// The pod was rejected by admission.
    Rejected,
    /// The manifest is not a valid pod.
    Invalid,
}

impl PodState {
    /// The name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
            Self::Rejected => "Rejected",
            Self::Invalid => "Invalid",
        }
    }
}

/// The details of one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodStory {
    /// The line of the list.
    #[serde(flatten)]
    pub line: PodLine,
    /// Its source: `file`, `http`, `api`.
    pub source: Option<String>,
    /// Time in its stage.
    pub stage_seconds: Option<u64>,
    /// Grace period of a terminating pod.
    pub grace_seconds: Option<u64>,
    /// The last failure, until a sync succeeds.
    pub problem: Option<String>,
    /// Failed syncs in a row.
    pub failures: u32,
    /// What the pod waits for.
    pub waiting: Option<WaitingDocument>,
    /// State of a resize, while there is one: why it is pending, and what is in progress.
    pub resize: Vec<String>,
    /// Its containers: init containers and sidecars in order, then the others.
    pub containers: Vec<ContainerStory>,
    /// The pod's events and steps, ordered by their last occurrence.
    pub timeline: Vec<Step>,
    /// Number of older steps that were dropped.
    pub steps_dropped: u64,
    /// Where it is, and what is open.
    #[serde(flatten)]
    pub facts: PodFacts,
}

/// What a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingDocument {
    /// Description.
    pub what: String,
    /// Time since it began to wait.
    pub since_seconds: Option<u64>,
    /// Time to the next attempt, if known.
    pub until_in_seconds: Option<u64>,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStory {
    /// Name.
    pub name: String,
    /// `init`, `sidecar`, `regular` or `ephemeral`.
    pub role: String,
    /// Image.
    pub image: String,
    /// `Waiting`, `Running` or `Terminated`.
    pub state: String,
    /// Reason, in one word.
    pub reason: Option<String>,
    /// The reason in a sentence.
    pub message: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Number of restarts.
    pub restarts: u32,
    /// Time in this state, if known.
    pub since_seconds: Option<u64>,
    /// Exit code, if it has terminated.
    pub exit_code: Option<i32>,
    /// Time to the next start, while it is in back-off.
    pub next_start_in_seconds: Option<u64>,
    /// Termination of the previous instance.
    pub last_end: Option<EndDocument>,
    /// Its probes that fail now.
    pub failing_probes: Vec<ProbeDocument>,
    /// Where it is, and its probes.
    #[serde(flatten)]
    pub facts: ContainerFacts,
}

/// A failing probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDocument {
    /// `startup`, `readiness` or `liveness`.
    pub kind: String,
    /// The last result.
    pub said: String,
    /// Failures in a row; 0 if the probe could not be run.
    pub times: u32,
}

/// Termination of a container instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndDocument {
    /// Exit code.
    pub exit_code: i32,
    /// Reason, in one word.
    pub reason: Option<String>,
    /// Termination message.
    pub message: Option<String>,
    /// Time since the termination.
    pub seconds_ago: Option<u64>,
}

/// One entry of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Last occurrence.
    pub at: Timestamp,
    /// First occurrence.
    pub first: Timestamp,
    /// Description.
    pub what: String,
    /// Number of occurrences.
    pub times: u32,
    /// Duration, if known.
    pub took_seconds: Option<f64>,
    /// Whether it was a failure.
    pub bad: bool,
}

/// The node, and one line per pod.
#[must_use]
pub fn node_document(view: &NodeView) -> NodeDocument {
    NodeDocument {
        runtime: RuntimeDocument {
            up: view.runtime.up,
            problem: view.runtime.problem.clone(),
            network_problem: view.runtime.network_problem(),
        },
        unread_sources: view.unread_sources.iter().map(|source| source.as_str().to_owned()).collect(),
        job_panics: view.job_panics,
        longest_hold_up: view.longest_hold_up.map(|longest| HoldUpDocument {
            task: longest.task.to_owned(),
            millis: u64::try_from(longest.longest.as_millis()).unwrap_or(u64::MAX),
        }),
        pods: entries(view).into_iter().map(|(_, line)| line).collect(),
    }
}

/// The details of the pod that `word` names: its name, `namespace/name`, UID, or a unique prefix of one; for an invalid
/// manifest, its file or URL.
///
/// # Errors
/// No pod matches `word`, or several do.
pub fn pod_story(view: &NodeView, word: &str, extras: &Extras) -> Result<PodStory, Miss> {
    let entries = entries(view);
    let lines: Vec<&PodLine> = entries.iter().map(|(_, line)| line).collect();
    let index = find::find(&lines, word)?;
    let mut entries = entries;
    let (entry, line) = entries.swap_remove(index);
    Ok(match entry {
        Entry::Pod(pod) => story::of_pod(view, pod, line, extras),
        Entry::Rejected(rejected) => story::of_rejected(view, rejected, line),
        Entry::Bad(bad) => story::of_bad(bad, line),
    })
}

/// The UID of the pod that `word` names; `None` if it has none, or is not known.
#[must_use]
pub fn uid_of(view: &NodeView, word: &str) -> Option<PodUid> {
    let entries = entries(view);
    let lines: Vec<&PodLine> = entries.iter().map(|(_, line)| line).collect();
    let uid = &lines.get(find::find(&lines, word).ok()?)?.uid;
    (!uid.is_empty()).then(|| uid.as_str().into())
}

/// The details of the pod that `word` names, of those that have ended lately.
#[must_use]
pub fn ended_story(view: &NodeView, ended: &[EndedPod], word: &str) -> Option<PodStory> {
    let pods: Vec<WorkerView> = ended.iter().map(story::before_its_end).collect();
    let past = NodeView { pods, rejected: Vec::new(), bad: Vec::new(), ..view.clone() };
    let mut story = pod_story(&past, word, &Extras::default()).ok()?;
    let end = ended.iter().find(|pod| pod.uid == story.line.uid)?;
    story.facts.gone_seconds = seconds_since(view.now.wall, end.ended);
    Some(story)
}

/// Everything that has a line.
enum Entry<'a> {
    Pod(&'a WorkerView),
    Rejected(&'a Rejected),
    Bad(&'a BadPod),
}

fn entries(view: &NodeView) -> Vec<(Entry<'_>, PodLine)> {
    let pods = view.pods.iter().map(|pod| (Entry::Pod(pod), line::of_pod(view, pod)));
    let rejected = view.rejected.iter().map(|pod| (Entry::Rejected(pod), line::of_rejected(view, pod)));
    let bad = view.bad.iter().map(|bad| (Entry::Bad(bad), line::of_bad(bad)));
    let mut all: Vec<_> = pods.chain(rejected).chain(bad).collect();
    all.sort_by(|(_, a), (_, b)| {
        let key = |line: &PodLine| line.state == PodState::Invalid;
        (key(a), &a.namespace, &a.name, &a.uid).cmp(&(key(b), &b.namespace, &b.name, &b.uid))
    });
    all
}

/// Whole seconds from `earlier` to `now`; `None` if the clock was set back in between.
fn seconds_since(now: Timestamp, earlier: Timestamp) -> Option<u64> {
    u64::try_from(now.duration_since(earlier).as_secs()).ok()
}
