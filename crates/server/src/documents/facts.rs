//! What explains a pod beyond its state: where it is on this node, which calls and pulls are open, how its probes are set and
//! what they answered, what keeps its object.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::Verdict;
use rubelet_core::pod::PodExt;
use rubelet_core::probe::{ProbeKind, Timing};
use rubelet_core::qos::{CgroupTree, qos_class};
use rubelet_core::time::Now;
use rubelet_engine::images::PullView;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::UnansweredCall;
use rubelet_engine::prober::{ProbeHistory, ProbeRun};
use serde::{Deserialize, Serialize};

use super::{ContainerStory, seconds_since};

/// A call that is open for less than this is work, not waiting.
const SLOW: Duration = Duration::from_secs(2);

/// What other owners than the sync loop know about pods.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Names the cgroup of each pod.
    pub tree: Option<CgroupTree>,
    /// The pulls that run and wait, in their order.
    pub pulls: Vec<PullView>,
    /// The calls to the runtime that are not answered yet.
    pub calls: Vec<UnansweredCall>,
    /// The last results of the pod's probes.
    pub probes: Vec<ProbeHistory>,
}

/// Facts about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFacts {
    /// Quality of service class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Its cgroup, below the root of the hierarchy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The runtime's id of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// Finalizers of its object: the object stays until their owners have removed them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Calls to the runtime about this pod that are not answered yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallDocument>,
    /// Images of this pod that are pulled, or that wait to be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pulls: Vec<PullDocument>,
    /// For a pod that is gone from this node: how long it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_seconds: Option<u64>,
}

/// A call to the runtime that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDocument {
    /// Its name, such as `stop_container`.
    pub operation: String,
    /// The container, or the id of what it is about.
    pub subject: String,
    /// How long it has been open.
    pub since_seconds: u64,
    /// When it is given up.
    pub until_in_seconds: u64,
}

/// An image that is pulled, or that waits to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullDocument {
    /// The image.
    pub image: String,
    /// How long the runtime has been pulling it; `None` while it waits.
    pub pulling_seconds: Option<u64>,
    /// How long ago it was asked for.
    pub asked_seconds: u64,
    /// While it waits: the images before it, those that are pulled now first.
    pub behind: Vec<String>,
}

/// Facts about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerFacts {
    /// The runtime's id of the present instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its log file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_path: Option<String>,
    /// Its probes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeFacts>,
}

/// How a probe is set, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// `startup`, `readiness` or `liveness`.
    pub kind: String,
    /// What it asks and when, in words.
    pub settings: String,
    /// Its results since the start of the agent, oldest first, in words; equal ones in a row are one.
    pub history: Vec<String>,
}

/// The facts about a pod.
pub(super) fn of_pod(pod: &WorkerView, extras: &Extras, now: Now) -> PodFacts {
    let (spec, seen) = (pod.spec.as_deref(), pod.seen.as_deref());
    PodFacts {
        qos: spec.map(|spec| qos_class(spec).as_str().to_owned()),
        cgroup: spec.zip(extras.tree.as_ref()).map(|(spec, tree)| tree.literal(&tree.of_pod(spec))),
        sandbox_id: seen.and_then(|seen| seen.sandboxes.first()).map(|sandbox| sandbox.id.to_string()),
        finalizers: spec.and_then(|spec| spec.metadata.finalizers.clone()).unwrap_or_default(),
        calls: calls(pod, extras, now),
        pulls: pulls(pod, extras, now),
        gone_seconds: None,
    }
}

/// The open calls about this pod, the oldest first.
fn calls(pod: &WorkerView, extras: &Extras, now: Now) -> Vec<CallDocument> {
    let seen = pod.seen.as_deref();
    let mut calls: Vec<&UnansweredCall> = extras.calls.iter().filter(|call| is_about(call, pod, seen)).collect();
    calls.sort_by_key(|call| call.since);
    let document = |call: &UnansweredCall| CallDocument {
        operation: call.operation.to_owned(),
        subject: subject(call, seen),
        since_seconds: now.mono.since(call.since).as_secs(),
        until_in_seconds: call.until.since(now.mono).as_secs(),
    };
    calls.into_iter().map(document).collect()
}

fn is_about(call: &UnansweredCall, pod: &WorkerView, seen: Option<&PodObservation>) -> bool {
    let of_seen = |seen: &PodObservation| {
        seen.containers.iter().any(|container| container.id.as_str() == call.subject)
            || seen.sandboxes.iter().any(|sandbox| sandbox.id.as_str() == call.subject)
    };
    call.subject == pod.pod.uid.as_str() || seen.is_some_and(of_seen)
}

