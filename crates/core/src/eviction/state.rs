//! Which thresholds are met, for how long, and which conditions follow (EV-03, EV-05).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::threshold::with_container_fs;
use super::{DiskLayout, EvictionPolicy, Observations, PressureKind, Reclaim, Signal, Threshold};
use crate::manifest::quantity::{Format, Quantity};
use crate::node::Pressure;
use crate::time::{Instant, Now};

/// Remembers which thresholds are met. Only `step` changes it, but for what it recalls after a restart.
#[doc(alias = "evictionManager")]
#[derive(Clone, Debug)]
pub struct EvictionState {
    policy: EvictionPolicy,
    thresholds: Vec<Tracked>,
    layout: Option<DiskLayout>,
    /// Until when each condition holds: a transition period after it was last observed.
    #[doc(alias = "nodeConditionsLastObservedAt")]
    holds_until: BTreeMap<PressureKind, Instant>,
    last: Observations,
}

#[derive(Clone, Debug)]
struct Tracked {
    threshold: Threshold,
    /// Since when it has been met without a break.
    #[doc(alias = "thresholdsFirstObservedAt")]
    since: Option<Instant>,
    /// It has been met for its whole grace period, and the minimum reclaim has not been reached since.
    #[doc(alias = "thresholdsMet")]
    unresolved: bool,
}

impl Tracked {
    fn new(threshold: Threshold) -> Self {
        Self { threshold, since: None, unresolved: false }
    }
}

/// A condition that the node's object shows from before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Which.
    pub kind: PressureKind,
    /// How long ago the kubelet last reported it.
    pub ago: Duration,
}

impl Recalled {
    /// The conditions that hold in the node's object.
    pub fn of(node: &Node, now: Now) -> Vec<Self> {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let held = |kind: PressureKind| {
            let condition = conditions.iter().find(|one| one.type_ == kind.as_str() && one.status == "True")?;
            let at = condition.last_heartbeat_time.as_ref().or(condition.last_transition_time.as_ref())?;
            let ago = Duration::try_from(now.wall.duration_since(at.0)).unwrap_or_default();
            Some(Self { kind, ago })
        };
        PressureKind::ALL.into_iter().filter_map(held).collect()
    }
}

/// What follows from one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What the node is short of, for its conditions and for admission.
    pub pressure: Pressure,
    /// The thresholds to act on, the first one first.
    pub starved: Vec<Threshold>,
    /// When the next change is due though nothing changes: a grace period or a transition period ends.
    pub due: Option<Instant>,
}

