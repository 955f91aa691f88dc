//! What `rubelet pods` and `rubelet explain` are told, as plain data.
//!
//! Made by pure functions from the sync loop's view; nothing here waits or reads a clock. The documents travel as JSON
//! and are also what `-o json` prints, so a field that has once been there keeps its name. Times that passed are told in
//! seconds, so that a reader needs no clock of its own; times at which something happened are told as such.

mod container;
mod find;
mod line;
mod resize;
mod story;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};
use serde::{Deserialize, Serialize};

pub use find::Miss;

/// The node, and one line per pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDocument {
    /// How the runtime fares.
    pub runtime: RuntimeDocument,
    /// Sources of pods that have not been read yet: `file`, `http`, `api`.
    pub unread_sources: Vec<String>,
    /// How many jobs on pods panicked since the start. Each is a bug.
    pub job_panics: u64,
    /// What held up the agent for the longest time since its start; `None` before anything did.
    #[serde(default)]
    pub longest_hold_up: Option<HoldUpDocument>,
    /// The pods, by namespace and name; what is no pod comes last.
    pub pods: Vec<PodLine>,
}

/// One task that kept the agent's only thread from all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldUpDocument {
    /// The kind of task.
    pub task: String,
    /// For how long.
    pub millis: u64,
}

/// How the runtime fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeDocument {
    /// Pods can be worked on.
    pub up: bool,
    /// Why not, or what was wrong lately.
    pub problem: Option<String>,
    /// Why pods that need a network of their own can't be started.
    pub network_problem: Option<String>,
}

/// One pod in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLine {
    /// Namespace; empty for what is no pod.
    pub namespace: String,
    /// Name; for what is no pod, the file or URL that it came from.
    pub name: String,
    /// UID; empty for what is no pod.
    pub uid: String,
    /// How it fares, in one word.
    pub state: PodState,
    /// Where it is in its life on this node; `None` for a pod that has none.
    pub stage: Option<String>,
    /// Why it is in this state, in one word.
    pub reason: Option<String>,
    /// The same in a sentence.
    pub message: Option<String>,
    /// Containers that are ready, of those that stay.
    pub ready: u32,
    /// Containers that stay: the regular ones and sidecars.
    pub total: u32,
    /// How often its containers were restarted.
    pub restarts: u32,
    /// How long it has been known, as far back as anything here tells.
    pub age_seconds: Option<u64>,
    /// Its address.
    pub ip: Option<String>,
}

/// How a pod fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PodState {
    /// An older pod of the same name has not left yet.
    Waiting,
    /// Something has yet to start.
    Pending,
    /// Something runs, or will run again.
    Running,
    /// All ended well.
    Succeeded,
    /// All ended, something badly; or the pod was put to an end.
    Failed,
    /// It is being ended.
    Terminating,
    /// It was ended, and is forgotten when its source lets it go.
    Terminated,
    /// It was refused at the door.
    Rejected,
    /// What was given is no pod that can be run.
    Invalid,
}

impl PodState {
    /// The word.
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

/// All that is known of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodStory {
    /// What a list says of it.
    #[serde(flatten)]
    pub line: PodLine,
    /// Where it came from: `file`, `http`, `api`.
    pub source: Option<String>,
    /// How long it has been in its stage.
    pub stage_seconds: Option<u64>,
    /// What its containers are given to end by themselves, once it is being ended.
    pub grace_seconds: Option<u64>,
    /// What went wrong last, until it goes right.
    pub problem: Option<String>,
    /// How many tries in a row failed.
    pub failures: u32,
    /// What it waits for.
    pub waiting: Option<WaitingDocument>,
    /// How a change of its resources stands, while one does: why it waits, what is being changed.
    pub resize: Vec<String>,
    /// Its containers: init containers and sidecars in order, then the others.
    pub containers: Vec<ContainerStory>,
    /// What happened to it here, by when each thing happened last.
    pub timeline: Vec<Step>,
    /// How many older steps were let go.
    pub steps_dropped: u64,
}

/// What a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingDocument {
    /// What for.
    pub what: String,
    /// For how long it has.
    pub since_seconds: Option<u64>,
    /// In how long it is tried again, where that is known.
    pub until_in_seconds: Option<u64>,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStory {
    /// Name.
    pub name: String,
    /// The part it plays: `init`, `sidecar`, `regular`, `ephemeral`.
    pub role: String,
    /// Image.
    pub image: String,
    /// `Waiting`, `Running` or `Terminated`.
    pub state: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub message: Option<String>,
    /// It is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// How long it has been in this state, where that is known.
    pub since_seconds: Option<u64>,
    /// With what it exited, if it has ended.
    pub exit_code: Option<i32>,
    /// In how long it is started again, if that is waited for.
    pub next_start_in_seconds: Option<u64>,
    /// How its last instance ended.
    pub last_end: Option<EndDocument>,
    /// Its probes that do not pass now.
    pub failing_probes: Vec<ProbeDocument>,
}

/// A probe that does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDocument {
    /// `startup`, `readiness` or `liveness`.
    pub kind: String,
    /// What it said last.
    pub said: String,
    /// How often in a row it failed; 0 if it could not be asked.
    pub times: u32,
}

/// How an instance of a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndDocument {
    /// With what it exited.
    pub exit_code: i32,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Its last words.
    pub message: Option<String>,
    /// How long ago.
    pub seconds_ago: Option<u64>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When it happened last.
    pub at: Timestamp,
    /// When it happened first.
    pub first: Timestamp,
    /// What.
    pub what: String,
    /// How often.
    pub times: u32,
    /// How long it took, where that is known.
    pub took_seconds: Option<f64>,
    /// It went wrong.
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

/// All that is known of the pod that `word` names: its name, `namespace/name`, UID, or enough of one to be unique; for
/// what is no pod, the file or URL.
///
/// # Errors
/// No pod is meant by `word`, or more than one.
pub fn pod_story(view: &NodeView, word: &str) -> Result<PodStory, Miss> {
    let entries = entries(view);
    let lines: Vec<&PodLine> = entries.iter().map(|(_, line)| line).collect();
    let index = find::find(&lines, word)?;
    let mut entries = entries;
    let (entry, line) = entries.swap_remove(index);
    Ok(match entry {
        Entry::Pod(pod) => story::of_pod(view, pod, line),
        Entry::Rejected(rejected) => story::of_rejected(view, rejected, line),
        Entry::Bad(bad) => story::of_bad(bad, line),
    })
}

/// Anything that has a line.
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

/// Whole seconds from `earlier` to `now`; none if the clock was set back in between.
fn seconds_since(now: Timestamp, earlier: Timestamp) -> Option<u64> {
    u64::try_from(now.duration_since(earlier).as_secs()).ok()
}
