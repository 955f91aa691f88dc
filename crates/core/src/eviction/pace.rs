//! When to look again, and at which amount of memory the kernel wakes us (EV-04).

use std::time::Duration;

use super::{Observations, Signal, Starved, Threshold};

/// The longest time between two looks. upstream: kubelet.go evictionMonitoringPeriod (v1.36)
const LONGEST: Duration = Duration::from_secs(10);
/// The shortest.
const SHORTEST: Duration = Duration::from_secs(1);
/// Bytes that may be written to a disk in a second: the nearer a threshold, the sooner the next look.
const DISK_PER_SECOND: u64 = 500_000_000;
/// Inodes that may be made in a second.
const INODES_PER_SECOND: u64 = 50_000;
/// Processes that may be started in a second.
const PROCESSES_PER_SECOND: u64 = 5_000;

/// Whose memory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryOf {
    /// The node's.
    Node,
    /// That of all pods together.
    Pods,
}

/// An amount of memory that, once used, meets a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryMark {
    /// Whose.
    pub of: MemoryOf,
    /// The amount in use at which the threshold is met, by the measure of [`MemoryUsed`].
    pub at: u64,
}

/// What is in use, by the measure of the port that watches memory. It is read before a look, so that what is used while the
/// look is made counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsed {
    /// Of the node; `None` if it cannot be watched.
    pub node: Option<u64>,
    /// Of all pods.
    pub pods: Option<u64>,
}

impl MemoryUsed {
    /// What is in use of this memory.
    pub fn of(&self, of: MemoryOf) -> Option<u64> {
        match of {
            MemoryOf::Node => self.node,
            MemoryOf::Pods => self.pods,
        }
    }
}

/// The nearest mark of the node and of the pods. A threshold that is met already has none: the loop acts on it.
pub fn marks<'a>(
    thresholds: impl Iterator<Item = &'a Threshold>,
    seen: &Observations,
    used: MemoryUsed,
) -> Vec<MemoryMark> {
    let mut marks: Vec<MemoryMark> = Vec::new();
    for threshold in thresholds {
        let of = match threshold.signal {
            Signal::MemoryAvailable => MemoryOf::Node,
            Signal::AllocatableMemoryAvailable => MemoryOf::Pods,
            Signal::NodeFsAvailable
            | Signal::NodeFsInodesFree
            | Signal::ImageFsAvailable
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree
            | Signal::PidAvailable => continue,
        };
        let Some((left, used)) = distance(threshold, seen).zip(used.of(of)) else { continue };
        let at = used.saturating_add(left);
        match marks.iter_mut().find(|mark| mark.of == of) {
            Some(mark) => mark.at = mark.at.min(at),
            None => marks.push(MemoryMark { of, at }),
        }
    }
    marks
}

/// How long until the next look. What memory does meanwhile is seen by the marks.
pub fn pause<'a>(thresholds: impl Iterator<Item = &'a Threshold>, seen: &Observations) -> Duration {
    let soonest = thresholds.filter_map(|threshold| {
        let rate = match threshold.signal.resource() {
            Starved::Memory => return None,
            Starved::EphemeralStorage => DISK_PER_SECOND,
            Starved::Inodes => INODES_PER_SECOND,
            Starved::Pids => PROCESSES_PER_SECOND,
        };
        Some(Duration::from_secs(distance(threshold, seen)? / rate))
    });
    soonest.min().unwrap_or(LONGEST).clamp(SHORTEST, LONGEST)
}

/// How much is left before the threshold is met; `None` if it is met, or unknown.
fn distance(threshold: &Threshold, seen: &Observations) -> Option<u64> {
    let observed = seen.get(threshold.signal)?;
    let at = threshold.value.of(observed.capacity).value();
    // The threshold is met below its value.
    u64::try_from(observed.available.checked_sub(at)?).ok().map(|left| left.saturating_add(1))
}