/// The name of the container, or the sandbox.
fn subject(call: &UnansweredCall, seen: Option<&PodObservation>) -> String {
    let container = seen.and_then(|seen| seen.containers.iter().find(|one| one.id.as_str() == call.subject));
    container.map_or_else(|| "its sandbox".to_owned(), |container| format!("container {}", container.name))
}

/// A call that has been open for long enough to be what the pod waits for.
pub(super) fn slow_call(facts: &PodFacts) -> Option<&CallDocument> {
    facts.calls.iter().find(|call| call.since_seconds >= SLOW.as_secs())
}

fn pulls(pod: &WorkerView, extras: &Extras, now: Now) -> Vec<PullDocument> {
    let of_pod = |(_, pull): &(usize, &PullView)| pull.pod == pod.pod.uid.as_str();
    let document = |(place, pull): (usize, &PullView)| PullDocument {
        image: pull.image.clone(),
        pulling_seconds: pull.began.map(|began| now.mono.since(began).as_secs()),
        asked_seconds: now.mono.since(pull.asked).as_secs(),
        behind: match pull.began {
            Some(_) => Vec::new(),
            None => extras.pulls.iter().take(place).map(|before| before.image.clone()).collect(),
        },
    };
    extras.pulls.iter().enumerate().filter(of_pod).map(document).collect()
}

/// Adds the facts about each container.
pub(super) fn add_to_containers(pod: &WorkerView, extras: &Extras, stories: &mut [ContainerStory], now: Timestamp) {
    let spec = pod.spec.as_deref();
    for story in stories {
        let seen = pod.seen.as_deref().and_then(|seen| seen.current(&story.name));
        let container = spec.and_then(|spec| container(spec, &story.name));
        story.facts = ContainerFacts {
            id: seen.map(|seen| seen.id.to_string()),
            log_path: seen.map(|seen| seen.log_path.clone()).filter(|path| !path.is_empty()),
            probes: container.map(|container| probes(container, &extras.probes, now)).unwrap_or_default(),
        };
    }
}

fn container<'a>(spec: &'a Pod, name: &str) -> Option<&'a Container> {
    spec.init().iter().chain(spec.regular()).find(|container| container.name == name)
}

fn probes(container: &Container, histories: &[ProbeHistory], now: Timestamp) -> Vec<ProbeFacts> {
    let facts = |kind: ProbeKind| {
        let probe = kind.of(container)?;
        let of_kind = histories.iter().find(|history| *history.container == *container.name && history.kind == kind);
        Some(ProbeFacts {
            kind: kind.as_str().to_lowercase(),
            settings: settings(&Timing::of(probe), what_it_asks(probe)),
            history: of_kind
                .map(|history| history.runs.iter().map(|run| words(run, now)).collect())
                .unwrap_or_default(),
        })
    };
    ProbeKind::ALL.into_iter().filter_map(facts).collect()
}

fn what_it_asks(probe: &k8s_openapi::api::core::v1::Probe) -> &'static str {
    match (&probe.http_get, &probe.tcp_socket, &probe.grpc, &probe.exec) {
        (Some(_), _, _, _) => "HTTP",
        (_, Some(_), _, _) => "TCP",
        (_, _, Some(_), _) => "gRPC",
        (_, _, _, Some(_)) => "a command",
        (None, None, None, None) => "nothing",
    }
}

/// `HTTP every 10 s after 5 s, timeout 1 s; 3 failures or 1 success in a row count`.
fn settings(timing: &Timing, asks: &str) -> String {
    let Timing { initial_delay, period, timeout, success_threshold, failure_threshold } = timing;
    let delay = match initial_delay.as_secs() {
        0 => String::new(),
        seconds => format!(" after {seconds} s"),
    };
    format!(
        "{asks} every {} s{delay}, timeout {} s; {failure_threshold} failed or {success_threshold} passed in a row count",
        period.as_secs(),
        timeout.as_secs()
    )
}

/// `passed 120 times, last 3 s ago`.
fn words(run: &ProbeRun, now: Timestamp) -> String {
    let result = match run.result {
        Some(Verdict::Success) => "passed",
        Some(Verdict::Failure) => "failed",
        Some(_) | None => "could not be run",
    };
    let times = if run.times == 1 { "once".to_owned() } else { format!("{} times", run.times) };
    match seconds_since(now, run.last) {
        Some(seconds) => format!("{result} {times}, last {seconds} s ago"),
        None => format!("{result} {times}"),
    }
}
