//! The number of pods of each kind, at one moment.

use super::histogram::{head, sample};

/// A number of pods, split by whether they are static.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Static pods.
    pub fixed: u64,
    /// All others.
    pub other: u64,
}

impl Split {
    pub(crate) fn add(&mut self, is_static: bool) {
        *(if is_static { &mut self.fixed } else { &mut self.other }) += 1;
    }

    fn write(self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        sample(out, name, &format!("{labels}{comma}static=\"\""), self.other);
        sample(out, name, &format!("{labels}{comma}static=\"true\""), self.fixed);
    }
}

/// Pods in one stage of their life cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Working {
    /// Pods that a source wants.
    pub desired: Split,
    /// Pods that their source no longer wants.
    pub orphan: Split,
    /// Unknown pods, found in the runtime only.
    pub runtime_only: u64,
}

/// The number of pods of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Desired pods.
    pub desired: Split,
    /// Desired pods that may run.
    pub active: Split,
    /// Pods whose phase is `Running`, and that are not ending.
    pub running: u64,
    /// Pods that are to run and do not yet.
    pub waiting: u64,
    /// Mirror pods in the API.
    pub mirrors: u64,
    /// Pods that are syncing, terminating and terminated.
    pub working: [Working; 3],
    /// Ephemeral containers.
    pub ephemeral: u64,
    /// Deferred resizes.
    pub deferred: u64,
    /// Infeasible resizes.
    pub infeasible: u64,
    /// Resizes that are allocated and not actuated yet.
    pub in_progress: u64,
}

impl Census {
    /// Writes the census in Prometheus' text format.
    pub fn write(&self, out: &mut String) {
        head(out, "kubelet_active_pods", "gauge", "Pods that may run, by whether they are static.");
        self.active.write(out, "kubelet_active_pods", "");
        head(out, "kubelet_desired_pods", "gauge", "Desired pods, by whether they are static.");
        self.desired.write(out, "kubelet_desired_pods", "");
        head(out, "kubelet_managed_ephemeral_containers", "gauge", "Ephemeral containers.");
        sample(out, "kubelet_managed_ephemeral_containers", "", self.ephemeral);
        head(out, "kubelet_mirror_pods", "gauge", "Mirror pods.");
        sample(out, "kubelet_mirror_pods", "", self.mirrors);
        head(out, "kubelet_pod_in_progress_resizes", "gauge", "Resizes that are allocated and not actuated yet.");
        sample(out, "kubelet_pod_in_progress_resizes", "", self.in_progress);
        let pending = [("deferred", self.deferred), ("infeasible", self.infeasible)];
        if pending.iter().any(|(_, count)| *count > 0) {
            head(out, "kubelet_pod_pending_resizes", "gauge", "Pending resizes, by reason.");
        }
        for (reason, count) in pending.into_iter().filter(|(_, count)| *count > 0) {
            sample(out, "kubelet_pod_pending_resizes", &format!("reason=\"{reason}\""), count);
        }
        let name = "kubelet_working_pods";
        head(out, name, "gauge", "Pods with a life cycle, by stage and by whether a source wants them.");
        for (stage, working) in ["sync", "terminating", "terminated"].into_iter().zip(&self.working) {
            working.desired.write(out, name, &format!("config=\"desired\",lifecycle=\"{stage}\""));
            working.orphan.write(out, name, &format!("config=\"orphan\",lifecycle=\"{stage}\""));
            let labels = format!("config=\"runtime_only\",lifecycle=\"{stage}\",static=\"unknown\"");
            sample(out, name, &labels, working.runtime_only);
        }
    }
}
