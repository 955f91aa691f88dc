//! What every job on a pod needs: the ports, the node's facts and settings, the clock, and the shared limits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use rubelet_core::admit::{AdmitView, SysctlAllowlist};
use rubelet_core::backoff::BackoffPolicy;
use rubelet_core::gc::GcPolicy;
use rubelet_core::image_gc::ImageGcPolicy;
use rubelet_core::launch::LaunchContext;
use rubelet_core::lifecycle::Pace;
use rubelet_core::log_rotation::LogRotation;
use rubelet_core::node::NodeCgroups;
use rubelet_core::plan::PlanGates;
use rubelet_core::resources::Amounts;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::ended::EndedHandle;
use crate::image_gc::ImageGcHandle;
use crate::images::PullerHandle;
use crate::log_rotation::LogRotatorHandle;
use crate::metrics::Metrics;
use crate::node_now::NodeNow;
use crate::ports::{
    Cgroups, Checkpoints, ClusterPorts, EnvFiles, Events, HostFiles, ImageDisks, Images, LogCleaner, LogFiles,
    NodeAddresses, NodeFacts, NodeLogins, NodeProcesses, OwnMemory, PodDirs, PodLogs, Probes, Rng, Runtime, Subpaths,
    VolumePlugin,
};
use crate::slots::StartSlots;
use crate::status::StatusMail;
use crate::trace::Tracer;

/// The world outside the engine.
#[derive(Clone)]
pub struct Ports {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Its images.
    pub images: Arc<dyn Images>,
    /// The file systems that hold them.
    pub image_disks: Arc<dyn ImageDisks>,
    /// Logins that the node has for registries.
    pub logins: Arc<dyn NodeLogins>,
    /// The cgroup tree.
    pub cgroups: Arc<dyn Cgroups>,
    /// Processes of the node.
    pub processes: Arc<dyn NodeProcesses>,
    /// Pod directories.
    pub dirs: Arc<dyn PodDirs>,
    /// Container logs.
    pub logs: Arc<dyn PodLogs>,
    /// Removal of logs.
    pub log_cleaner: Arc<dyn LogCleaner>,
    /// Files of logs, for their rotation.
    pub log_files: Arc<dyn LogFiles>,
    /// `subPath` mounts.
    pub subpaths: Arc<dyn Subpaths>,
    /// Files of variables in volumes.
    pub env_files: Arc<dyn EnvFiles>,
    /// Every kind of volume that can be served.
    pub volumes: Vec<Arc<dyn VolumePlugin>>,
    /// What outlives the process.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// Files of the node that pods inherit from.
    pub host_files: Arc<dyn HostFiles>,
    /// Where events go.
    pub events: Arc<dyn Events>,
    /// The node's addresses.
    pub addresses: Arc<dyn NodeAddresses>,
    /// Probes over the network.
    pub probes: Arc<dyn Probes>,
    /// Memory of our own.
    pub memory: Arc<dyn OwnMemory>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// The API server; a node without one runs static pods alone.
    pub cluster: Option<ClusterPorts>,
}

/// What configuration, flags and gates come down to for the engine. Made once, at start-up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who answers on the runtime's socket: the scheme of container ids.
    pub runtime_name: String,
    /// How often to act with no event.
    pub pace: Pace,
    /// How containers that keep ending are slowed down.
    pub crash_backoff: BackoffPolicy,
    /// How sandboxes and containers are configured.
    pub launch: LaunchContext,
    /// The cgroups of the node itself.
    pub node_cgroups: NodeCgroups,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// Gates that change plans.
    pub plan_gates: PlanGates,
    /// How many pods are started at the same time.
    pub parallel_starts: usize,
    /// How many dead containers are kept.
    pub gc: GcPolicy,
    /// When images are removed.
    pub image_gc: ImageGcPolicy,
    /// How container logs are rotated; `None` if they are not.
    pub log_rotation: Option<LogRotation>,
    /// Which pods may run here.
    pub admission: Admission,
    /// How often the node's addresses are read.
    pub address_period: Duration,
}

/// Which pods may run here, by the node's own configuration. What counts now is in [`NodeNow`].
#[derive(Clone, Debug)]
pub struct Admission {
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Resources of the node less what is reserved.
    pub allocatable: Amounts,
    /// Extended resources that the API's object may list and that nothing on this node serves.
    pub unserved: BTreeSet<String>,
    /// Kernel settings that pods may make.
    pub sysctls: SysctlAllowlist,
}

/// The node, as a job on a pod sees it.
pub struct Node {
    /// The world.
    pub ports: Ports,
    /// What the node is for as long as this process runs.
    pub facts: NodeFacts,
    /// How it is configured.
    pub settings: Settings,
    /// Time.
    pub clock: Clock,
    /// Makes spans of what jobs do.
    pub(crate) tracer: Tracer,
    /// Where pod statuses go.
    pub(crate) status: StatusMail,
    /// Pulls images, in turn and within limits.
    pub puller: PullerHandle,
    /// Removes images that nothing uses.
    pub image_gc: ImageGcHandle,
    /// Rotates the logs of containers.
    pub(crate) log_rotator: LogRotatorHandle,
    /// Remembers the pods that have ended.
    pub(crate) ended: EndedHandle,
    /// Slots for what is being started.
    pub(crate) starts: StartSlots,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// What the node is now: see [`Node::now`].
    pub(crate) now: watch::Receiver<Arc<NodeNow>>,
}

impl Node {
    /// What the node is now.
    pub(crate) fn now(&self) -> Arc<NodeNow> {
        Arc::clone(&self.now.borrow())
    }

    /// What admission knows of the node.
    pub(crate) fn admit_view<'a>(&'a self, now: &'a NodeNow) -> AdmitView<'a> {
        AdmitView {
            node_name: &self.facts.name,
            labels: &now.labels,
            taints: &now.taints,
            allocatable: &now.allocatable,
            sysctls: &self.settings.admission.sysctls,
            apparmor: self.facts.apparmor,
            supplemental_groups_policy: now.runtime.status.supplemental_groups_policy,
            shutting_down: now.shutting_down,
            pressure: now.pressure,
        }
    }
}
