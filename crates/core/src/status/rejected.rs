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
