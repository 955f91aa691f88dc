//! The form in which a status can be compared with what the API server gives back (STAT-03).

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::message::{cut, message_share};
use crate::pod::PodExt;

/// Timestamps in whole seconds, lists in order, messages within their share.
#[doc(alias = "normalizeStatus")]
pub fn normalise(pod: &Pod, status: &mut PodStatus) {
    let containers = pod.init().len() + pod.regular().len() + pod.ephemeral().len();
    let share = message_share(containers);
    to_seconds(&mut status.start_time);
    for condition in status.conditions.iter_mut().flatten() {
        to_seconds(&mut condition.last_probe_time);
        to_seconds(&mut condition.last_transition_time);
    }
    for list in [&mut status.container_statuses, &mut status.ephemeral_container_statuses] {
        each(list, share);
        list.iter_mut().for_each(|list| list.sort_by(|a, b| a.name.cmp(&b.name)));
    }
    each(&mut status.init_container_statuses, share);
    let place = |status: &ContainerStatus| pod.init().iter().position(|c| c.name == status.name);
    status.init_container_statuses.iter_mut().for_each(|list| list.sort_by_key(place));
}

fn each(list: &mut Option<Vec<ContainerStatus>>, share: usize) {
    for status in list.iter_mut().flatten() {
        for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
            one(state, share);
        }
    }
}

fn one(state: &mut ContainerState, share: usize) {
    if let Some(running) = &mut state.running {
        to_seconds(&mut running.started_at);
    }
    if let Some(end) = &mut state.terminated {
        to_seconds(&mut end.started_at);
        to_seconds(&mut end.finished_at);
        if let Some(message) = &mut end.message {
            message.truncate(cut(message, share).len());
        }
    }
}

fn to_seconds(at: &mut Option<Time>) {
    let whole = |at: Timestamp| at.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor));
    if let Some(Time(at)) = at {
        *at = whole(*at).unwrap_or(*at);
    }
}
