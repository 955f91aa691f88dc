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
    /// It must be there, and is not.
    #[error("cgroup {path} has some missing paths: {}", places.join(", "))]
    NotThere {
        /// Which cgroup.
        path: String,
        /// Its directories and controllers that are missing.
        places: Vec<String>,
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

/// How a cgroup compares with the one that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupState {
    /// It has every value that is set.
    AsWanted,
    /// It has other values; one sentence for each.
    Differs(Vec<String>),
    /// It does not exist, or not in every hierarchy that pods need: these directories or controllers are missing.
    Missing(Vec<String>),
}

/// Making, setting and removing cgroups (section 19).
#[async_trait]
pub trait Cgroups: Send + Sync {
    /// Makes the cgroup, in every hierarchy that pods need, and sets its values. Doing so again is harmless.
    async fn ensure(&self, path: &CgroupPath, values: &CgroupValues) -> Result<(), CgroupError>;
    /// Compares it with these values, and changes nothing.
    async fn look(&self, path: &CgroupPath, values: &CgroupValues) -> Result<CgroupState, CgroupError>;
    /// Kills what is left in it and removes it with all below. Removing what is gone succeeds (CG-13).
    async fn destroy(&self, path: &CgroupPath) -> Result<(), CgroupError>;
    /// Bytes of memory in use in it, or in the cgroup of a container below it.
    async fn memory_used(&self, path: &CgroupPath, container: Option<&ContainerId>) -> Result<u64, CgroupError>;
    /// Every pod that has a cgroup, by UID, with its path (HK-01).
    async fn pods(&self) -> Result<Vec<(PodUid, CgroupPath)>, CgroupError>;
}

/// Moving processes of the node into cgroups of their own (CG-24). A cgroup is named by its plain path in every hierarchy,
/// under either driver, and made if it is missing.
#[async_trait]
pub trait NodeProcesses: Send + Sync {
    /// Moves this agent into the cgroup, if one is named and the agent is not there, and sets the agent's OOM score.
    async fn keep_agent(&self, cgroup: Option<&str>) -> Result<(), CgroupError>;
    /// Moves all processes of the root cgroup into this one, but for PID 1 and the kernel's threads. Returns how many.
    async fn keep_system(&self, cgroup: &str) -> Result<usize, CgroupError>;
}
