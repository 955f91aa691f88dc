//! The conditions of a pod (section 11.3).

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use super::{EndProgress, Phase, StatusView, time};
use crate::inputs::PodInputs;
use crate::observe::PodObservation;
use crate::plan::{SandboxNeed, sandbox_need};
use crate::pod::{PodExt, is_sidecar};
use crate::resize::{RESIZE_IN_PROGRESS, RESIZE_PENDING, ResizeCondition};

const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
pub(super) const READY: &str = "Ready";
pub(super) const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const RESTARTING: &str = "AllContainersRestarting";
/// Not ours alone: eviction, preemption and shutdown set it once, and it is kept.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Conditions that nobody but the kubelet writes.
#[doc(alias = "PodConditionByKubelet")]
const OWNED: [&str; 8] =
    [READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, RESIZE_PENDING, RESIZE_IN_PROGRESS, RESTARTING];

/// Nobody but the kubelet writes this condition.
pub(super) fn is_owned(name: &str) -> bool {
    OWNED.contains(&name)
}

/// Conditions of the API's status of `pod` that others write: readiness gates among them.
pub fn foreign_conditions(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).filter(|c| !is_owned(&c.type_))
}

/// All conditions of the pod: others' as read from the API, then ours.
pub(super) fn of(
    view: &StatusView<'_>,
    seen: &PodObservation,
    status: &PodStatus,
    restarting: bool,
) -> Vec<PodCondition> {
    let pod = view.inputs.pod;
    let phase = status.phase.as_deref().and_then(Phase::parse);
    let before = view.previous.conditions.as_deref().unwrap_or_default();
    let from_api = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let mut all: Vec<PodCondition> = from_api.iter().filter(|c| !is_owned(&c.type_)).cloned().collect();
    if view.inputs.end == EndProgress::MayRun {
        all.extend(resizing(view.inputs));
    }
    let kept = || before.iter().find(|c| c.type_ == DISRUPTION_TARGET).cloned();
    let ended = view.inputs.end_reason.and_then(|ended| ended.condition(pod.metadata.generation));
    if let Some(disruption) = ended.or_else(kept) {
        all.retain(|c| c.type_ != DISRUPTION_TARGET);
        all.push(disruption);
    }
    let containers_ready = containers_ready(pod, status, phase);
    let ready = ready(pod, &containers_ready, &all);
    let ours = [
        (READY_TO_START, Verdict::from(matches!(sandbox_need(pod, seen), SandboxNeed::Keep(_)))),
        (INITIALIZED, initialized(pod, before, status, phase, view.inputs.node.gates.restart_all_containers)),
        (READY, ready),
        (CONTAINERS_READY, containers_ready),
        (SCHEDULED, Verdict::from(true)),
    ];
    for (name, verdict) in ours {
        all.push(PodCondition {
            observed_generation: pod.metadata.generation.filter(|g| *g != 0),
            ..verdict.into_condition(name)
        });
    }
    if view.inputs.node.gates.restart_all_containers && could_restart_all(pod) {
        all.push(all_restarting(phase, restarting).into_condition(RESTARTING));
    }
    for condition in &mut all {
        set_transition_time(condition, before, view);
    }
    all
}

/// RSZ-06.
#[doc(alias = "determinePodResizeStatus")]
fn resizing(inputs: &PodInputs<'_>) -> impl Iterator<Item = PodCondition> {
    let condition = |name: &str, of: &ResizeCondition| PodCondition {
        type_: name.to_owned(),
        status: "True".to_owned(),
        reason: Some(of.reason.clone()).filter(|reason| !reason.is_empty()),
        message: Some(of.message.clone()).filter(|message| !message.is_empty()),
        observed_generation: Some(of.generation).filter(|generation| *generation != 0),
        ..PodCondition::default()
    };
    let pending = inputs.resize_pending.map(|of| condition(RESIZE_PENDING, of));
    pending.into_iter().chain(inputs.resize_progress.map(|of| condition(RESIZE_IN_PROGRESS, of)))
}

/// What a condition says.
#[derive(Clone, Debug)]
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Self {
        Self { holds, reason: None, message: None }
    }
}

impl Verdict {
    fn because(holds: bool, reason: &'static str) -> Self {
        Self { holds, reason: Some(reason), message: None }
    }

    fn into_condition(self, name: &str) -> PodCondition {
        PodCondition {
            type_: name.to_owned(),
            status: if self.holds { "True" } else { "False" }.to_owned(),
            reason: self.reason.map(str::to_owned),
            message: self.message,
            ..PodCondition::default()
        }
    }
}

/// The time changes only with the status (PST-20). Conditions of others keep theirs.
fn set_transition_time(condition: &mut PodCondition, before: &[PodCondition], view: &StatusView<'_>) {
    let name = condition.type_.as_str();
    if !is_owned(name) && name != DISRUPTION_TARGET {
        return;
    }
    let old = before.iter().find(|old| old.type_ == name && old.status == condition.status);
    condition.last_transition_time =
        old.and_then(|old| old.last_transition_time.clone()).or_else(|| Some(time(view.now)));
}

