//! The observed state of a pod, as the runtime reports it.
//!
//! `PodObservation` is a full look at one pod; `PodSummary` is the entry of one pod in a list of all pods. Neither is the
//! API's `PodStatus`, which is decided by `core::status`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use crate::id::{ContainerId, PodRef, PodUid, SandboxId};
use crate::launch::NamespaceMode;
use crate::time::Instant;

/// A full look at one pod: all its sandboxes and containers in the runtime.
#[doc(alias = "kubecontainer.PodStatus")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObservation {
    /// The pod, from the labels of its sandboxes and containers.
    pub pod: PodRef,
    /// Sandboxes, newest first.
    pub sandboxes: Vec<SandboxObservation>,
    /// Containers, newest first; several of one name are instances of one container.
    pub containers: Vec<ContainerObservation>,
    /// When the look began: it cannot show containers that were started later.
    pub at: Instant,
}

impl PodObservation {
    /// A pod without sandboxes and containers.
    pub fn nothing(pod: PodRef, at: Instant) -> Self {
        Self { pod, sandboxes: Vec::new(), containers: Vec::new(), at }
    }

    /// The two looks at a pod differ only in their time.
    pub fn shows_the_same_as(&self, other: &Self) -> bool {
        let Self { pod, sandboxes, containers, at: _ } = self;
        *pod == other.pod && *sandboxes == other.sandboxes && *containers == other.containers
    }

    /// The newest instance of the container called `name`.
    #[doc(alias = "FindContainerStatusByName")]
    pub fn newest(&self, name: &str) -> Option<&ContainerObservation> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// The instance of the container called `name` that decisions go by: the newest that runs, else the newest.
    ///
    /// The two differ only after a clock was set back between two starts, or a reply was lost. To go by an instance that
    /// has ended would start the container twice.
    pub fn current<'a>(&'a self, name: &'a str) -> Option<&'a ContainerObservation> {
        self.instances(name).find(|c| c.state.is_running()).or_else(|| self.newest(name))
    }

    /// Every instance of the container called `name`, newest first.
    pub fn instances<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ContainerObservation> {
        self.containers.iter().filter(move |c| c.name == name)
    }

    /// Running containers.
    pub fn running(&self) -> impl Iterator<Item = &ContainerObservation> {
        self.containers.iter().filter(|c| c.state.is_running())
    }

    /// The newest sandbox, if it is ready.
    pub fn ready_sandbox(&self) -> Option<&SandboxObservation> {
        self.sandboxes.first().filter(|s| s.state == SandboxState::Ready)
    }

    /// The addresses of the newest sandbox that has any: a pod keeps its addresses after it has ended (PLEG-06).
    pub fn ips(&self) -> &[IpAddr] {
        self.sandboxes.iter().map(|s| s.ips.as_slice()).find(|ips| !ips.is_empty()).unwrap_or_default()
    }

    /// No container runs and no sandbox is ready: the pod has no process on this node.
    pub fn is_stopped(&self) -> bool {
        self.running().next().is_none() && self.sandboxes.iter().all(|s| s.state == SandboxState::NotReady)
    }
}

/// One sandbox of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxObservation {
    /// The runtime's id.
    pub id: SandboxId,
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
    /// Whether it can hold containers.
    pub state: SandboxState,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// The network namespace it uses.
    pub network: NamespaceMode,
    /// Addresses of the pod; empty on the node's network.
    pub ips: Vec<IpAddr>,
    /// Its runtime handler; empty for the default handler.
    pub runtime_handler: String,
}

/// Whether a sandbox can hold containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Its pause process runs and its network is set up.
    Ready,
    /// The sandbox has ended, or its creation is not complete.
    NotReady,
}

/// One instance of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerObservation {
    /// The runtime's id.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Name in the pod's spec, from the label.
    pub name: String,
    /// Its state.
    pub state: ContainerState,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// Image as in the spec.
    pub image: String,
    /// The runtime's reference of its image.
    pub image_id: String,
    /// The annotations that the kubelet set when it created the container.
    pub marks: ContainerMarks,
    /// Log file on the host, as the runtime reports it.
    pub log_path: String,
    /// Actuated resources, if the runtime reports them.
    pub resources: Option<ObservedResources>,
    /// User that its first process runs as, if the runtime reports it.
    pub user: Option<ContainerUser>,
}

impl ContainerObservation {
    /// The part of the container's definition that its annotations hold, for a hook with a named port (KILL-05).
    #[doc(alias = "restoreSpecsFromContainerLabels")]
    pub fn marks_as_container(&self) -> Container {
        let ports = self.marks.ports.as_deref().and_then(|json| serde_json::from_str(json).ok());
        Container { name: self.name.clone(), ports, ..Container::default() }
    }
}