impl EvictionState {
    /// Nothing has been observed yet.
    pub fn new(policy: EvictionPolicy) -> Self {
        let thresholds = policy.thresholds.iter().cloned().map(Tracked::new).collect();
        Self { policy, thresholds, layout: None, holds_until: BTreeMap::new(), last: Observations::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &EvictionPolicy {
        &self.policy
    }

    /// The thresholds in force, those for writable layers among them once the file systems are known.
    pub fn thresholds(&self) -> impl Iterator<Item = &Threshold> {
        self.thresholds.iter().map(|tracked| &tracked.threshold)
    }

    /// Which file systems are the same.
    pub fn layout(&self) -> DiskLayout {
        self.layout.unwrap_or_default()
    }

    /// Takes over conditions that the node's object shows from before a restart: each holds until its transition period is
    /// over. What was observed by this process counts more.
    pub fn recall(&mut self, conditions: &[Recalled], now: Instant) {
        for Recalled { kind, ago } in conditions {
            let left = self.policy.transition.saturating_sub(*ago);
            self.holds_until.entry(*kind).or_insert(now + left);
        }
    }

    /// Takes in one look.
    /// upstream: eviction/eviction_manager.go synchronize (v1.36)
    #[doc(alias = "synchronize")]
    pub fn step(&mut self, seen: &Observations, now: Instant) -> Decision {
        self.learn_layout(seen);
        for tracked in &mut self.thresholds {
            let met = is_met(&tracked.threshold, seen, false)
                || (tracked.unresolved && is_met(&tracked.threshold, seen, true));
            tracked.since = met.then(|| tracked.since.unwrap_or(now));
            let waited = tracked.since.map(|since| now.since(since));
            tracked.unresolved = waited.is_some_and(|waited| waited >= tracked.threshold.grace);
            if met {
                self.holds_until.insert(tracked.threshold.signal.condition(), now + self.policy.transition);
            }
        }
        self.holds_until.retain(|_, until| *until > now);
        let holds = |kind: PressureKind| self.holds_until.contains_key(&kind);
        let pressure = Pressure {
            memory: holds(PressureKind::Memory),
            disk: holds(PressureKind::Disk),
            pid: holds(PressureKind::Pid),
        };
        let unresolved = self.thresholds.iter().filter(|tracked| tracked.unresolved);
        let starved = unresolved.map(|tracked| &tracked.threshold).filter(|one| is_new(one.signal, seen, &self.last));
        let mut starved: Vec<Threshold> = starved.cloned().collect();
        starved.sort_by_key(|one| (Signal::ALL.iter().position(|signal| *signal == one.signal), !one.is_hard()));
        self.last = seen.clone();
        Decision { pressure, starved, due: self.due(now) }
    }

    /// What may be freed before a pod ends for this signal.
    /// upstream: eviction/helpers.go buildSignalToNodeReclaimFuncs (v1.36)
    #[doc(alias = "buildSignalToNodeReclaimFuncs")]
    pub fn reclaims(&self, signal: Signal) -> &'static [Reclaim] {
        const NONE: &[Reclaim] = &[];
        const BOTH: &[Reclaim] = &[Reclaim::DeadContainers, Reclaim::UnusedImages];
        match (signal, self.layout()) {
            (Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable, _) => NONE,
            (_, DiskLayout::One) => BOTH,
            (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, DiskLayout::SeparateImages) => NONE,
            (_, DiskLayout::SeparateImages) => BOTH,
            (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, DiskLayout::SplitLayers) => &[Reclaim::UnusedImages],
            (_, DiskLayout::SplitLayers) => &[Reclaim::DeadContainers],
        }
    }

    /// Whether a threshold that was met no longer is, its minimum reclaim included. Upstream asks that of every threshold,
    /// and so ends a pod for a disk that was freed when another threshold is met as well; here the one that is acted on
    /// decides, and the next look sees the other.
    #[doc(alias = "reclaimNodeLevelResources")]
    pub fn is_relieved(threshold: &Threshold, seen: &Observations) -> bool {
        seen.get(threshold.signal).is_some() && !is_met(threshold, seen, true)
    }

    fn learn_layout(&mut self, seen: &Observations) {
        let (None, Some(layout)) = (self.layout, seen.layout) else { return };
        self.layout = Some(layout);
        let all = with_container_fs(&self.policy.thresholds, layout);
        let known = |threshold: &Threshold| self.thresholds.iter().find(|one| one.threshold == *threshold).cloned();
        self.thresholds = all.into_iter().map(|one| known(&one).unwrap_or_else(|| Tracked::new(one))).collect();
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        let waits = self.thresholds.iter().filter(|tracked| !tracked.unresolved);
        let graces = waits.filter_map(|tracked| Some(tracked.since? + tracked.threshold.grace));
        graces.chain(self.holds_until.values().copied()).filter(|at| *at > now).min()
    }
}

/// upstream: eviction/helpers.go thresholdsMet (v1.36)
#[doc(alias = "thresholdsMet")]
fn is_met(threshold: &Threshold, seen: &Observations, with_reclaim: bool) -> bool {
    let Some(observed) = seen.get(threshold.signal) else { return false };
    let mut quantity = threshold.value.of(observed.capacity);
    if let Some(more) = threshold.min_reclaim.as_ref().filter(|_| with_reclaim) {
        quantity.add(&more.of(observed.capacity));
    }
    quantity.cmp_value(&Quantity::units(observed.available, Format::BinarySi)) == Ordering::Greater
}

/// No threshold is acted on twice for one measurement.
/// upstream: eviction/helpers.go thresholdsUpdatedStats (v1.36)
#[doc(alias = "thresholdsUpdatedStats")]
fn is_new(signal: Signal, seen: &Observations, last: &Observations) -> bool {
    let Some(observed) = seen.get(signal) else { return false };
    last.get(signal).is_none_or(|last| observed.at > last.at)
}
