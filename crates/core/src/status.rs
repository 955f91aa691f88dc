//! The API's status of a pod, decided from what was seen (section 11).
//!
//! A pure function of the pod, what the runtime said, the status before, the failures to start and the probes. It never
//! takes a terminal phase back, and deciding again from its own answer changes nothing.
//! upstream: `kubelet_pods.go` `generateAPIPodStatus`, `status/generate.go` (v1.36)

mod adopt;
mod conditions;
mod containers;
mod deadline;
mod ending;
mod finish;
mod instance;
mod ips;
mod merge;
mod message;
mod normalise;
mod patch;
mod phase;
mod readiness;
mod rejected;
mod resources;
mod write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;

use crate::inputs::PodInputs;
use crate::observe::PodObservation;
use crate::plan::{is_abandoned, restarts_all};
use crate::qos::qos_class;

pub use adopt::adopt;
pub use conditions::foreign_conditions;
pub use containers::ContainerList;
pub use deadline::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, deadline_left};
pub use ending::EndReason;
pub use merge::merge;
pub use message::{
    MAX_LOG_BYTES, MAX_LOG_LINES, MAX_MESSAGE_BYTES, MAX_POD_MESSAGE_BYTES, complete_message, cut, message_share,
    wants_log_tail,
};
pub use normalise::normalise;
pub use patch::status_patch;
pub use phase::{Phase, PhaseFacts, pod_phase};
pub use rejected::{is_settled, is_terminal, rejected};
pub use write::{EndProgress, Write, WriteInputs, next_write};

/// The inputs of a status, with the status before and the time.
#[derive(Clone, Copy)]
struct StatusView<'a> {
    inputs: &'a PodInputs<'a>,
    /// The status last decided here, or read from the API after a restart.
    previous: &'a PodStatus,
    now: Timestamp,
}

/// The status of the pod: the only function that makes the status of a pod that was admitted.
///
/// `previous` is the status last decided here, or the one read from the API after a restart. The status is final once
/// `inputs.end` says that no container runs; what is still open in it is closed when nothing is left of the pod (STAT-10).
#[doc(alias = "generateAPIPodStatus")]
pub fn pod_status(inputs: &PodInputs<'_>, seen: &PodObservation, previous: &PodStatus, now: Timestamp) -> PodStatus {
    let view = &StatusView { inputs, previous, now };
    let pod = inputs.pod;
    let (old, api) = (previous, pod.status.as_ref());
    let gates = inputs.node.gates;
    // The whole pod starts over as long as the end that called for it is there to be seen; what went with it was cleared
    // away for the same reason.
    let starts_over = restarts_all(pod, seen, gates);
    let restarting = starts_over || (conditions::said_to_restart(old) && gates.restart_all_containers);
    let mut status = PodStatus {
        container_statuses: Some(containers::statuses(view, seen, ContainerList::Regular, restarting)),
        init_container_statuses: containers::statuses_or_none(view, seen, ContainerList::Init, restarting),
        ephemeral_container_statuses: containers::statuses_or_none(view, seen, ContainerList::Ephemeral, restarting),
        qos_class: Some(qos_class(pod).as_str().to_owned()),
        resources: Some(resources::of_pod(pod, inputs.actuated.map(AsRef::as_ref))),
        allocated_resources: resources::requested_by_pod(pod),
        start_time: old.start_time.clone().or_else(|| api.and_then(|s| s.start_time.clone())).or(Some(time(now))),
        observed_generation: pod.metadata.generation.max(old.observed_generation).filter(|g| *g != 0),
        ..kept(old, api)
    };
    ips::set(view, seen, &mut status);
    readiness::set(view, &mut status);
    decide_phase(view, seen, &mut status);
    status.conditions = Some(conditions::of(view, seen, &status, starts_over));
    if inputs.end == EndProgress::Finished {
        finish::finish(pod, &mut status);
    }
    status
}

/// What others write and we only carry: claims and the like (STAT-06).
fn kept(old: &PodStatus, api: Option<&PodStatus>) -> PodStatus {
    let from = api.unwrap_or(old);
    PodStatus {
        resource_claim_statuses: from.resource_claim_statuses.clone(),
        extended_resource_claim_status: from.extended_resource_claim_status.clone(),
        node_allocatable_resource_claim_statuses: from.node_allocatable_resource_claim_statuses.clone(),
        nominated_node_name: from.nominated_node_name.clone(),
        ..PodStatus::default()
    }
}

/// Phase, reason and message (PST-10 … PST-12).
fn decide_phase(view: &StatusView<'_>, seen: &PodObservation, status: &mut PodStatus) {
    let PodInputs { pod, end, end_reason, node, .. } = *view.inputs;
    let (old, api) = (view.previous, pod.status.as_ref());
    let old_phase = old.phase.as_deref().and_then(Phase::parse);
    let api_phase = api.and_then(|s| s.phase.as_deref()).and_then(Phase::parse);
    let facts = PhaseFacts {
        terminal: end != EndProgress::MayRun,
        initialised: phase::has_active_regular(pod, seen),
        abandoned: is_abandoned(pod, seen) && !restarts_all(pod, seen, node.gates),
        gates: node.gates,
    };
    let computed = pod_phase(pod, status, facts);
    // A terminal phase is for ever. What the API server has shown to others comes first, then what we decided.
    let terminal = |phase: Option<Phase>| phase.filter(|p| p.is_terminal());
    let mut phase = terminal(api_phase).or(terminal(old_phase)).unwrap_or(computed);
    // Reason and message belong to the phase, and stay as long as it does.
    let own = Some(old).filter(|_| old_phase == Some(phase));
    let shown = api.filter(|_| own.is_some() || api_phase == Some(phase));
    let said = |text: fn(&PodStatus) -> &Option<String>| {
        own.and_then(|s| text(s).clone()).or_else(|| shown.and_then(|s| text(s).clone()))
    };
    status.reason = said(|s| &s.reason);
    status.message = said(|s| &s.message);
    let overdue = deadline_left(pod, status.start_time.as_ref().map(|t| t.0), view.now);
    if !phase.is_terminal() && overdue.is_some_and(|left| left.is_zero()) {
        phase = Phase::Failed;
        status.reason = Some(DEADLINE_EXCEEDED.to_owned());
        status.message = Some(DEADLINE_MESSAGE.to_owned());
    }
    // The node's own reason outranks what became of the containers, but not an end that others have been shown.
    if let Some(ended) = end_reason.filter(|_| terminal(api_phase).is_none()) {
        phase = Phase::Failed;
        status.reason = Some(ended.reason.clone().into_owned());
        status.message = Some(ended.message.clone().into_owned());
    }
    status.phase = Some(phase.as_str().to_owned());
}

fn time(at: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at)
}

#[cfg(test)]
mod tests;
