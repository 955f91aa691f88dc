//! A copy of the state of one pod that the sync loop owns.

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

/// The sync loop's state of one pod, copied when a job begins. The job does not change it; a later change reaches the next
/// job.
#[derive(Clone, Debug)]
pub(crate) struct PodSnapshot {
    /// The pod with its allocated resources, or the orphan.
    pub(crate) subject: Subject,
    /// The pod's probe results.
    pub(crate) probes: Arc<ProbeView>,
    /// The sync loop's decision about the pod's resize.
    pub(crate) resize: ResizeDecision,
    /// How far the end of the pod has come.
    pub(crate) end: EndProgress,
    /// Why the pod ends, if it does.
    pub(crate) ending: Option<Ending>,
    /// The rest of the grace period, which began with the end of the pod and not with this job.
    pub(crate) grace: Grace,
    /// The status last written.
    pub(crate) status: Arc<PodStatus>,
}

impl PodSnapshot {
    /// Why the pod ends.
    pub(crate) fn cause(&self) -> Cause {
        self.ending.as_ref().map_or(Cause::Ended, |ending| ending.cause)
    }

    /// The inputs of plan and status. `pod` is this snapshot's pod, `now` is what the node is now.
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
