//! The API's status of a pod, decided from what was seen (section 11).
//!
//! A pure function of the pod, what the runtime said, the status before, the failures to start and the probes. It never
//! takes a terminal phase back, and deciding again from its own answer changes nothing.
//! upstream: `kubelet_pods.go` `generateAPIPodStatus`, `status/generate.go` (v1.36)

mod adopt;
mod conditions;
mod containers;
mod deadline;
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

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::observe::PodObservation;
use crate::plan::{PlanGates, ProbeView, is_abandoned, restarts_all};
use crate::qos::qos_class;
use crate::reason::StartFailure;
use crate::resize::{PodAllocation, ResizeState};

pub use adopt::adopt;
pub use conditions::foreign_conditions;
pub use containers::ContainerList;
pub use deadline::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, deadline_left};
pub use finish::finish;
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

/// What a status is made from, besides what was seen.
#[derive(Clone, Copy, Debug)]
pub struct StatusView<'a> {
    /// The pod as desired. Its own `status` is what the API server last said.
    pub pod: &'a Pod,
    /// The status last decided here, or read from the API after a restart.
    pub previous: &'a PodStatus,
    /// Why containers could not be started, by name.
    pub failures: &'a BTreeMap<String, StartFailure>,
    /// What probes say.
    pub probes: &'a ProbeView,
    /// Scheme of container ids: the runtime's name.
    pub runtime_name: &'a str,
    /// Addresses of the node, primary family first.
    pub host_ips: &'a [IpAddr],
    /// The pod's runtime handler can make mounts read-only all the way down.
    pub recursive_read_only: bool,
    /// Feature gates that matter here.
    pub gates: PlanGates,
    /// How far the pod's end has come.
    pub ending: Ending,
    /// How its resize stands.
    pub resize: &'a ResizeState,
    /// What the runtime was told of its resources, if anything is known of it.
    pub told: Option<&'a PodAllocation>,
    /// The wall clock.
    pub now: Timestamp,
}

/// How far a pod's end has come, for its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is to run.
    No,
    /// It is being stopped.
    Terminating,
    /// No container runs, nor will one: the phase becomes final (TERM-06).
    Terminal,
}

/// The status of `view.pod`.
#[doc(alias = "generateAPIPodStatus")]
pub fn pod_status(view: &StatusView<'_>, seen: &PodObservation) -> PodStatus {
    let pod = view.pod;
    let (old, api) = (view.previous, pod.status.as_ref());
    // The whole pod starts over as long as the end that called for it is there to be seen; what went with it was cleared
    // away for the same reason.
    let starts_over = restarts_all(pod, seen, view.gates);
    let restarting = starts_over || (conditions::said_to_restart(old) && view.gates.restart_all_containers);
    let mut status = PodStatus {
        container_statuses: Some(containers::statuses(view, seen, ContainerList::Regular, restarting)),
        init_container_statuses: containers::statuses_or_none(view, seen, ContainerList::Init, restarting),
        ephemeral_container_statuses: containers::statuses_or_none(view, seen, ContainerList::Ephemeral, restarting),
        qos_class: Some(qos_class(pod).as_str().to_owned()),
        resources: Some(resources::of_pod(pod, view.told)),
        allocated_resources: resources::requested_by_pod(pod),
        start_time: old.start_time.clone().or_else(|| api.and_then(|s| s.start_time.clone())).or(Some(time(view.now))),
        observed_generation: pod.metadata.generation.max(old.observed_generation).filter(|g| *g != 0),
        ..kept(old, api)
    };
    ips::set(view, seen, &mut status);
    readiness::set(view, &mut status);
    decide_phase(view, seen, &mut status);
    status.conditions = Some(conditions::of(view, seen, &status, starts_over));
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
    let (old, api) = (view.previous, view.pod.status.as_ref());
    let old_phase = old.phase.as_deref().and_then(Phase::parse);
    let api_phase = api.and_then(|s| s.phase.as_deref()).and_then(Phase::parse);
    let facts = PhaseFacts {
        terminal: view.ending == Ending::Terminal,
        initialised: phase::has_active_regular(view.pod, seen),
        abandoned: is_abandoned(view.pod, seen) && !restarts_all(view.pod, seen, view.gates),
        gates: view.gates,
    };
    let computed = pod_phase(view.pod, status, facts);
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
    let overdue = deadline_left(view.pod, status.start_time.as_ref().map(|t| t.0), view.now);
    if !phase.is_terminal() && overdue.is_some_and(|left| left.is_zero()) {
        phase = Phase::Failed;
        status.reason = Some(DEADLINE_EXCEEDED.to_owned());
        status.message = Some(DEADLINE_MESSAGE.to_owned());
    }
    status.phase = Some(phase.as_str().to_owned());
}

fn time(at: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at)
}

#[cfg(test)]
mod tests;