/// Annotations that a kubelet reads back after a restart (section 7.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerMarks {
    /// `io.kubernetes.container.hash`: the definition it was made from. `None` if it is absent or not hexadecimal.
    pub hash: Option<u64>,
    /// `io.kubernetes.container.restartCount`.
    pub restart_count: u32,
    /// `io.kubernetes.container.terminationMessagePath`.
    pub termination_message_path: String,
    /// `io.kubernetes.container.terminationMessagePolicy`.
    pub termination_message_policy: String,
    /// `io.kubernetes.container.preStopHandler`, JSON.
    pub pre_stop: Option<String>,
    /// `io.kubernetes.container.ports`, JSON.
    pub ports: Option<String>,
    /// `io.kubernetes.pod.terminationGracePeriod`, seconds.
    pub pod_grace: Option<i64>,
    /// `io.kubernetes.pod.deletionGracePeriod`, seconds.
    pub deletion_grace: Option<i64>,
    /// Host path mounted at the termination message path, if the runtime lists mounts.
    pub termination_message_host_path: Option<String>,
}

/// The state of a container instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Its first process runs.
    Running {
        /// When it was started.
        started_at: Timestamp,
    },
    /// Its first process has ended.
    Exited(Exit),
    /// The runtime does not know its state.
    Unknown,
}

impl ContainerState {
    /// Its first process runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    /// How the container ended, if it did.
    pub fn exit(&self) -> Option<&Exit> {
        match self {
            Self::Exited(exit) => Some(exit),
            Self::Created | Self::Running { .. } | Self::Unknown => None,
        }
    }

    /// The state without its details, as lists of containers have it and PLEG compares it.
    pub fn kind(&self) -> ContainerStateKind {
        match self {
            Self::Created => ContainerStateKind::Created,
            Self::Running { .. } => ContainerStateKind::Running,
            Self::Exited(_) => ContainerStateKind::Exited,
            Self::Unknown => ContainerStateKind::Unknown,
        }
    }
}

/// How a container instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit code of its first process.
    pub code: i32,
    /// When it was started; the epoch if it never was.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The runtime's reason: `Completed`, `Error`, `OOMKilled`, `StartError` … (RT-111).
    pub reason: String,
    /// The runtime's message, completed with the termination message (RT-110).
    pub message: String,
}

/// `ContainerState` without details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerStateKind {
    /// Created, never started.
    Created,
    /// Running.
    Running,
    /// Ended.
    Exited,
    /// Unknown to the runtime.
    Unknown,
}

/// CPU and memory settings that the runtime reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedResources {
    /// CPU shares (v1 scale).
    pub cpu_shares: Option<i64>,
    /// CFS quota in microseconds per period.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<i64>,
    /// Memory limit in bytes.
    pub memory_limit: Option<i64>,
}

/// User that a container's first process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUser {
    /// User id.
    pub uid: i64,
    /// Primary group id.
    pub gid: i64,
    /// Supplementary group ids.
    pub supplemental_groups: Vec<i64>,
}

/// One pod in a list of all pods: enough to see a change, too little to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSummary {
    /// The pod, from its labels.
    pub pod: PodRef,
    /// Its sandboxes.
    pub sandboxes: BTreeMap<SandboxId, SandboxSummary>,
    /// Its containers.
    pub containers: BTreeMap<ContainerId, ContainerSummary>,
}

impl PodSummary {
    /// A sandbox or container of the pod may have a process.
    pub fn is_running(&self) -> bool {
        self.sandboxes.values().any(|s| s.state == SandboxState::Ready)
            || self.containers.values().any(|c| c.state == ContainerStateKind::Running)
    }
}

/// A sandbox in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSummary {
    /// Whether it can hold containers.
    pub state: SandboxState,
    /// How many sandboxes the pod had before it.
    pub attempt: u32,
    /// When the runtime created it.
    pub created_at: Timestamp,
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    /// Name in the spec.
    pub name: String,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// Its state.
    pub state: ContainerStateKind,
    /// When the runtime created it.
    pub created_at: Timestamp,
    /// Restart count, from the annotation; part of the name of its log file.
    pub restart_count: u32,
    /// The runtime's reference of its image.
    pub image_id: String,
}

/// "Look at this pod": all that an event of the runtime, or a difference between two lists, may mean. The pod's job asks the
/// runtime for the facts, so a hint carries none.
#[doc(alias = "PodLifecycleEvent")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The pod to look at.
    pub uid: PodUid,
}

#[cfg(test)]
mod tests;
