//! In which order pods end (EV-11).

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::stats::{FsUse, PodStats, local_volumes, request};
use super::{DiskLayout, Signal, Starved};
use crate::pod::PodExt;
use crate::resources::{Amount, EPHEMERAL_STORAGE, MEMORY};

/// A pod that may end, and what it uses; `None` for a pod without any statistics.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What it uses.
    pub stats: Option<PodStats>,
}

/// Orders pods so that the first is the one to end.
///
/// By memory and disk: first a pod that uses more than it requested, then one of lower priority, then the one furthest above
/// its request. By process IDs: first one of lower priority, then the one with most processes. Pods that are equal in all of
/// that stay in the order of their UIDs; upstream's order is any.
/// upstream: eviction/helpers.go rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure, buildSignalToRankFunc (v1.36)
#[doc(alias = "rankMemoryPressure")]
#[doc(alias = "rankDiskPressureFunc")]
#[doc(alias = "rankPIDPressure")]
pub fn rank(signal: Signal, layout: DiskLayout, candidates: &mut [Candidate]) {
    candidates.sort_by_cached_key(|candidate| {
        let (priority, uid) = (priority(&candidate.pod), candidate.pod.metadata.uid.clone());
        let found = candidate.stats.is_some();
        match signal.resource() {
            Starved::Pids => {
                let processes = candidate.stats.as_ref().and_then(|stats| stats.processes).unwrap_or_default();
                Key::ByPriority(priority, found, Reverse(processes), uid)
            }
            Starved::Memory => {
                let used = candidate.stats.as_ref().map(|stats| amount(stats.memory.unwrap_or_default()));
                let requested = request(&candidate.pod, MEMORY);
                Key::over(used, requested, requested, priority, uid)
            }
            disk @ (Starved::EphemeralStorage | Starved::Inodes) => {
                let used = candidate.stats.as_ref().map(|stats| disk_use(signal, layout, &candidate.pod, stats));
                // Upstream takes the request for bytes off the number of inodes.
                let (own, bytes) = (request(&candidate.pod, disk.as_str()), request(&candidate.pod, EPHEMERAL_STORAGE));
                Key::over(used, own, bytes, priority, uid)
            }
        }
    });
}

/// The smaller one ends first. Keys of one ranking are of one kind.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Pods without statistics first, then those above their request, by priority, by how far.
    ByUse(bool, Reverse<bool>, i32, Reverse<Amount>, Option<String>),
    ByPriority(i32, bool, Reverse<u64>, Option<String>),
}

impl Key {
    fn over(used: Option<Amount>, requested: Amount, base: Amount, priority: i32, uid: Option<String>) -> Self {
        match used {
            None => Self::ByUse(false, Reverse(false), priority, Reverse(Amount::ZERO), uid),
            Some(used) => Self::ByUse(true, Reverse(used > requested), priority, Reverse(used - base), uid),
        }
    }
}

#[doc(alias = "PodPriority")]
fn priority(pod: &Pod) -> i32 {
    pod.pod_spec().and_then(|spec| spec.priority).unwrap_or_default()
}

pub(super) fn amount(number: u64) -> Amount {
    Amount::units(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Which parts of a pod are on a file system.
#[derive(Clone, Copy)]
struct Parts {
    layers: bool,
    logs: bool,
    volumes: bool,
}

/// What of a pod is on the file system of a signal. Images are no pod's.
fn parts(signal: Signal, layout: DiskLayout) -> Parts {
    let (none, all) =
        (Parts { layers: false, logs: false, volumes: false }, Parts { layers: true, logs: true, volumes: true });
    let of_images = matches!(signal, Signal::ImageFsAvailable | Signal::ImageFsInodesFree);
    let of_node = matches!(signal, Signal::NodeFsAvailable | Signal::NodeFsInodesFree);
    match layout {
        DiskLayout::One => all,
        DiskLayout::SeparateImages if of_node => Parts { layers: false, ..all },
        DiskLayout::SeparateImages => Parts { layers: true, ..none },
        DiskLayout::SplitLayers if of_images => none,
        DiskLayout::SplitLayers => all,
    }
}

#[doc(alias = "podDiskUsage")]
fn disk_use(signal: Signal, layout: DiskLayout, pod: &Pod, stats: &PodStats) -> Amount {
    let parts = parts(signal, layout);
    let bytes = signal.resource() == Starved::EphemeralStorage;
    let of = |used: &FsUse| amount(if bytes { used.bytes } else { used.inodes }.unwrap_or_default());
    let mut sum = Amount::ZERO;
    for container in &stats.containers {
        let layer = container.layer.as_ref().filter(|_| parts.layers);
        let logs = container.logs.as_ref().filter(|_| parts.logs);
        for used in layer.into_iter().chain(logs) {
            sum = sum + of(used);
        }
    }
    if parts.volumes {
        for volume in local_volumes(pod) {
            if let Some((_, used)) = stats.volumes.iter().find(|(name, _)| *name == volume.name) {
                sum = sum + of(used);
            }
        }
    }
    sum
}
