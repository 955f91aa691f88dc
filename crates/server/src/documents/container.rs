//! One container.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod,
};
use rubelet_core::pod::PodExt;
use rubelet_core::reason::WaitingReason;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::prober::ProbeTrouble;

use super::story::whole_seconds;
use super::{ContainerFacts, ContainerStory, EndDocument, ProbeDocument, seconds_since};

/// Whether the init container `name` is a sidecar.
pub(super) fn is_sidecar(pod: Option<&Pod>, name: &str) -> bool {
    pod.is_some_and(|p| p.init().iter().any(|c| c.name == name && c.restart_policy.as_deref() == Some("Always")))
}

/// Why a container does not run: a reason, and a message if there is one.
pub(super) fn reason_of(container: &ContainerStatus) -> Option<(String, Option<String>)> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return Some((text(&waiting.reason)?, text(&waiting.message)));
    }
    let ended = state.terminated.as_ref()?;
    Some((end_reason(ended), text(&ended.message)))
}

fn end_reason(ended: &ContainerStateTerminated) -> String {
    match (text(&ended.reason), ended.signal.filter(|signal| *signal != 0)) {
        (Some(reason), _) => reason,
        (None, Some(signal)) => format!("Signal:{signal}"),
        (None, None) => format!("ExitCode:{}", ended.exit_code),
    }
}

/// Whether the container is in back-off.
pub(super) fn backs_off(container: &ContainerStatus) -> bool {
    let reason = container.state.as_ref().and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref());
    [WaitingReason::CrashLoopBackOff, WaitingReason::ImagePullBackOff, WaitingReason::ErrImagePull]
        .iter()
        .any(|known| reason == Some(known.as_str()))
}

/// Every container of the pod, init containers first. `next_look_in` is the next start of a waiting container, unless a more
/// precise time is known.
pub(super) fn stories(view: &WorkerView, now: Timestamp, next_look_in: Option<u64>) -> Vec<ContainerStory> {
    let (pod, status) = (view.spec.as_deref(), &view.status);
    let document = |c: &ContainerStatus, role: &str| {
        let next_start_in = view.next_starts.get(&c.name).map(|left| whole_seconds(*left)).or(next_look_in);
        ContainerStory { failing_probes: failing(view, &c.name), ..story(c, role, now, next_start_in) }
    };
    let init = status.init_container_statuses.iter().flatten();
    let init = init.map(|c| document(c, if is_sidecar(pod, &c.name) { "sidecar" } else { "init" }));
    let regular = status.container_statuses.iter().flatten().map(|c| document(c, "regular"));
    let ephemeral = status.ephemeral_container_statuses.iter().flatten().map(|c| document(c, "ephemeral"));
    init.chain(regular).chain(ephemeral).collect()
}

fn story(container: &ContainerStatus, role: &str, now: Timestamp, next_start_in: Option<u64>) -> ContainerStory {
    let none = ContainerState { waiting: Some(ContainerStateWaiting::default()), ..ContainerState::default() };
    let state = container.state.as_ref().unwrap_or(&none);
    let (name, since) = match (&state.running, &state.terminated) {
        (Some(running), _) => ("Running", running.started_at.as_ref()),
        (None, Some(ended)) => ("Terminated", ended.finished_at.as_ref()),
        (None, None) => ("Waiting", None),
    };
    let (reason, message) = reason_of(container).map_or((None, None), |(reason, message)| (Some(reason), message));
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    ContainerStory {
        name: container.name.clone(),
        role: role.to_owned(),
        image: container.image.clone(),
        state: name.to_owned(),
        reason,
        message,
        ready: container.ready,
        restarts: u32::try_from(container.restart_count).unwrap_or_default(),
        since_seconds: since.and_then(|t| seconds_since(now, t.0)),
        exit_code: state.terminated.as_ref().map(|ended| ended.exit_code),
        next_start_in_seconds: next_start_in.filter(|_| backs_off(container)),
        failing_probes: Vec::new(),
        facts: ContainerFacts::default(),
        last_end: last.map(|ended| EndDocument {
            exit_code: ended.exit_code,
            reason: Some(end_reason(ended)),
            message: text(&ended.message),
            seconds_ago: ended.finished_at.as_ref().and_then(|t| seconds_since(now, t.0)),
        }),
    }
}

fn failing(view: &WorkerView, container: &str) -> Vec<ProbeDocument> {
    let own = view.probe_troubles.iter().filter(|trouble| *trouble.container == *container);
    let document = |trouble: &ProbeTrouble| ProbeDocument {
        kind: trouble.kind.as_str().to_lowercase(),
        said: trouble.said.clone(),
        times: trouble.times,
    };
    own.map(document).collect()
}

fn text(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}
