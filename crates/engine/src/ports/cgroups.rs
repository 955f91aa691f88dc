//! The cgroup tree below the node's root.

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::qos::{CgroupPath, CgroupValues};

/// A cgroup could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A controller that pods need is missing.
    #[error("cgroup controller {controller} is not available")]
    MissingController {
        /// The controller.
        controller: String,
    },
    /// A file or directory could not be read or written.
    #[error("{action} cgroup {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// systemd could not make, set or stop the unit of a cgroup.
    #[error("{action} systemd unit {unit}")]
    Unit {
        /// What was tried.
        action: &'static str,
        /// The unit's name.
        unit: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Processes are left in it that cannot be killed.
    #[error("cgroup {path} still holds {left} processes after SIGKILL")]
    Busy {
        /// Where.
        path: String,
        /// How many.
        left: usize,
    },
}

/// Making, setting and removing cgroups (section 19).
#[async_trait]
pub trait Cgroups: Send + Sync {
    /// Makes the cgroup, in every hierarchy that pods need, and sets its values. Doing so again is harmless.
    async fn ensure(&self, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError>;
    /// Kills what is left in it and removes it with all below. Removing what is gone succeeds (CG-13).
    async fn destroy(&self, path: &CgroupPath) -> Result<(), CgroupError>;
    /// Bytes of memory in use in it, or in the cgroup of a container below it.
    async fn memory_used(&self, path: &CgroupPath, container: Option<&ContainerId>) -> Result<u64, CgroupError>;
    /// Every pod that has a cgroup, by UID, with its path (HK-01).
    async fn pods(&self) -> Result<Vec<(PodUid, CgroupPath)>, CgroupError>;
}
