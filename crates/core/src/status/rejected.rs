//! The status of a pod that never had a life here.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Phase;
use crate::qos::qos_class;

/// The phase says that the pod has ended for good.
pub fn is_terminal(status: &PodStatus) -> bool {
    status.phase.as_deref().and_then(Phase::parse).is_some_and(Phase::is_terminal)
}

/// The API's status of `pod` is final: terminal, and it shows no container that runs. It is not decided anew.
pub fn is_settled(pod: &Pod) -> bool {
    let Some(status) = pod.status.as_ref().filter(|status| is_terminal(status)) else { return false };
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    !all.any(|c| c.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// The status of a pod that was rejected by admission (LOOP-05).
#[doc(alias = "rejectPod")]
pub fn rejected(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    PodStatus {
        phase: Some(Phase::Failed.as_str().to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        qos_class: Some(qos_class(pod).as_str().to_owned()),
        start_time: Some(Time(now)),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // LOOP-05
    #[test]
    fn loop_05_a_rejected_pod_has_failed_with_the_reason_of_its_rejection() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .expect("a pod");
        let status = rejected(&pod, "OutOfcpu", "too large", Timestamp::UNIX_EPOCH);
        let expected = json!({
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "too large",
            "qosClass": "Burstable",
            "startTime": "1970-01-01T00:00:00Z",
            "observedGeneration": 3,
        });
        assert_eq!(serde_json::to_value(status).expect("JSON"), expected);
    }

    #[test]
    fn a_status_is_settled_when_it_is_terminal_and_shows_no_running_container() {
        let ended = json!([{"name": "a", "state": {"terminated": {"exitCode": 0}}}]);
        let runs = json!([{"name": "a", "state": {"running": {}}}]);
        for (status, settled) in [
            (json!({"phase": "Running", "containerStatuses": ended}), false),
            (json!({"phase": "Failed"}), true),
            (json!({"phase": "Succeeded", "containerStatuses": ended}), true),
            (json!({"phase": "Failed", "containerStatuses": runs}), false),
            (json!({"phase": "Failed", "initContainerStatuses": runs}), false),
            (json!({"phase": "Failed", "ephemeralContainerStatuses": runs}), false),
            (json!({}), false),
        ] {
            let pod = Pod { status: serde_json::from_value(status.clone()).expect("a status"), ..Pod::default() };
            assert_eq!(is_settled(&pod), settled, "{status}");
        }
        assert!(!is_settled(&Pod::default()));
    }
}
