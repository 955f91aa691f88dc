//! What the node and its pods use.
//!
//! A [`Sample`] is one look at the cgroups of the node. Every page that shows usage, and eviction, reads the same sample: the
//! pages are functions of it and of the pods. A value that could not be read is `None`, never zero.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

mod cadvisor_page;
mod machine_metrics;
mod node;
mod prometheus;
mod resource_page;
mod shown;
mod summary;

#[cfg(test)]
mod samples;

pub use cadvisor_page::CadvisorPage;
pub use node::*;
pub use resource_page::{resource_failure, resource_page};
pub use shown::{shown_interfaces, shown_pods};
pub use summary::{Parts, SummaryOf, summary};

use crate::id::{ContainerId, PodUid};
use crate::time::Now;

/// One look at the cgroups of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the look began.
    pub at: Now,
    /// The cgroups by their path below the root of the hierarchy, as cAdvisor's label `id` shows it: `/`, `/kubepods.slice`.
    pub cgroups: BTreeMap<String, CgroupSample>,
}

impl Sample {
    /// The cgroup of this kind. There is at most one, but for [`CgroupKind::Other`].
    pub fn find(&self, kind: &CgroupKind) -> Option<&CgroupSample> {
        self.cgroups.values().find(|cgroup| cgroup.kind == *kind)
    }
}

/// One cgroup of a [`Sample`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSample {
    /// What it holds.
    pub kind: CgroupKind,
    /// When it was made, as its directory shows it.
    pub created_at: Option<Timestamp>,
    /// What is used in it.
    pub usage: Usage,
    /// Its limits.
    pub limits: Limits,
}

/// What a cgroup holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CgroupKind {
    /// The root: the whole machine.
    Root,
    /// All pods.
    AllPods,
    /// The pods of one quality of service, or another level between all pods and one.
    PodsOfClass,
    /// One pod.
    Pod(PodUid),
    /// One container of a pod, or its sandbox: which of them, only the runtime's ids show.
    Container {
        /// The pod.
        pod: PodUid,
        /// The id that the runtime gave it.
        id: ContainerId,
    },
    /// A cgroup of the node that is configured: of the kubelet, the runtime or the system.
    System(SystemContainer),
    /// Any other, such as a child that a container made.
    Other,
}

/// A cgroup of the node that is no pod's, by the name that the summary shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemContainer {
    /// The kubelet.
    Kubelet,
    /// The container runtime.
    Runtime,
    /// Other processes of the system.
    Misc,
}

impl SystemContainer {
    /// The name. upstream: stats/v1alpha1 SystemContainerKubelet (v1.36)
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "runtime",
            Self::Misc => "misc",
        }
    }
}

/// What is used in a cgroup. Part by part, as a controller may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU.
    pub cpu: Option<CpuUsage>,
    /// Memory.
    pub memory: Option<MemoryUsage>,
    /// Swap; `None` if the kernel does not count it.
    pub swap_bytes: Option<u64>,
    /// I/O, by device.
    pub io: Vec<DeviceIo>,
    /// Processes and threads.
    pub tasks: Option<Tasks>,
    /// Open files and sockets, which are counted on request only, as every process has to be visited.
    pub files: Option<OpenFiles>,
    /// Pressure stall information (PSI); `None` without it, as on cgroup v1.
    pub pressure: Option<Pressure>,
    /// How often the kernel's OOM killer ended a process in it.
    pub oom_kills: Option<u64>,
}

/// CPU time, since the cgroup was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// All of it.
    pub total: Duration,
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// Under a CPU limit: its periods, and what was throttled.
    pub throttling: Option<Throttling>,
}

/// What a CPU limit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods that have passed.
    pub periods: u64,
    /// Periods in which the limit was reached.
    pub throttled_periods: u64,
    /// How long tasks waited for it.
    pub throttled: Duration,
}

/// Memory in bytes, unless a name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// All of it, page cache included.
    pub usage: u64,
    /// The most that it ever was.
    pub max_usage: Option<u64>,
    /// Anonymous memory.
    pub rss: u64,
    /// Page cache.
    pub cache: u64,
    /// Of it, what is mapped.
    pub mapped_file: u64,
    /// Page cache on the list of active pages.
    pub active_file: u64,
    /// Page cache on the list of inactive pages.
    pub inactive_file: u64,
    /// Memory of the kernel.
    pub kernel: Option<u64>,
    /// How often the limit was hit.
    pub fail_count: Option<u64>,
    /// Page faults of the cgroup and those below it.
    pub page_faults: u64,
    /// Of them, those that read from disk.
    pub major_page_faults: u64,
    /// Page faults of the cgroup alone; on cgroup v2 the same as those with all below.
    pub own_page_faults: u64,
    /// Of them, those that read from disk.
    pub own_major_page_faults: u64,
}

