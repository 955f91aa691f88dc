//! Why the node ended a pod, in the words of the pod's status.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodCondition;

use super::conditions::DISRUPTION_TARGET;

/// Why the node ended a pod, as its status says it: the pod has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndReason {
    /// Reason of the status, and of the event.
    pub reason: Cow<'static, str>,
    /// Message of both.
    pub message: Cow<'static, str>,
    /// Message of the condition `DisruptionTarget`, for those who replace the pod; `None` without the condition.
    pub disruption: Option<Cow<'static, str>>,
}

impl EndReason {
    /// The pod made room for a critical one (ADM-31).
    #[doc(alias = "PreemptContainer")]
    pub const fn preempted() -> Self {
        Self {
            reason: Cow::Borrowed("Preempting"),
            message: Cow::Borrowed("Preempted in order to admit critical pod"),
            disruption: Some(Cow::Borrowed("Pod was preempted by Kubelet to accommodate a critical pod.")),
        }
    }

    /// The machine is about to go down (SHUT-03).
    pub const fn node_shutdown() -> Self {
        let message = "Pod was terminated in response to imminent node shutdown.";
        Self {
            reason: Cow::Borrowed("Terminated"),
            message: Cow::Borrowed(message),
            disruption: Some(Cow::Borrowed(message)),
        }
    }

    pub(super) fn condition(&self, generation: Option<i64>) -> Option<PodCondition> {
        self.disruption.as_ref().map(|message| PodCondition {
            type_: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: Some("TerminationByKubelet".to_owned()),
            message: Some(message.clone().into_owned()),
            observed_generation: generation.filter(|g| *g != 0),
            ..PodCondition::default()
        })
    }
}
