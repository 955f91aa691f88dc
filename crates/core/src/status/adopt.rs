//! What a static pod takes over from the status of its mirror: the API remembers for us what a manifest cannot.

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::conditions::{CONTAINERS_READY, READY};

/// `own` as decided here so far, completed by what the mirror `shown` says: when it started, since when its conditions hold,
/// which instances were ready, how often containers were restarted, how the last instance ended.
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
        forget_ended_init(&mut status);
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
    if readiness(&status).eq(readiness(shown)) {
        // What was concluded from the same instances still follows from them.
        for condition in status.conditions.iter_mut().flatten() {
            let concluded = [READY, CONTAINERS_READY].contains(&condition.type_.as_str());
            if let Some(old) = before.iter().find(|old| concluded && old.type_ == condition.type_) {
                *condition = old.clone();
            }
        }
    }
    status
}

/// How an init container ended well is for the runtime to say; without its record the status says that (PST-04). Upstream
/// takes nothing over, and its node suite insists on this.
fn forget_ended_init(status: &mut PodStatus) {
    if let Some(list) = &mut status.init_container_statuses {
        let end = |c: &ContainerStatus| c.state.as_ref().and_then(|s| s.terminated.as_ref()).map(|end| end.exit_code);
        list.retain(|container| end(container) != Some(0));
    }
}

/// Which instances there are, and whether they are ready.
fn readiness(status: &PodStatus) -> impl Iterator<Item = (&str, Option<&str>, bool)> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.map(|c| (c.name.as_str(), c.container_id.as_deref(), c.ready))
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
        // The record of the instance before may be gone from the runtime: then only the mirror still knows its end.
        if status.last_state.is_none() {
            status.last_state.clone_from(&old.last_state);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(phase: &str, id: &str, ready: bool, at: &str) -> PodStatus {
        let holds = if ready { "True" } else { "False" };
        let condition = |kind: &str| json!({"type": kind, "status": holds, "lastTransitionTime": at});
        let whole: Value = json!({
            "phase": phase, "startTime": at, "conditions": [condition("Ready"), condition("ContainersReady")],
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "containerID": id, "ready": ready, "restartCount": 2}],
        });
        serde_json::from_value(whole).expect("a status")
    }

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn instances_that_were_ready_still_are() {
        let shown = status("Running", "c://1", true, THEN);
        // The phase is the pod's own; all else is as it was.
        let own = status("Running", "c://1", false, NOW);
        assert_eq!(adopt(&own, &shown), shown);
        assert_eq!(adopt(&PodStatus::default(), &shown), PodStatus { phase: None, ..shown.clone() });
        // Another instance has to show by itself that it is ready.
        let other = status("Running", "c://2", false, NOW);
        let adopted = adopt(&other, &shown);
        assert_eq!(adopted.container_statuses, other.container_statuses);
        assert_eq!((adopted.conditions, adopted.start_time), (other.conditions, shown.start_time.clone()));
        // How the instance before it ended is known to the mirror alone.
        let mut knows = shown.clone();
        for container in knows.container_statuses.iter_mut().flatten() {
            let ended = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}});
            container.last_state = serde_json::from_value(ended).expect("a state");
        }
        assert_eq!(adopt(&status("Running", "c://1", false, NOW), &knows), knows);
        // An init container that ended well is not known any more; one that failed is.
        let mut began = shown.clone();
        let init = json!([
            {"name": "well", "image": "", "imageID": "", "restartCount": 0, "ready": true, "state": {"terminated": {"exitCode": 0}}},
            {"name": "badly", "image": "", "imageID": "", "restartCount": 3, "ready": false, "state": {"terminated": {"exitCode": 1}}},
            {"name": "runs", "image": "", "imageID": "", "restartCount": 1, "ready": true, "state": {"running": {}}},
        ]);
        began.init_container_statuses = serde_json::from_value(init).expect("statuses");
        let adopted = adopt(&PodStatus::default(), &began).init_container_statuses.expect("statuses");
        assert_eq!(adopted.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["badly", "runs"]);
        // A static pod that was refused may run another day.
        let failed = status("Failed", "c://1", false, THEN);
        assert_eq!(adopt(&status("Running", "c://1", true, NOW), &failed).phase.as_deref(), Some("Running"));
    }
}
