//! What the node is.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use async_trait::async_trait;

use super::FileError;

pub use rubelet_core::qos::CgroupVersion;

/// Facts of the node that do not change while this process runs. The binary reads them once at start. What may change is
/// in [`NodeNow`](crate::node_now::NodeNow).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name of the node, lower case (BOOT-03).
    pub name: String,
    /// Hostname of the machine.
    pub hostname: String,
    /// CPUs in thousandths.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Swap in bytes.
    pub swap_bytes: i64,
    /// Huge page sizes that the host knows, as the kernel's directory names give them, in bytes.
    pub hugepage_sizes: Vec<u64>,
    /// Which cgroup layout pods live in.
    pub cgroups: CgroupVersion,
    /// Path of the node's resolv.conf content: read anew for each sandbox (DNS-03), so only the path is a fact.
    pub resolv_conf: String,
    /// AppArmor is enabled.
    pub apparmor: bool,
    /// SELinux is enabled.
    pub selinux: bool,
    /// The kernel can limit the swap of a cgroup.
    pub swap_controller: bool,
    /// The `thermal_throttle` directories of the CPUs: they show the load of other tenants (RT-98).
    pub thermal_throttle_paths: Vec<String>,
    /// Major and minor version of the kernel; zero if it cannot be read.
    pub kernel: (u32, u32),
}

/// Files of the node that pods inherit from, read anew for each pod.
#[async_trait]
pub trait HostFiles: Send + Sync {
    /// The node's resolv.conf; `None` if the configuration names none (DNS-03).
    async fn resolv_conf(&self) -> Result<Option<String>, FileError>;
    /// The node's `/etc/hosts`, for pods on its network (HOST-01).
    async fn hosts(&self) -> Result<String, FileError>;
}

/// The memory of this process.
#[async_trait]
pub trait OwnMemory: Send + Sync {
    /// Returns freed memory to the machine: after a burst this process does not need it again soon.
    async fn trim(&self);
}

/// A process that keeps sockets open when this process ends, so that the runtime at the other end completes the calls in
/// flight (ADR 13). Neither method waits, and neither fails: without the holder everything works, but calls in flight end
/// with this process.
pub trait SocketHolder: Send + Sync {
    /// Keeps a duplicate of a connected socket until either side shuts the connection down.
    fn hold(&self, socket: BorrowedFd<'_>);
    /// How long the duplicates are to be kept after the end of this process; zero if nothing is in flight.
    fn keep_after_end(&self, time: Duration);
}

/// The node's addresses: they may change, and may not be there yet when the node starts.
#[async_trait]
pub trait NodeAddresses: Send + Sync {
    /// The addresses, primary family first (NODE-12).
    async fn addresses(&self) -> Result<Vec<IpAddr>, AddressesUnknown>;
}

/// The node's addresses could not be read. The text is for people only.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct AddressesUnknown(pub String);
