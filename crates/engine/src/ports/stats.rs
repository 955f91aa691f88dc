//! What the node and its pods use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::ContainerId;
use rubelet_core::usage::{
    DiskUsage, FsStats, LayerUsage, MachineInfo, NetworkUsage, NodeDisks, NodeUsage, ProcessCount, Sample,
};

/// Something could not be measured. The text is for people only.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unmeasured(pub String);

/// How much of the cgroups a sample shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The node and all pods together, and no cgroup below: what eviction watches all the time.
    Node,
    /// CPU time, memory and swap of pods and containers: what `/metrics/resource` shows.
    CpuAndMemory,
    /// Besides, pressure, and the processes of containers: what the summary and eviction need.
    Usage,
    /// All of it, with open files: what `/metrics/cadvisor` shows.
    Everything,
}

/// The usage of cgroups and network namespaces, read from the kernel. Nothing is measured unless it is asked for.
#[async_trait]
pub trait Stats: Send + Sync {
    /// One look at the cgroups of the node: the root, those of pods with all below, and those configured for the system.
    /// What disappears meanwhile is left out.
    async fn sample(&self, detail: Detail) -> Result<Sample, Unmeasured>;
    /// The network namespaces of pods, each read through the cgroup of one of its containers; by the path of that cgroup.
    /// The path `/` is the node's own.
    async fn networks(&self, cgroups: &[String]) -> BTreeMap<String, NetworkUsage>;
    /// Processes of the machine.
    async fn processes(&self) -> Result<ProcessCount, Unmeasured>;
    /// The machine.
    async fn machine(&self) -> MachineInfo;
    /// Nobody has asked for some minutes: what was kept for the next sample can go. Does not wait.
    fn rest(&self) {}
}

/// The usage of disks. A file system that hangs delays none of the others.
#[async_trait]
pub trait Disks: Send + Sync {
    /// The file system that holds this path.
    async fn file_system(&self, path: &Path) -> Result<FsStats, Unmeasured>;
    /// What these directories or files take, each without what is mounted below it. Those that are missing take nothing;
    /// those that cannot be measured are left out. Answers after a bounded amount of work: a large directory is unfinished
    /// then, and the next question goes on where this one ended.
    async fn usage(&self, dirs: &[PathBuf]) -> BTreeMap<PathBuf, Walked>;
}

/// How far a directory was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// All of it.
    Whole(DiskUsage),
    /// Not all of it.
    Unfinished,
}

/// What only the runtime can tell.
#[async_trait]
pub trait RuntimeStats: Send + Sync {
    /// The writable layer of each container.
    async fn layers(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured>;
    /// The same, measured now where that is possible: a runtime's own figures may be seconds old.
    async fn layers_now(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
        self.layers().await
    }
}

/// What a reader of usage needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How much of the cgroups.
    pub detail: Detail,
    /// The networks of pods and of the node.
    pub networks: bool,
    /// File systems, volumes, logs and writable layers.
    pub disks: bool,
    /// An older look will do if it is not older than this. Zero measures anew, directories and layers too, which otherwise
    /// are measured now and then.
    pub max_age: Duration,
}

/// Usage with the names of pods: implemented by `engine::usage` for the server, the commands and eviction.
#[async_trait]
pub trait UsageReader: Send + Sync {
    /// All that is wanted, from one look.
    async fn usage(&self, wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured>;
    /// The memory of the node and of all pods together, and the machine's processes: what eviction watches all the time. A
    /// reader that can measure them without the cgroups of pods does.
    async fn node(&self) -> Result<Arc<NodeUsage>, Unmeasured> {
        let wanted = Wanted { detail: Detail::Node, networks: false, disks: false, max_age: Duration::ZERO };
        self.usage(wanted).await
    }
    /// The node's file systems alone. A reader that can measure them without the disks of pods does.
    async fn disks(&self, max_age: Duration) -> Result<NodeDisks, Unmeasured> {
        let wanted = Wanted { detail: Detail::Usage, networks: false, disks: true, max_age };
        Ok(self.usage(wanted).await?.disks)
    }
    /// The machine.
    async fn machine(&self) -> MachineInfo;
}
