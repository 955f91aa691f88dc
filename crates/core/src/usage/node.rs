//! The usage of the node with names: which cgroup, network and directory belongs to which pod and container.
//!
//! The summary, the pages of metrics, `rubelet top` and eviction are functions of one [`NodeUsage`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{DiskUsage, FsStats, LayerUsage, NetworkUsage, ProcessCount, Sample};
use crate::id::{ContainerId, PodRef, SandboxId};

/// All that was measured in one look. A part that nobody asked for, or that could not be measured, is `None` or empty.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    /// The cgroups.
    pub sample: Arc<Sample>,
    /// CPU in use in billionths of a core, by the path of the cgroup: the difference of two samples. Absent for a cgroup that
    /// only one sample has.
    #[doc(alias = "usageNanoCores")]
    pub cpu_rates: BTreeMap<String, u64>,
    /// Pods with a sandbox or a container that runs, by namespace and name.
    pub pods: Vec<PodUsage>,
    /// The interfaces of the node itself.
    pub network: Option<NetworkUsage>,
    /// The node's file systems.
    pub disks: NodeDisks,
    /// Processes of the machine.
    pub processes: Option<ProcessCount>,
}

/// The file systems that the kubelet looks after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeDisks {
    /// That of the root directory: volumes, logs.
    pub nodefs: Option<FsStats>,
    /// That of images.
    pub imagefs: Option<FsStats>,
    /// That of writable layers; the same as `imagefs` unless the runtime splits them.
    pub containerfs: Option<FsStats>,
    /// What the runtime says that images take of `imagefs`.
    pub images: Option<DiskUsage>,
    /// What the runtime says that writable layers take of `containerfs`.
    pub layers: Option<DiskUsage>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// Namespace, name and UID. Of a static pod the UID of its manifest, as everywhere on the node.
    pub pod: PodRef,
    /// When the kubelet accepted it.
    pub started_at: Option<Timestamp>,
    /// Its network is the node's: counters would be those of the node (STS-04).
    pub host_network: bool,
    /// The path of its cgroup in the sample.
    pub cgroup: Option<String>,
    /// Its newest sandbox.
    pub sandbox: Option<SandboxUsage>,
    /// Its containers that run, by name.
    pub containers: Vec<ContainerUsage>,
    /// Its interfaces.
    pub network: Option<NetworkUsage>,
    /// Its volumes that have a directory of their own.
    pub volumes: Vec<VolumeUsage>,
    /// Files of the pod that are neither volumes nor logs: its hosts file and the like.
    pub own_files: Option<DiskUsage>,
}

/// The sandbox of a pod: its pause container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxUsage {
    /// The runtime's id.
    pub id: SandboxId,
    /// Its image.
    pub image: String,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// The path of its cgroup in the sample.
    pub cgroup: Option<String>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Name in the pod's spec.
    pub name: String,
    /// The runtime's id.
    pub id: ContainerId,
    /// Image as in the spec.
    pub image: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// The path of its cgroup in the sample.
    pub cgroup: Option<String>,
    /// Its writable layer.
    pub layer: Option<LayerUsage>,
    /// Its log files, those of earlier instances included.
    pub logs: Option<DiskUsage>,
}

/// One volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Name in the pod's spec.
    pub name: String,
    /// The claim that it comes from.
    pub claim: Option<String>,
    /// Its bytes are memory or belong to another machine: they take nothing of the node's disk.
    pub elsewhere: bool,
    /// What its files take.
    pub used: DiskUsage,
    /// The file system that it is on.
    pub on: Option<FsStats>,
    /// When it was measured.
    pub at: Timestamp,
}
