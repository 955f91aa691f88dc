//! The details of one pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerStatus;
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::PodExt;
use rubelet_core::time::Instant;
use rubelet_core::timeline::Entry;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};

use super::container::{backs_off, is_sidecar, stories};
use super::{PodLine, PodState, PodStory, Step, WaitingDocument, resize, seconds_since};

pub(super) fn of_pod(view: &NodeView, pod: &WorkerView, line: PodLine) -> PodStory {
    let now = view.now.mono;
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
    PodStory {
        source: pod.spec.as_ref().and_then(|p| p.source()).map(|source| source.as_str().to_owned()),
        stage_seconds: since.map(|since| now.since(since).as_secs()),
        grace_seconds: grace,
        problem: pod.problem.clone(),
        failures: pod.failures,
        waiting: waiting(view, pod, &line),
        resize: resize::resize_state(pod.spec.as_deref(), &pod.status),
        containers: stories(pod, view.now.wall, next_look),
        timeline: pod.timeline.entries().map(step).collect(),
        steps_dropped: pod.timeline.dropped(),
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
    }
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
