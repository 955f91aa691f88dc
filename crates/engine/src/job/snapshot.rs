//! What the sync loop owns of a pod, as it stands at one moment.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::lifecycle::{Cause, Ending, Grace, Subject};
use rubelet_core::plan::ProbeView;
use rubelet_core::resize::{ResizeCondition, ResizeDecision};
use rubelet_core::status::EndProgress;

use super::PodMemory;
use crate::node::Node;
use crate::node_now::NodeNow;

/// What the sync loop owns of a pod. A job gets one when it begins and changes nothing in it; what changes meanwhile comes
/// with the next job.
#[derive(Clone, Debug)]
pub(crate) struct PodSnapshot {
    /// The pod with its allocated resources, or what is known of an orphan.
    pub(crate) subject: Subject,
    /// The results of its probes.
    pub(crate) probes: Arc<ProbeView>,
    /// The decisions about its resizes.
    pub(crate) resize: ResizeDecision,
    /// How far its end has come.
    pub(crate) end: EndProgress,
    /// Why it ends, if it does.
    pub(crate) ending: Option<Ending>,
    /// How much is left of the grace. It is counted from when the pod had to end, not from this job.
    pub(crate) grace: Grace,
    /// The status last written.
    pub(crate) status: Arc<PodStatus>,
}

impl PodSnapshot {
    /// Who or what ends the pod.
    pub(crate) fn cause(&self) -> Cause {
        self.ending.as_ref().map_or(Cause::Ended, |ending| ending.cause)
    }

    /// The inputs of the decisions about `pod`, which is this snapshot's, on the node as it is `now`.
    pub(crate) fn inputs<'a>(
        &'a self,
        node: &'a Node,
        now: &'a NodeNow,
        pod: &'a Arc<Pod>,
        memory: &'a PodMemory,
        resize_progress: Option<&'a ResizeCondition>,
    ) -> PodInputs<'a> {
        PodInputs {
            pod,
            probes: &self.probes,
            failures: &memory.failures,
            actuated: memory.actuated.as_ref(),
            resize_pending: self.resize.pending.as_ref(),
            resize_progress,
            end: self.end,
            end_reason: self.ending.as_ref().and_then(|ending| ending.reason.as_deref()),
            node: NodeInputs {
                runtime_name: &node.settings.runtime_name,
                host_ips: &now.ips,
                recursive_read_only: now.handler(&memory.handler).recursive_read_only_mounts,
                gates: node.settings.plan_gates,
            },
        }
    }
}