fn find<'a>(list: &'a Option<Vec<ContainerStatus>>, name: &str) -> Option<&'a ContainerStatus> {
    list.as_deref().unwrap_or_default().iter().find(|s| s.name == name)
}

/// Names of containers, as Go prints a list of them.
fn sentence(parts: [(&str, Vec<&str>); 2]) -> Option<String> {
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("containers with {what} status: [{}]", names.join(" ")))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn containers_ready(pod: &Pod, status: &PodStatus, phase: Option<Phase>) -> Verdict {
    let sidecars = pod.init().iter().filter(|c| is_sidecar(c));
    let sidecars = sidecars.map(|c| (c.name.as_str(), find(&status.init_container_statuses, &c.name)));
    let regular = pod.regular().iter().map(|c| (c.name.as_str(), find(&status.container_statuses, &c.name)));
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for (name, at) in sidecars.chain(regular) {
        match at {
            None => unknown.push(name),
            Some(at) if !at.ready => unready.push(name),
            Some(_) => {}
        }
    }
    match phase {
        Some(Phase::Succeeded) if unknown.is_empty() => return Verdict::because(false, "PodCompleted"),
        Some(Phase::Failed) => return Verdict::because(false, "PodFailed"),
        Some(Phase::Pending | Phase::Running | Phase::Succeeded) | None => {}
    }
    match sentence([("unknown", unknown), ("unready", unready)]) {
        Some(message) => Verdict { message: Some(message), ..Verdict::because(false, "ContainersNotReady") },
        None => Verdict::from(true),
    }
}

/// Every container is ready, and so are the gates that others hold.
fn ready(pod: &Pod, containers_ready: &Verdict, conditions: &[PodCondition]) -> Verdict {
    if !containers_ready.holds {
        return containers_ready.clone();
    }
    let gates = pod.spec.as_ref().and_then(|s| s.readiness_gates.as_deref()).unwrap_or_default();
    let missing: Vec<String> = gates
        .iter()
        .filter_map(|gate| {
            let gate = &gate.condition_type;
            match conditions.iter().find(|c| c.type_ == *gate) {
                None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
                Some(c) if c.status != "True" => {
                    Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {}", c.status))
                }
                Some(_) => None,
            }
        })
        .collect();
    if missing.is_empty() {
        return Verdict::from(true);
    }
    Verdict { message: Some(missing.join(", ")), ..Verdict::because(false, "ReadinessGatesNotReady") }
}

fn initialized(pod: &Pod, before: &[PodCondition], status: &PodStatus, phase: Option<Phase>, keep: bool) -> Verdict {
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in pod.init() {
        match find(&status.init_container_statuses, &container.name) {
            None => unknown.push(container.name.as_str()),
            Some(at) => {
                let done = if is_sidecar(container) { at.started == Some(true) } else { at.ready };
                if !done {
                    incomplete.push(container.name.as_str());
                }
            }
        }
    }
    if phase == Some(Phase::Succeeded) && unknown.is_empty() {
        return Verdict::because(true, "PodCompleted");
    }
    // A regular container that has run proves it, even while a sidecar restarts.
    let has_run = |at: &ContainerStatus| {
        at.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if status.container_statuses.iter().flatten().any(has_run) {
        return Verdict::from(true);
    }
    let Some(message) = sentence([("unknown", unknown), ("incomplete", incomplete)]) else {
        return Verdict::from(true);
    };
    // Once initialised, a pod stays so, even while all its containers restart.
    if keep && before.iter().any(|c| c.type_ == INITIALIZED && c.status == "True") {
        return Verdict::from(true);
    }
    Verdict { message: Some(message), ..Verdict::because(false, "ContainersNotInitialized") }
}

/// Some rule of the pod can restart all of it.
#[doc(alias = "AllContainersCouldRestart")]
fn could_restart_all(pod: &Pod) -> bool {
    let mut rules =
        pod.init().iter().chain(pod.regular()).flat_map(|c| c.restart_policy_rules.as_deref().unwrap_or_default());
    rules.any(|rule| rule.action == "RestartAllContainers")
}

/// The status says that every container of the pod is being restarted.
pub(super) fn said_to_restart(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == RESTARTING && c.status == "True")
}

fn all_restarting(phase: Option<Phase>, restarting: bool) -> Verdict {
    match phase {
        Some(Phase::Succeeded) => Verdict::because(false, "PodCompleted"),
        Some(Phase::Failed) => Verdict::because(false, "PodFailed"),
        Some(Phase::Pending | Phase::Running) | None if !restarting => Verdict::from(false),
        Some(Phase::Pending | Phase::Running) | None => Verdict {
            message: Some("container exited with restart policy rule".to_owned()),
            ..Verdict::because(true, "RestartAllContainersStarted")
        },
    }
}