impl MemoryUsage {
    /// What cannot be reclaimed at once: the usage without inactive page cache.
    #[doc(alias = "workingSetBytes")]
    pub const fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }
}

/// I/O on one block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceIo {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Path below `/dev`, as `/dev/vda`; empty if it is unknown.
    pub device: String,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Processes and threads of a cgroup and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Threads.
    pub threads: u64,
    /// Most threads that are allowed; `None` for no limit.
    pub threads_max: Option<u64>,
    /// Processes; counted only where open files are.
    pub processes: Option<u64>,
}

/// Open files of the processes of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFiles {
    /// File descriptors.
    pub descriptors: u64,
    /// Of them, sockets.
    pub sockets: u64,
    /// The soft limit of open files of the first process; `None` for no limit.
    pub limit: Option<u64>,
}

/// Pressure stall information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Tasks that waited for a CPU.
    pub cpu: Stalls,
    /// Tasks that waited for memory.
    pub memory: Stalls,
    /// Tasks that waited for I/O.
    pub io: Stalls,
}

/// Both lines of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Some tasks waited.
    pub some: Stall,
    /// All tasks waited.
    pub full: Stall,
}

/// One line of a pressure file. Shares are in hundredths of a per cent, as the kernel has two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Over the last ten seconds.
    pub avg10: u32,
    /// Over the last minute.
    pub avg60: u32,
    /// Over the last five minutes.
    pub avg300: u32,
    /// The total.
    pub total: Duration,
}

/// Limits of a cgroup. `None` is no limit, or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Shares of the CPU; on cgroup v2 computed from the weight.
    pub cpu_shares: Option<u64>,
    /// CPU time in a period, in microseconds.
    pub cpu_quota: Option<i64>,
    /// The period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// The soft limit on cgroup v1, `memory.low` on cgroup v2.
    pub memory_reservation: Option<u64>,
    /// Swap in bytes; on cgroup v1 memory and swap together.
    pub swap: Option<u64>,
}

/// The network interfaces of one network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkUsage {
    /// Its interfaces but for the loopback one, in the kernel's order.
    pub interfaces: Vec<Interface>,
}

/// Counters of one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Received.
    pub receive: Traffic,
    /// Sent.
    pub transmit: Traffic,
}

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Errors.
    pub errors: u64,
    /// Dropped packets.
    pub dropped: u64,
}

/// A file system as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    /// Which device it is on: two paths of the same device are one file system.
    pub device: u64,
    /// Size in bytes.
    pub capacity: u64,
    /// Bytes that an ordinary user may still write.
    pub available: u64,
    /// Bytes in use.
    pub used: u64,
    /// Inodes; zero on file systems without a fixed number.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// What a directory takes on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// The writable layer of a container, which only the runtime knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerUsage {
    /// When the runtime measured it.
    pub at: Option<Timestamp>,
    /// What it takes; a part is `None` if the runtime does not know it.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

/// How many processes the machine may have, and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCount {
    /// `kernel.pid_max`, or the lower number of `kernel.threads-max`.
    pub max: u64,
    /// Threads that there are.
    pub current: u64,
}

/// The parts of the machine that never change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineInfo {
    /// Logical CPUs.
    pub cpus: u32,
    /// Physical cores.
    pub physical_cores: u32,
    /// Sockets.
    pub sockets: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Swap in bytes.
    pub swap_bytes: u64,
    /// NUMA nodes.
    pub numa_nodes: Vec<NumaNode>,
    /// When the machine started.
    pub boot_time: Option<Timestamp>,
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// `/sys/class/dmi/id/product_uuid`.
    pub system_uuid: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Huge pages: size in KiB and how many.
    pub hugepages: Vec<(u64, u64)>,
    /// Its cores: number, socket and logical CPUs of each.
    pub cores: Vec<Core>,
}

/// One physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: u32,
    /// The socket that it is on.
    pub socket: u32,
    /// Its logical CPUs.
    pub threads: Vec<u32>,
    /// Its caches: level, type and size in bytes.
    pub caches: Vec<(u32, String, u64)>,
}
