//! The number of pods of each kind, at one moment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::CONTAINER_TYPES;
use super::histogram::{counted, head, label, sample};

/// Series of terminated containers at most. Exit codes are those of programs, so that users could make many.
const MOST_TERMINATIONS: usize = 500;

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

/// Containers that have terminated since the start, by type, exit code and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminations {
    counts: BTreeMap<(&'static str, i32, String), u64>,
    /// What came when there were as many series as there may be.
    others: u64,
}

impl Terminations {
    /// Counts the containers that `new` shows as terminated and `old` does not.
    /// upstream: status/status_manager.go updateStatusInternal (v1.36)
    pub(crate) fn count(&mut self, old: &PodStatus, new: &PodStatus) {
        let [regular, init, ephemeral] = CONTAINER_TYPES;
        for (kind, old, new) in [
            (regular, &old.container_statuses, &new.container_statuses),
            (init, &old.init_container_statuses, &new.init_container_statuses),
            (ephemeral, &old.ephemeral_container_statuses, &new.ephemeral_container_statuses),
        ] {
            let before = |name: &str| old.iter().flatten().find(|status| status.name == name).and_then(terminated);
            for status in new.iter().flatten() {
                if let Some(end) = terminated(status).filter(|_| before(&status.name).is_none()) {
                    self.add((kind, end.exit_code, end.reason.clone().unwrap_or_default()));
                }
            }
        }
    }

    fn add(&mut self, series: (&'static str, i32, String)) {
        if let Some(count) = self.counts.get_mut(&series) {
            *count += 1;
        } else if self.counts.len() < MOST_TERMINATIONS {
            self.counts.insert(series, 1);
        } else {
            self.others += 1;
        }
    }

    fn write(&self, out: &mut String) {
        let series = self.counts.iter().map(|((kind, code, reason), count)| {
            let (code, reason) = (label("exit_code", &code.to_string()), label("reason", reason));
            (format!("container_type=\"{kind}\",{code},{reason}"), *count)
        });
        let other =
            || format!("{},{},{}", label("container_type", "other"), label("exit_code", ""), label("reason", ""));
        let series = series.chain([(other(), self.others)]);
        counted(out, "kubelet_terminated_containers_total", "Containers that have terminated.", series);
    }
}

fn terminated(status: &ContainerStatus) -> Option<&k8s_openapi::api::core::v1::ContainerStateTerminated> {
    status.state.as_ref().and_then(|state| state.terminated.as_ref())
}

/// Volumes of one plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounts {
    /// Those that pods want.
    pub desired: u64,
    /// Those that are set up.
    pub actual: u64,
}

/// The number of pods of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Containers that have terminated.
    pub terminations: Terminations,
    /// Volumes, by the name of their plugin.
    pub volumes: BTreeMap<&'static str, VolumeCounts>,
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
        self.terminations.write(out);
        let name = "volume_manager_total_volumes";
        if !self.volumes.is_empty() {
            head(out, name, "gauge", "Volumes, by plugin and by whether pods want them or they are set up.");
        }
        for (plugin, VolumeCounts { desired, actual }) in &self.volumes {
            for (state, count) in [("actual_state_of_world", actual), ("desired_state_of_world", desired)] {
                sample(out, name, &format!("plugin_name=\"{plugin}\",state=\"{state}\""), count);
            }
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
