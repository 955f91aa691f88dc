//! The inputs of a launch, apart from the pod: settings of the node, and results of the engine's preparations for this one
//! sandbox or container.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::{Device, DnsConfig, ImageSpec, Mount, UserNamespace};
use crate::id::ContainerId;
use crate::qos::{CgroupTree, CgroupVersion, CpuPolicy, PodCgroupPolicy};

/// The node's facts and settings that decide how pods are launched. Made once at start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchContext {
    /// The cgroups of pods.
    pub tree: CgroupTree,
    /// The kernel's cgroup layout.
    pub cgroups: CgroupVersion,
    /// Memory of the node in bytes.
    pub memory_bytes: i64,
    /// Huge page sizes of the host, in bytes.
    pub hugepage_sizes: Vec<u64>,
    /// How much swap containers get.
    pub swap: SwapPolicy,
    /// CFS quota.
    pub cpu: CpuPolicy,
    /// `singleProcessOOMKill`; `None` is the default of the cgroup version (RT-93).
    pub single_process_oom_kill: Option<bool>,
    /// `podPidsLimit`; zero or less is no limit (CG-12).
    pub pod_pids_limit: i64,
    /// Directory of pod logs, usually `/var/log/pods`.
    pub pod_logs_dir: PathBuf,
    /// Directory of seccomp profiles, `<root>/seccomp`.
    pub seccomp_dir: PathBuf,
    /// `seccompDefault`: a container without a profile gets the runtime's (RT-97).
    pub seccomp_default: bool,
    /// SELinux is enabled.
    pub selinux: bool,
    /// Paths that are masked in containers besides the fixed ones: those `thermal_throttle` directories of
    /// `/sys/devices/system/cpu/cpu*` that exist (RT-98).
    pub masked_paths: Vec<String>,
    /// `clusterDomain`.
    pub cluster_domain: String,
    /// Feature gates that change launches.
    pub gates: LaunchGates,
}

impl LaunchContext {
    /// What decides the values of pods' cgroups.
    pub fn pod_cgroup_policy(&self) -> PodCgroupPolicy {
        PodCgroupPolicy { cpu: self.cpu, pids_limit: self.pod_pids_limit, hugepage_sizes: self.hugepage_sizes.clone() }
    }
}

/// How much swap containers get (RT-94).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SwapPolicy {
    /// `memorySwap.swapBehavior` is `LimitedSwap`.
    pub limited: bool,
    /// Swap of the node in bytes.
    pub bytes: i64,
    /// The kernel can limit swap per cgroup; if not, swap is not set.
    pub controller: bool,
}

/// What a runtime handler can do. One that the runtime does not describe can do nothing beyond the basics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HandlerFeatures {
    /// It can make mounts read-only all the way down.
    pub recursive_read_only_mounts: bool,
    /// It can give a pod its own user namespace.
    pub user_namespaces: bool,
}

/// Feature gates that change launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchGates {
    /// `ContainerStopSignals`.
    pub stop_signals: bool,
    /// `EnvFiles`.
    pub env_files: bool,
    /// `HostnameOverride`.
    pub hostname_override: bool,
    /// `RuntimeClassInImageCriApi`: images are asked for by runtime handler.
    pub runtime_class_in_images: bool,
}

impl Default for LaunchGates {
    /// The defaults of v1.36.
    fn default() -> Self {
        Self { stop_signals: false, env_files: true, hostname_override: true, runtime_class_in_images: false }
    }
}

/// The inputs of a sandbox's configuration, apart from the node and the pod.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SandboxInputs {
    /// How many sandboxes the pod had before.
    pub attempt: u32,
    /// Handler of the pod's RuntimeClass; empty for the default one.
    pub runtime_handler: String,
    /// What this handler can do.
    pub features: HandlerFeatures,
    /// The content of `/etc/resolv.conf`, from `core::dns`.
    pub dns: Option<DnsConfig>,
    /// The ids reserved for the pod, if it requests a user namespace.
    pub user_namespace: Option<UserNamespace>,
    /// Supplementary groups of the pod's persistent volumes.
    pub volume_groups: Vec<i64>,
    /// The pod has exclusive CPUs, and no quota then (RT-90).
    pub exclusive_cpus: bool,
}

/// The inputs of a container's configuration, apart from the node and the pod. Borrowed: the engine owns the parts.
#[derive(Clone, Copy, Debug)]
pub struct ContainerInputs<'a> {
    /// The container; an ephemeral one goes through [`super::as_container`].
    pub container: &'a Container,
    /// How often it ran before.
    pub restart_count: u32,
    /// Hash of its definition (RT-71).
    pub hash: u64,
    /// The runtime's reference of its image.
    pub image_ref: &'a str,
    /// The user of the image.
    pub image_user: &'a ImageUser,
    /// Its environment, from `core::env`.
    pub envs: &'a [(String, String)],
    /// Addresses of the pod; empty on the node's network or while unknown.
    pub pod_ips: &'a [IpAddr],
    /// Where the pod's volumes are mounted, by name.
    pub volumes: &'a BTreeMap<String, PathBuf>,
    /// Paths of its `subPath` mounts, by index of the mount (MNT-02).
    pub subpaths: &'a BTreeMap<usize, PathBuf>,
    /// Images of the pod's image volumes, by name (MNT-07).
    pub image_volumes: &'a BTreeMap<String, ImageSpec>,
    /// Device nodes of the pod's block volumes, by name.
    pub block_devices: &'a BTreeMap<String, BlockDevice>,
    /// The hosts file of the pod; not every container mounts it (MNT-04).
    pub hosts_file: Option<&'a Path>,
    /// The empty file for the termination message, if it could be created (MNT-05).
    pub termination_file: Option<&'a Path>,
    /// The container whose processes an ephemeral container shares.
    pub target: Option<&'a ContainerId>,
    /// Additions of device plugins and resource claims.
    pub extra: &'a ExtraOptions,
    /// Handler of the pod's RuntimeClass; empty for the default one.
    pub runtime_handler: &'a str,
    /// What this handler can do.
    pub features: HandlerFeatures,
    /// The ids reserved for the pod, if it requests a user namespace.
    pub user_namespace: Option<&'a UserNamespace>,
    /// Supplementary groups of the pod's persistent volumes.
    pub volume_groups: &'a [i64],
    /// The container has exclusive CPUs, and no quota then (RT-90).
    pub exclusive_cpus: bool,
}

/// The user of an image: at most one of the two. Neither means root.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageUser {
    /// By number.
    pub uid: Option<i64>,
    /// By name.
    pub username: String,
}

/// A block volume's device node on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Path on the node.
    pub host_path: PathBuf,
    /// The volume is read-only.
    pub readonly: bool,
}

/// Additions of device plugins and resource claims to a container. Entries of the kubelet override them.
#[doc(alias = "RunContainerOptions")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ExtraOptions {
    /// Environment, before the container's own.
    pub envs: Vec<(String, String)>,
    /// Mounts, before the container's own.
    pub mounts: Vec<Mount>,
    /// Device nodes.
    pub devices: Vec<Device>,
    /// Names of CDI devices.
    pub cdi_devices: Vec<String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}
