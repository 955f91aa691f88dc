//! What is decided against pods: rejections, preemptions, evictions. The values of each label are a fixed list, so that no
//! name of a resource or of a reason makes a series of its own.
//! upstream: metrics.go, kubelet.go recordAdmissionRejection, eviction/api/types.go (v1.36)

use std::time::Duration;

use super::histogram::{Counter, Histogram, USUAL, counted, label, observed};

/// Reasons of rejections that are counted by themselves.
const REASONS: [&str; 21] = [
    "AppArmor",
    "Evicted",
    "InitContainerRestartPolicyForbidden",
    "InvalidNodeInfo",
    "NodeShutdown",
    "OutOfcpu",
    "OutOfephemeral-storage",
    "OutOfmemory",
    "OutOfpods",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "UnknownReason",
    "VolumeAttachmentLimitExceeded",
    "node(s) had taints that the pod didn't tolerate",
];
/// Where reasons are counted that are none of [`REASONS`].
const OTHER_REASONS: [&str; 2] = ["OutOfExtendedResources", "Other"];
/// What critical pods lacked when others were preempted: without a name, only a place among the node's pods.
const RESOURCES: [&str; 6] = ["", "cpu", "ephemeral-storage", "memory", "pods", "other"];

/// Why pods are evicted, as the label `eviction_signal` has it.
pub const EVICTION_SIGNALS: [&str; 12] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "emptydirfs.limit",
    "ephemeralcontainerfs.limit",
    "ephemeralpodfs.limit",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// The counts.
#[derive(Debug)]
pub struct Decisions {
    rejections: [Counter; REASONS.len()],
    other_rejections: [Counter; OTHER_REASONS.len()],
    preemptions: [Counter; RESOURCES.len()],
    evictions: [Counter; EVICTION_SIGNALS.len()],
    stats_age: [Histogram; EVICTION_SIGNALS.len()],
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            rejections: Default::default(),
            other_rejections: Default::default(),
            preemptions: Default::default(),
            evictions: Default::default(),
            stats_age: std::array::from_fn(|_| Histogram::new(&USUAL)),
        }
    }
}

impl Decisions {
    /// A pod was rejected.
    pub(crate) fn rejected(&self, reason: &str) {
        let known = REASONS.iter().position(|known| *known == reason).and_then(|at| self.rejections.get(at));
        let [extended, other] = &self.other_rejections;
        known.unwrap_or(if reason.starts_with("OutOf") { extended } else { other }).add();
    }

    /// A pod was preempted, for want of this resource.
    pub(crate) fn preempted(&self, resource: &str) {
        let at = RESOURCES.iter().position(|known| *known == resource).unwrap_or(RESOURCES.len() - 1);
        if let Some(counter) = self.preemptions.get(at) {
            counter.add();
        }
    }

    /// A pod was evicted because of one of [`EVICTION_SIGNALS`].
    pub(crate) fn evicted(&self, signal: &str) {
        if let Some(counter) = place(signal).and_then(|at| self.evictions.get(at)) {
            counter.add();
        }
    }

    /// The measurement of this signal, `age` old, led to an eviction.
    pub(crate) fn eviction_stats_age(&self, signal: &str, age: Duration) {
        if let Some(histogram) = place(signal).and_then(|at| self.stats_age.get(at)) {
            histogram.took(age);
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        let by = |name: &'static str, values: &'static [&'static str], counters: &[Counter]| {
            let counts: Vec<u64> = counters.iter().map(Counter::get).collect();
            values.iter().zip(counts).map(move |(value, count)| (label(name, value), count))
        };
        let rejections =
            by("reason", &REASONS, &self.rejections).chain(by("reason", &OTHER_REASONS, &self.other_rejections));
        counted(out, "kubelet_admission_rejections_total", "Pods that were rejected, by reason.", rejections);
        let ages = EVICTION_SIGNALS.iter().zip(&self.stats_age);
        let ages = ages.map(|(signal, histogram)| (label("eviction_signal", signal), histogram));
        let name = "kubelet_eviction_stats_age_seconds";
        observed(out, name, "The age of the numbers that led to evictions, in seconds.", ages);
        let evictions = by("eviction_signal", &EVICTION_SIGNALS, &self.evictions);
        counted(out, "kubelet_evictions", "Pods that were evicted, by what was short.", evictions);
        let preemptions = by("preemption_signal", &RESOURCES, &self.preemptions);
        counted(out, "kubelet_preemptions", "Pods that were preempted, by what was short.", preemptions);
    }
}

fn place(signal: &str) -> Option<usize> {
    EVICTION_SIGNALS.iter().position(|known| *known == signal)
}
