//! How many pods there are of each kind, at one moment.

use super::histogram::{head, sample};

/// How many of something are static pods, and how many are not.
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

/// Pods that are in one stage of their life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Working {
    /// A source asks for them.
    pub desired: Split,
    /// Their source has let them go.
    pub orphan: Split,
    /// Only the runtime knows them.
    pub runtime_only: u64,
}

/// How many pods there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Pods that sources ask for.
    pub desired: Split,
    /// Of them, those that may run.
    pub active: Split,
    /// Pictures of static pods in the API.
    pub mirrors: u64,
    /// Pods that are kept as their spec says, that are being ended, and that have stopped.
    pub working: [Working; 3],
    /// Containers to debug with.
    pub ephemeral: u64,
    /// Resizes for which there is no room now.
    pub deferred: u64,
    /// Resizes that can never be.
    pub infeasible: u64,
    /// Resizes that were given and are not in force yet.
    pub in_progress: u64,
}

impl Census {
    /// Writes it in Prometheus' text form.
    pub fn write(&self, out: &mut String) {
        head(out, "kubelet_active_pods", "gauge", "Pods that may run, by whether they are static.");
        self.active.write(out, "kubelet_active_pods", "");
        head(out, "kubelet_desired_pods", "gauge", "Pods that are asked for, by whether they are static.");
        self.desired.write(out, "kubelet_desired_pods", "");
        head(out, "kubelet_managed_ephemeral_containers", "gauge", "Containers to debug with.");
        sample(out, "kubelet_managed_ephemeral_containers", "", self.ephemeral);
        head(out, "kubelet_mirror_pods", "gauge", "Pictures of static pods that the API has.");
        sample(out, "kubelet_mirror_pods", "", self.mirrors);
        head(out, "kubelet_pod_in_progress_resizes", "gauge", "Resizes that are not in force everywhere yet.");
        sample(out, "kubelet_pod_in_progress_resizes", "", self.in_progress);
        let pending = [("deferred", self.deferred), ("infeasible", self.infeasible)];
        if pending.iter().any(|(_, count)| *count > 0) {
            head(out, "kubelet_pod_pending_resizes", "gauge", "Resizes that wait, by why.");
        }
        for (reason, count) in pending.into_iter().filter(|(_, count)| *count > 0) {
            sample(out, "kubelet_pod_pending_resizes", &format!("reason=\"{reason}\""), count);
        }
        let name = "kubelet_working_pods";
        head(out, name, "gauge", "Pods that are worked on, by where they are and who asks for them.");
        for (stage, working) in ["sync", "terminating", "terminated"].into_iter().zip(&self.working) {
            working.desired.write(out, name, &format!("config=\"desired\",lifecycle=\"{stage}\""));
            working.orphan.write(out, name, &format!("config=\"orphan\",lifecycle=\"{stage}\""));
            let labels = format!("config=\"runtime_only\",lifecycle=\"{stage}\",static=\"unknown\"");
            sample(out, name, &labels, working.runtime_only);
        }
    }
}
