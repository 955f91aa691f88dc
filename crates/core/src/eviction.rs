//! Eviction: which pod ends when the node runs short of memory, disk or process IDs, and what the node reports (section 17).
//!
//! ```text
//!  NodeUsage ─► Observations ─► EvictionState::step ─► pressure          (node conditions, admission)
//!                                        └──────────► starved thresholds ─► reclaim ─► rank ─► Victim
//!  PodStats  ─► over_limit (local storage) ─► Victim
//! ```
//!
//! The state remembers only when each threshold was first met and when each condition was last observed. Each decision
//! starts from a new look, and ends one pod at most, apart from pods over a limit of their own.
//! upstream: `pkg/kubelet/eviction` (v1.36)

mod advice;
mod limits;
mod message;
mod observe;
mod pace;
mod rank;
mod state;
mod stats;
mod threshold;
mod victim;

#[cfg(test)]
mod tests;

use std::fmt;

pub use advice::unworkable;
pub use limits::{LocalLimit, has_local_limit, over_limit};
pub use message::{NodeLow, eviction_message};
pub use observe::{DiskLayout, Observation, Observations, PageCache};
pub use pace::{MemoryMark, MemoryOf, MemoryUsed, marks, pause};
pub use rank::{Candidate, rank};
pub use state::{Decision, EvictionState, Recalled};
pub use stats::{ContainerStats, FsUse, PodStats, pod_stats};
pub use threshold::{EvictionError, EvictionPolicy, Threshold, ThresholdValue, parse_thresholds};
pub use victim::{EVICTED, Victim, victim_of_limit, victim_of_threshold};

/// What is measured on the node, by the names that thresholds have in the configuration (EV-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Memory of the node that is not in its working set.
    MemoryAvailable,
    /// The limit on all pods less their working set.
    AllocatableMemoryAvailable,
    /// Bytes that are free where volumes and logs are.
    NodeFsAvailable,
    /// Inodes that are free there.
    NodeFsInodesFree,
    /// Bytes that are free where images are.
    ImageFsAvailable,
    /// Inodes that are free there.
    ImageFsInodesFree,
    /// Bytes that are free where writable layers are.
    ContainerFsAvailable,
    /// Inodes that are free there.
    ContainerFsInodesFree,
    /// Process IDs that are free.
    PidAvailable,
}

impl Signal {
    /// All signals, in the order in which they are acted on: memory first, as upstream; the rest in an order of ours, where
    /// upstream's is that of a map.
    pub const ALL: [Self; 9] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::ContainerFsAvailable,
        Self::ContainerFsInodesFree,
        Self::PidAvailable,
    ];

    /// Upstream's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::ContainerFsAvailable => "containerfs.available",
            Self::ContainerFsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The signal of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == name)
    }

    /// What the node is short of when a threshold of this signal is met.
    pub const fn resource(self) -> Starved {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Starved::Memory,
            Self::NodeFsAvailable | Self::ImageFsAvailable | Self::ContainerFsAvailable => Starved::EphemeralStorage,
            Self::NodeFsInodesFree | Self::ImageFsInodesFree | Self::ContainerFsInodesFree => Starved::Inodes,
            Self::PidAvailable => Starved::Pids,
        }
    }

    /// The condition that the node reports then.
    pub const fn condition(self) -> PressureKind {
        match self.resource() {
            Starved::Memory => PressureKind::Memory,
            Starved::EphemeralStorage | Starved::Inodes => PressureKind::Disk,
            Starved::Pids => PressureKind::Pid,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the node is short of, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Starved {
    /// Memory.
    Memory,
    /// Bytes of a disk.
    EphemeralStorage,
    /// Inodes of a disk.
    Inodes,
    /// Process IDs.
    Pids,
}

impl Starved {
    /// Upstream's name of the resource.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The three conditions of a node under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureKind {
    /// `MemoryPressure`
    Memory,
    /// `DiskPressure`
    Disk,
    /// `PIDPressure`
    Pid,
}

impl PressureKind {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    /// The type of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }
}

/// What can be freed before a pod ends (EV-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Dead containers, also those of pods that are there still.
    #[doc(alias = "DeleteAllUnusedContainers")]
    DeadContainers,
    /// Images that no container uses.
    #[doc(alias = "DeleteUnusedImages")]
    UnusedImages,
}
