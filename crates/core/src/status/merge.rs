//! What is written to the API: our status, joined with what others own there (STAT-06 … STAT-08, TRAP-11).
//!
//! `shown` is the status as the API has it. Whatever did not change there keeps its time, so that a status decided anew
//! after a restart is, in the API's eyes, the same status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};

use super::conditions::{CONTAINERS_READY, DISRUPTION_TARGET, READY, is_owned};
use super::{Phase, is_terminal, normalise, time};
use crate::pod::PodExt;

/// The status that the API should have, given that `api` is the pod there and `ours` is what we decided. While a container
/// `may_run`, a terminal phase is held back (STAT-07).
#[doc(alias = "mergePodStatus")]
pub fn merge(api: &Pod, ours: &PodStatus, may_run: bool, now: Timestamp) -> PodStatus {
    let none = PodStatus::default();
    let shown = api.status.as_ref().unwrap_or(&none);
    let mut new = ours.clone();
    normalise(api, &mut new);
    let ends = !is_terminal(shown) && is_terminal(&new);
    new.conditions = Some(conditions(shown, &new, ends && !may_run, now));
    // A start happens once, and the class is fixed when the pod is made.
    new.start_time = shown.start_time.clone().or(new.start_time);
    new.qos_class = shown.qos_class.clone().filter(|class| !class.is_empty()).or(new.qos_class);
    new.observed_generation = shown.observed_generation.max(new.observed_generation);
    new.nominated_node_name.clone_from(&shown.nominated_node_name);
    new.resource_claim_statuses.clone_from(&shown.resource_claim_statuses);
    new.extended_resource_claim_status.clone_from(&shown.extended_resource_claim_status);
    new.node_allocatable_resource_claim_statuses.clone_from(&shown.node_allocatable_resource_claim_statuses);
    // Not yet, or no longer to be changed: others act on a terminal phase.
    let held = ends && may_run;
    // A static pod may come back under its name: the mirror pod then shows the status of the pod before it.
    let fixed = is_terminal(shown) && shown.phase != new.phase && !api.is_mirror();
    if held || fixed {
        new.phase.clone_from(&shown.phase);
        new.reason.clone_from(&shown.reason);
        new.message.clone_from(&shown.message);
    }
    if is_terminal(&new) {
        turn_unready(api, &mut new, now);
    }
    new
}

/// The conditions of other writers unchanged, then ours. `DisruptionTarget` is written together with the terminal phase
/// that it led to, and then stays.
fn conditions(shown: &PodStatus, new: &PodStatus, with_disruption: bool, now: Timestamp) -> Vec<PodCondition> {
    let before = shown.conditions.as_deref().unwrap_or_default();
    let mut all: Vec<PodCondition> = before.iter().filter(|c| !is_owned(&c.type_)).cloned().collect();
    for condition in new.conditions.iter().flatten() {
        let disruption = condition.type_ == DISRUPTION_TARGET;
        let is_written = is_owned(&condition.type_) || (disruption && with_disruption);
        if !is_written {
            continue;
        }
        let old = before.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status);
        let mut condition = condition.clone();
        if let Some(old) = old.filter(|old| old.last_transition_time.is_some()) {
            condition.last_transition_time.clone_from(&old.last_transition_time);
        } else if disruption {
            condition.last_transition_time = Some(time(seconds(now)));
        }
        all.retain(|c| c.type_ != condition.type_);
        all.push(condition);
    }
    all
}

/// No pod is ready once it has ended, whatever was last heard of its containers (STAT-08). Both conditions tell the same
/// reason, even if one of them was false already.
fn turn_unready(api: &Pod, status: &mut PodStatus, now: Timestamp) {
    let completed = status.phase.as_deref().and_then(Phase::parse) == Some(Phase::Succeeded);
    let conditions = status.conditions.get_or_insert_default();
    let both = [CONTAINERS_READY, READY];
    if !conditions.iter().any(|c| both.contains(&c.type_.as_str()) && c.status == "True") {
        return;
    }
    for name in both {
        let old = conditions.iter_mut().find(|c| c.type_ == name);
        let since = old.as_ref().filter(|old| old.status == "False").and_then(|old| old.last_transition_time.clone());
        let condition = PodCondition {
            type_: name.to_owned(),
            status: "False".to_owned(),
            reason: Some(if completed { "PodCompleted" } else { "PodFailed" }.to_owned()),
            last_transition_time: since.or_else(|| Some(time(seconds(now)))),
            observed_generation: api.metadata.generation.filter(|g| *g != 0),
            ..PodCondition::default()
        };
        match old {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}

fn seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
