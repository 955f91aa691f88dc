//! The details of one pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerStatus;
use rubelet_core::ended::EndedPod;
use rubelet_core::id::PodRef;
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::PodExt;
use rubelet_core::time::{Instant, Now};
use rubelet_core::timeline::{Entry, Timeline};
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};

use super::container::{backs_off, is_sidecar, stories};
use super::facts;
use super::{Extras, PodFacts, PodLine, PodState, PodStory, Step, WaitingDocument, resize, seconds_since};

pub(super) fn of_pod(view: &NodeView, pod: &WorkerView, line: PodLine, extras: &Extras) -> PodStory {
    let now = view.now.mono;
    let facts = facts::of_pod(pod, extras, view.now);
    let since = match &pod.stage {
        Stage::Waiting => Some(pod.arrived.mono),
        Stage::Syncing { since } | Stage::Terminating { since, .. } | Stage::Terminated { since, .. } => Some(*since),
        Stage::Finished => None,
    };
    let grace = match &pod.stage {
        Stage::Terminating { grace, .. } => Some(grace.get().as_secs()),
        Stage::Waiting | Stage::Syncing { .. } | Stage::Terminated { .. } | Stage::Finished => None,
    };
    let next_look = pod.next_look.map(|at| until(now, at));
    let mut containers = stories(pod, view.now.wall, next_look);
    facts::add_to_containers(pod, extras, &mut containers, view.now.wall);
    PodStory {
        source: pod.spec.as_ref().and_then(|p| p.source()).map(|source| source.as_str().to_owned()),
        stage_seconds: since.map(|since| now.since(since).as_secs()),
        grace_seconds: grace,
        problem: pod.problem.clone(),
        failures: pod.failures,
        waiting: outside(view, pod, &facts).or_else(|| waiting(view, pod, &line)),
        resize: resize::resize_state(pod.spec.as_deref(), &pod.status),
        containers,
        timeline: pod.timeline.entries().map(step).collect(),
        steps_dropped: pod.timeline.dropped(),
        facts,
        line,
    }
}

pub(super) fn of_rejected(view: &NodeView, rejected: &Rejected, line: PodLine) -> PodStory {
    let at = rejected.status.start_time.as_ref().map_or(view.now.wall, |t| t.0);
    let what = rejected.status.message.clone().unwrap_or_else(|| "Rejected".to_owned());
    PodStory {
        source: rejected.pod.source().map(|source| source.as_str().to_owned()),
        problem: rejected.status.message.clone(),
        timeline: vec![Step { at, first: at, what, times: 1, took_seconds: None, bad: true }],
        ..bare(line)
    }
}

pub(super) fn of_bad(bad: &BadPod, line: PodLine) -> PodStory {
    PodStory { problem: Some(bad.problem.clone()), ..bare(line) }
}

/// The details of a pod without a life cycle on this node.
fn bare(line: PodLine) -> PodStory {
    PodStory {
        line,
        source: None,
        stage_seconds: None,
        grace_seconds: None,
        problem: None,
        failures: 0,
        waiting: None,
        resize: Vec::new(),
        containers: Vec::new(),
        timeline: Vec::new(),
        steps_dropped: 0,
        facts: PodFacts::default(),
    }
}

/// A pod that has ended, as its worker showed it last.
pub(super) fn before_its_end(ended: &EndedPod) -> WorkerView {
    let mut timeline = Timeline::default();
    for entry in &ended.timeline {
        timeline.add(entry.clone());
    }
    WorkerView {
        pod: PodRef {
            namespace: ended.namespace.as_str().into(),
            name: ended.name.as_str().into(),
            uid: ended.uid.as_str().into(),
        },
        spec: None,
        stage: Stage::Finished,
        status: Arc::new(ended.status.clone()),
        arrived: Now { mono: Instant::START, wall: ended.arrived },
        waiting: None,
        next_look: None,
        problem: None,
        timeline,
        failures: 0,
        probe_troubles: Vec::new(),
        next_starts: BTreeMap::new(),
        seen: None,
    }
}

/// What somebody else has to do before the pod goes on: the runtime answers a call, other images are pulled first, the owner
/// of a finalizer removes it.
fn outside(view: &NodeView, pod: &WorkerView, facts: &PodFacts) -> Option<WaitingDocument> {
    let over = matches!(pod.stage, Stage::Finished | Stage::Terminated { .. });
    let deleted = pod.spec.as_ref().filter(|spec| spec.is_deleted());
    if let Some(spec) = deleted.filter(|_| over && !facts.finalizers.is_empty()) {
        let since = spec.metadata.deletion_timestamp.as_ref();
        let what = match &facts.finalizers[..] {
            [one] => {
                format!("the finalizer {one} to be removed by its owner: until then the API server keeps the object")
            }
            all => format!(
                "the finalizers {} to be removed by their owners: until then the API server keeps the object",
                all.join(", ")
            ),
        };
        let since_seconds = since.and_then(|since| seconds_since(view.now.wall, since.0));
        return Some(WaitingDocument { what, since_seconds, until_in_seconds: None });
    }
    if let Some(call) = facts::slow_call(facts).filter(|_| view.runtime.up) {
        return Some(WaitingDocument {
            what: format!("the runtime to answer {} of {}", call.operation, call.subject),
            since_seconds: Some(call.since_seconds),
            until_in_seconds: Some(call.until_in_seconds),
        });
    }
    let pull = facts.pulls.first().filter(|_| view.runtime.up)?;
    let what = match (pull.pulling_seconds, pull.behind.len()) {
        (Some(_), _) => format!("image {} to be pulled", pull.image),
        (None, 0) => format!("image {}: its pull begins", pull.image),
        (None, before) => {
            format!("image {}: queued behind {before} other pulls, now {}", pull.image, pull.behind.join(", "))
        }
    };
    let since = pull.pulling_seconds.unwrap_or(pull.asked_seconds);
    Some(WaitingDocument { what, since_seconds: Some(since), until_in_seconds: None })
}

