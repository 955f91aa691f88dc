//! What a static pod takes over from the status of its mirror: the API remembers for us what a manifest cannot.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// `own` as decided here so far, completed by what the mirror `shown` says: when it started, since when its conditions hold,
/// which instances were ready, how often containers were restarted.
///
/// A phase is not taken over: a static pod that was refused or had ended may run again, from another manifest or on
/// another day.
pub fn adopt(own: &PodStatus, shown: &PodStatus) -> PodStatus {
    let decided = own.container_statuses.is_some();
    let mut status = if decided { own.clone() } else { shown.clone() };
    status.phase.clone_from(&own.phase);
    status.reason.clone_from(&own.reason);
    status.message.clone_from(&own.message);
    status.start_time = shown.start_time.clone().or(status.start_time);
    if !decided {
        return status;
    }
    let before = shown.conditions.as_deref().unwrap_or_default();
    for condition in status.conditions.iter_mut().flatten() {
        if let Some(old) = before.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status) {
            condition.last_transition_time.clone_from(&old.last_transition_time);
        }
    }
    take_over(&mut status.container_statuses, shown.container_statuses.as_deref());
    take_over(&mut status.init_container_statuses, shown.init_container_statuses.as_deref());
    status
}

fn take_over(own: &mut Option<Vec<ContainerStatus>>, shown: Option<&[ContainerStatus]>) {
    for status in own.iter_mut().flatten() {
        let same = |old: &&ContainerStatus| old.name == status.name && old.container_id == status.container_id;
        let Some(old) = shown.unwrap_or_default().iter().find(same).filter(|_| status.container_id.is_some()) else {
            continue;
        };
        status.ready |= old.ready;
        status.started = status.started.max(old.started);
        status.restart_count = status.restart_count.max(old.restart_count);
    }
}
