//! What was measured of each signal (EV-01).

use std::collections::BTreeMap;

use super::Signal;
use crate::time::Instant;
use crate::usage::{CgroupKind, CgroupSample, FsStats, NodeDisks, NodeUsage, Sample};

/// One signal, measured once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What is left.
    pub available: i64,
    /// All there is.
    pub capacity: i64,
    /// When it was measured.
    pub at: Instant,
}

/// Which file systems are one and the same (EV-16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskLayout {
    /// Volumes, logs, images and writable layers share one.
    #[default]
    One,
    /// Images and writable layers have one of their own.
    #[doc(alias = "HasDedicatedImageFs")]
    SeparateImages,
    /// Images have one of their own, writable layers are elsewhere.
    #[doc(alias = "HasDedicatedContainerFs")]
    SplitLayers,
}

impl DiskLayout {
    /// `None` until the file systems of the node and of images were measured.
    pub fn of(disks: &NodeDisks) -> Option<Self> {
        let (node, images) = (disks.nodefs?, disks.imagefs?);
        let layers = disks.containerfs.unwrap_or(images);
        Some(match (images.device == node.device, layers.device == images.device) {
            (true, _) => Self::One,
            (false, true) => Self::SeparateImages,
            (false, false) => Self::SplitLayers,
        })
    }
}

/// Whether page cache on the list of active pages counts as used memory. The kernel can reclaim most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageCache {
    /// It does, as upstream's working set has it.
    #[default]
    Counts,
    /// It does not (k/k#43916).
    Reclaimable,
}

/// All signals of one look. A signal that could not be measured is absent, and meets no threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    signals: BTreeMap<Signal, Observation>,
    /// Which file systems are the same; `None` while one of them cannot be measured.
    pub layout: Option<DiskLayout>,
}

impl Observations {
    /// Nothing measured yet, on disks like these.
    pub fn on(layout: Option<DiskLayout>) -> Self {
        Self { signals: BTreeMap::new(), layout }
    }

    /// From one look at the node. The disks were measured apart, at their own time; `memory` is that of the
    /// machine.
    #[doc(alias = "makeSignalObservations")]
    pub fn of(usage: &NodeUsage, (disks, disks_at): (&NodeDisks, Instant), memory: u64, cache: PageCache) -> Self {
        let at = usage.sample.at.mono;
        let mut seen = Self::on(DiskLayout::of(disks));
        if let Some(observation) = memory_of(&usage.sample, &CgroupKind::Root, Some(memory), cache) {
            seen.signals.insert(Signal::MemoryAvailable, observation);
        }
        if let Some(observation) = memory_of(&usage.sample, &CgroupKind::AllPods, None, cache) {
            seen.signals.insert(Signal::AllocatableMemoryAvailable, observation);
        }
        for (fs, space, inodes) in [
            (disks.nodefs, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
            (disks.imagefs, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
            (disks.containerfs.or(disks.imagefs), Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
        ] {
            if let Some(fs) = fs {
                seen.disk(&fs, space, inodes, disks_at);
            }
        }
        // A machine without a limit on processes reports zero, or nothing.
        if let Some(processes) = usage.processes.filter(|processes| processes.max > 0) {
            let free = processes.max.saturating_sub(processes.current);
            seen.put(Signal::PidAvailable, free, processes.max, at);
        }
        seen
    }

    /// Adds a signal.
    pub fn insert(&mut self, signal: Signal, observation: Observation) {
        self.signals.insert(signal, observation);
    }

    /// The observation of a signal, if it was measured.
    pub fn get(&self, signal: Signal) -> Option<Observation> {
        self.signals.get(&signal).copied()
    }

    fn disk(&mut self, fs: &FsStats, space: Signal, inodes: Signal, at: Instant) {
        // A file system of no size is one that could not be measured; one without a number of inodes cannot run out of them.
        if fs.capacity > 0 {
            self.put(space, fs.available, fs.capacity, at);
        }
        if fs.inodes > 0 {
            self.put(inodes, fs.inodes_free, fs.inodes, at);
        }
    }

    fn put(&mut self, signal: Signal, available: u64, capacity: u64, at: Instant) {
        self.signals.insert(signal, Observation { available: whole(available), capacity: whole(capacity), at });
    }
}

/// What is left of the limit of a cgroup. Without a limit nothing is known.
fn memory_of(sample: &Sample, kind: &CgroupKind, machine: Option<u64>, cache: PageCache) -> Option<Observation> {
    let CgroupSample { usage, limits, .. } = sample.find(kind)?;
    let limit = match machine {
        Some(machine) => machine,
        None => limits.memory?,
    };
    let memory = usage.memory.as_ref()?;
    if limit == 0 {
        return None;
    }
    let used = match cache {
        PageCache::Counts => memory.working_set(),
        PageCache::Reclaimable => memory.working_set().saturating_sub(memory.active_file),
    };
    let available = limit.saturating_sub(used);
    Some(Observation { available: whole(available), capacity: whole(limit), at: sample.at.mono })
}

fn whole(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