/// What the pod waits for, nearest cause first; `None` if it waits for nothing.
pub(super) fn waiting(view: &NodeView, pod: &WorkerView, line: &PodLine) -> Option<WaitingDocument> {
    let now = view.now;
    if pod.stage == Stage::Finished {
        return None;
    }
    if !view.runtime.up {
        let problem = view.runtime.problem.as_deref().unwrap_or("it has not answered yet");
        let what = format!("the container runtime: {problem}");
        return Some(WaitingDocument { what, since_seconds: None, until_in_seconds: None });
    }
    if let Some(waiting) = &pod.waiting {
        return Some(WaitingDocument {
            what: waiting.what.clone(),
            since_seconds: Some(now.mono.since(waiting.since).as_secs()),
            until_in_seconds: waiting.until.map(|at| until(now.mono, at)),
        });
    }
    let all = || pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses).flatten();
    let backing_off: Vec<&ContainerStatus> = all().filter(|c| backs_off(c)).collect();
    if let Some(first) = backing_off.first() {
        let ended = first.last_state.as_ref().and_then(|s| s.terminated.as_ref()?.finished_at.as_ref());
        return Some(WaitingDocument {
            what: format!("the next start of {}", names(&backing_off)),
            since_seconds: ended.and_then(|t| seconds_since(now.wall, t.0)),
            until_in_seconds: next_start(view, pod, &backing_off),
        });
    }
    if let Some(initialising) = initialising(view, pod) {
        return Some(initialising);
    }
    let runs = |c: &ContainerStatus| c.state.as_ref().is_some_and(|s| s.running.is_some());
    let regular = || pod.status.container_statuses.iter().flatten();
    let unready: Vec<&ContainerStatus> = regular().filter(|c| runs(c) && !c.ready).collect();
    if line.state == PodState::Running && !unready.is_empty() {
        let since = pod.status.conditions.iter().flatten().find(|c| c.type_ == "Ready");
        let since = since.and_then(|c| c.last_transition_time.as_ref());
        return Some(WaitingDocument {
            what: format!("{} to become ready", names(&unready)),
            since_seconds: since.and_then(|t| seconds_since(now.wall, t.0)),
            until_in_seconds: None,
        });
    }
    None
}

/// Time to the first restart: the end of the container's back-off, or the next sync.
fn next_start(view: &NodeView, pod: &WorkerView, waiting: &[&ContainerStatus]) -> Option<u64> {
    let known = waiting.iter().filter_map(|c| pod.next_starts.get(&c.name)).min();
    known.map(|left| whole_seconds(*left)).or_else(|| pod.next_look.map(|at| until(view.now.mono, at)))
}

/// The init container that the others wait for, with its position.
fn initialising(view: &NodeView, pod: &WorkerView) -> Option<WaitingDocument> {
    let init = pod.status.init_container_statuses.as_deref().unwrap_or_default();
    if pod.stage.is_past_syncing() {
        return None;
    }
    let (place, open) = init.iter().enumerate().find_map(|(index, container)| {
        let state = container.state.as_ref()?;
        let sidecar = is_sidecar(pod.spec.as_deref(), &container.name);
        let runs = state.running.as_ref().filter(|_| !(sidecar && container.started == Some(true)))?;
        Some((index + 1, (container, sidecar, runs)))
    })?;
    let (container, sidecar, runs) = open;
    let (role, what) = if sidecar { ("sidecar", "have started") } else { ("init container", "end") };
    Some(WaitingDocument {
        what: format!("{role} {} to {what} ({place} of {})", container.name, init.len()),
        since_seconds: runs.started_at.as_ref().and_then(|t| seconds_since(view.now.wall, t.0)),
        until_in_seconds: None,
    })
}

fn names(containers: &[&ContainerStatus]) -> String {
    let names: Vec<&str> = containers.iter().map(|c| c.name.as_str()).collect();
    format!("container{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// Seconds until `at`, rounded up.
fn until(now: Instant, at: Instant) -> u64 {
    whole_seconds(at.since(now))
}

pub(super) fn whole_seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

fn step(entry: &Entry) -> Step {
    Step {
        at: entry.at,
        first: entry.first,
        what: entry.what.clone(),
        times: entry.times,
        took_seconds: entry.took.map(|took| took.as_secs_f64()),
        bad: entry.bad,
    }
}
