//! The groups of pods and their shares of the time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::config::{FeatureGates, Gate, KubeletConfiguration};
use crate::pod::PodExt;

/// The lowest priority of critical pods. upstream: apis/scheduling/types.go SystemCriticalPriority (v1.36)
const CRITICAL: i32 = 2_000_000_000;

/// One group: the pods from this priority on, up to that of the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownGroup {
    /// The lowest priority.
    pub priority: i32,
    /// The group's share of the time, in whole seconds.
    pub grace: Duration,
}

/// A group and its pods, each with its grace.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGroup {
    /// The group.
    pub group: ShutdownGroup,
    /// Its pods.
    pub pods: Vec<(Arc<Pod>, Duration)>,
}

impl Eq for PodGroup {}

/// All groups, by priority, lowest first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownPlan {
    groups: Vec<ShutdownGroup>,
}

impl ShutdownPlan {
    /// What the configuration asks for; `None` if it asks for no graceful shutdown (SHUT-01).
    pub fn of(config: &KubeletConfiguration, gates: &FeatureGates) -> Option<Self> {
        if !gates.enabled(Gate::GracefulNodeShutdown) {
            return None;
        }
        let by_priority = &config.shutdown_grace_period_by_pod_priority;
        if by_priority.is_empty() || !gates.enabled(Gate::GracefulNodeShutdownBasedOnPodPriority) {
            let (total, critical) = (config.shutdown_grace_period, config.shutdown_grace_period_critical_pods);
            return Self::two(total.to_std(), critical.to_std());
        }
        let group = |of: &crate::config::ShutdownGracePeriodByPodPriority| ShutdownGroup {
            priority: of.priority,
            grace: Duration::from_secs(u64::try_from(of.shutdown_grace_period_seconds).unwrap_or_default()),
        };
        Self::new(by_priority.iter().map(group).collect())
    }

    /// These groups; `None` without any.
    pub fn new(mut groups: Vec<ShutdownGroup>) -> Option<Self> {
        groups.sort_by_key(|group| group.priority);
        (!groups.is_empty()).then_some(Self { groups })
    }

    /// The older two settings as two groups: ordinary pods, then critical ones.
    #[doc(alias = "migrateConfig")]
    fn two(total: Duration, critical: Duration) -> Option<Self> {
        let ordinary = total.checked_sub(critical).filter(|_| !total.is_zero())?;
        let whole = |time: Duration| Duration::from_secs(time.as_secs());
        Self::new(vec![
            ShutdownGroup { priority: 0, grace: whole(ordinary) },
            ShutdownGroup { priority: CRITICAL, grace: whole(critical) },
        ])
    }

    /// How long the shutdown may have to be delayed: logind's `InhibitDelayMaxSec` must be no less.
    #[doc(alias = "periodRequested")]
    pub fn period(&self) -> Duration {
        self.groups.iter().fold(Duration::ZERO, |sum, group| sum.saturating_add(group.grace))
    }

    /// Sorts the pods into groups, each with its grace: the group's, or its own if that is shorter.
    #[doc(alias = "groupByPriority")]
    pub fn groups(&self, pods: Vec<Arc<Pod>>) -> Vec<PodGroup> {
        let mut groups: Vec<PodGroup> =
            self.groups.iter().map(|group| PodGroup { group: *group, pods: Vec::new() }).collect();
        for pod in pods {
            let spec = pod.pod_spec();
            let priority = spec.and_then(|spec| spec.priority).unwrap_or_default();
            if let Some(PodGroup { group, pods }) = groups.get_mut(self.group_of(priority)) {
                let own = spec.and_then(|spec| spec.termination_grace_period_seconds);
                let own = own.map(|secs| Duration::from_secs(u64::try_from(secs).unwrap_or_default()));
                let grace = own.map_or(group.grace, |own| own.min(group.grace));
                pods.push((pod, grace));
            }
        }
        groups
    }

    /// The last group whose priority is not above this one; of groups with the very same priority the first. Pods below
    /// every group belong to the first.
    fn group_of(&self, priority: i32) -> usize {
        let at = self.groups.partition_point(|group| group.priority < priority);
        match self.groups.get(at) {
            Some(group) if group.priority == priority => at,
            Some(_) | None => at.saturating_sub(1),
        }
    }
}
