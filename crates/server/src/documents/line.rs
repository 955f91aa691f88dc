//! One line per pod.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use rubelet_core::id::PodRef;
use rubelet_core::lifecycle::{Cause, Stage};
use rubelet_core::pod::PodExt;
use rubelet_core::status::Phase;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::BadPod;
use rubelet_engine::sync_loop::{NodeView, Rejected};

use super::container::{is_sidecar, reason_of};
use super::{PodLine, PodState, seconds_since};

/// The reason of an invalid manifest.
const INVALID: &str = "InvalidManifest";

pub(super) fn of_pod(view: &NodeView, pod: &WorkerView) -> PodLine {
    let status = &pod.status;
    let state = state(pod);
    let (reason, message) = reason(pod.spec.as_deref(), status, &pod.stage);
    let seen = [
        pod.spec.as_ref().and_then(|p| p.metadata.creation_timestamp.as_ref()).map(|t| t.0),
        status.start_time.as_ref().map(|t| t.0),
        status.container_statuses.iter().flatten().filter_map(running_since).min(),
        Some(pod.arrived.wall),
    ];
    let born = seen.into_iter().flatten().min();
    PodLine {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.pod.uid.to_string(),
        state,
        stage: Some(pod.stage.word().to_owned()),
        reason,
        message: message.or_else(|| pod.problem.clone()),
        ready: count(staying(pod.spec.as_deref(), status).filter(|c| c.ready)),
        total: total(pod.spec.as_deref(), status),
        restarts: restarts(pod.spec.as_deref(), status),
        age_seconds: born.map(|born| seconds_since(view.now.wall, born).unwrap_or_default()),
        ip: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
    }
}

pub(super) fn of_rejected(view: &NodeView, rejected: &Rejected) -> PodLine {
    let reference = PodRef::of(&rejected.pod);
    let since = rejected.status.start_time.as_ref().and_then(|t| seconds_since(view.now.wall, t.0));
    PodLine {
        namespace: reference.namespace.to_string(),
        name: reference.name.to_string(),
        uid: reference.uid.to_string(),
        state: PodState::Rejected,
        stage: None,
        reason: rejected.status.reason.clone(),
        message: rejected.status.message.clone(),
        ready: 0,
        total: total(Some(&rejected.pod), &rejected.status),
        restarts: 0,
        age_seconds: since,
        ip: None,
    }
}

pub(super) fn of_bad(bad: &BadPod) -> PodLine {
    PodLine {
        namespace: String::new(),
        name: bad.origin.clone(),
        uid: String::new(),
        state: PodState::Invalid,
        stage: None,
        reason: Some(INVALID.to_owned()),
        message: Some(bad.problem.clone()),
        ready: 0,
        total: 0,
        restarts: 0,
        age_seconds: None,
        ip: None,
    }
}

/// The phase of a pod that ended by itself; a pod that is being terminated is `Terminating` until its phase is terminal.
fn state(pod: &WorkerView) -> PodState {
    let phase = pod.status.phase.as_deref().and_then(Phase::parse).unwrap_or(Phase::Pending);
    match (&pod.stage, phase) {
        (Stage::Waiting, _) => PodState::Waiting,
        (_, Phase::Succeeded) => PodState::Succeeded,
        (_, Phase::Failed) => PodState::Failed,
        (Stage::Syncing { .. }, Phase::Pending) => PodState::Pending,
        (Stage::Syncing { .. }, Phase::Running) => PodState::Running,
        (Stage::Terminating { .. } | Stage::Terminated { .. }, Phase::Pending | Phase::Running) => {
            PodState::Terminating
        }
        (Stage::Finished, Phase::Pending | Phase::Running) => PodState::Terminated,
    }
}

/// The pod's own reason; else the cause of its termination; else the reason of the first abnormal container, as in
/// `kubectl get pods`. upstream: kubectl pkg/printers/internalversion/printers.go printPod (v1.36)
fn reason(pod: Option<&Pod>, status: &PodStatus, stage: &Stage) -> (Option<String>, Option<String>) {
    if let Some(reason) = status.reason.clone().filter(|r| !r.is_empty()) {
        return (Some(reason), status.message.clone().filter(|m| !m.is_empty()));
    }
    if let Some(cause) = stage.cause().and_then(cause_reason) {
        return (Some(cause.to_owned()), None);
    }
    if let Some((init, message)) = init_reason(pod, status) {
        return (Some(init), message);
    }
    let all = || status.container_statuses.iter().flatten();
    let runs = all().any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()));
    // While a container runs, the completion of others is normal.
    let odd = all().find_map(|c| reason_of(c).filter(|(reason, _)| !(runs && reason == "Completed")));
    odd.map_or((None, None), |(reason, message)| (Some(reason), message))
}

/// Why the pod is not initialized, if it is not.
fn init_reason(pod: Option<&Pod>, status: &PodStatus) -> Option<(String, Option<String>)> {
    let (index, waits) = first_unfinished_init(pod, status)?;
    match reason_of(waits).filter(|(reason, _)| reason != "PodInitializing") {
        Some((reason, message)) => Some((format!("Init:{reason}"), message)),
        None => Some((format!("Init:{index}/{}", pod.map_or(0, |p| p.init().len())), None)),
    }
}

fn first_unfinished_init<'a>(pod: Option<&Pod>, status: &'a PodStatus) -> Option<(usize, &'a ContainerStatus)> {
    status.init_container_statuses.iter().flatten().enumerate().find(|(_, c)| {
        let ended_well = c.state.as_ref().and_then(|s| s.terminated.as_ref()).is_some_and(|ended| ended.exit_code == 0);
        let stays = is_sidecar(pod, &c.name) && c.started == Some(true);
        !ended_well && !stays
    })
}

fn cause_reason(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Deleted => Some("Deleted"),
        Cause::Removed => Some("Removed"),
        Cause::Evicted => Some("Evicted"),
        Cause::NodeShutdown => Some("NodeShutdown"),
        Cause::Orphaned => Some("Orphaned"),
        // The containers have the reason.
        Cause::Ended => None,
    }
}

fn running_since(container: &ContainerStatus) -> Option<jiff::Timestamp> {
    Some(container.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
}

/// Statuses of regular containers and sidecars.
fn staying<'a>(pod: Option<&'a Pod>, status: &'a PodStatus) -> impl Iterator<Item = &'a ContainerStatus> {
    let sidecars = status.init_container_statuses.iter().flatten().filter(move |c| is_sidecar(pod, &c.name));
    sidecars.chain(status.container_statuses.iter().flatten())
}

fn total(pod: Option<&Pod>, status: &PodStatus) -> u32 {
    match pod {
        None => count(staying(pod, status)),
        Some(spec) => count(spec.regular().iter().chain(spec.init().iter().filter(|c| is_sidecar(pod, &c.name)))),
    }
}

/// Until the pod is initialized, restarts of init containers count as well.
fn restarts(pod: Option<&Pod>, status: &PodStatus) -> u32 {
    let sum = |all: &mut dyn Iterator<Item = &ContainerStatus>| {
        all.fold(0_u32, |sum, c| sum.saturating_add(u32::try_from(c.restart_count).unwrap_or_default()))
    };
    match first_unfinished_init(pod, status) {
        Some(_) => sum(&mut status.init_container_statuses.iter().flatten()),
        None => sum(&mut staying(pod, status)),
    }
}

fn count<T>(all: impl Iterator<Item = T>) -> u32 {
    u32::try_from(all.count()).unwrap_or(u32::MAX)
}
