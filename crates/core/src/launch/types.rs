//! The vocabulary of a launch. Field names follow CRI v1, so that the adapter is a plain copy.

use std::collections::BTreeMap;

/// The namespace (network, IPC, PID, user) of a sandbox or container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum NamespaceMode {
    /// The pod's own.
    #[default]
    Pod,
    /// One per container.
    Container,
    /// The node's.
    Node,
    /// That of the container with this id (ephemeral containers).
    Target(String),
}

/// The four namespaces that a pod chooses (RT-82).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Namespaces {
    /// Network.
    pub network: NamespaceMode,
    /// Process ids.
    pub pid: NamespaceMode,
    /// System V IPC and POSIX message queues.
    pub ipc: NamespaceMode,
    /// User ids: `None` leaves the node's.
    pub user: Option<UserNamespace>,
}

/// A user namespace of the pod's own.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UserNamespace {
    /// Mapping of user ids.
    pub uids: Vec<IdMapping>,
    /// Mapping of group ids.
    pub gids: Vec<IdMapping>,
}

/// One range of a user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMapping {
    /// First id on the node.
    pub host_id: u32,
    /// First id in the container.
    pub container_id: u32,
    /// How many.
    pub length: u32,
}

/// The configuration in `RunPodSandbox` (RT-80, RT-81).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SandboxConfig {
    /// Pod name.
    pub name: String,
    /// Pod UID.
    pub uid: String,
    /// Pod namespace.
    pub namespace: String,
    /// How many sandboxes the pod had before: with the above it makes the runtime's unique name.
    pub attempt: u32,
    /// Kernel hostname; empty on the node's network.
    pub hostname: String,
    /// Directory of the pod's container logs.
    pub log_directory: String,
    /// The content of `/etc/resolv.conf`; `None` leaves it to the runtime.
    pub dns: Option<DnsConfig>,
    /// Host ports.
    pub port_mappings: Vec<PortMapping>,
    /// Labels, the pod's own among them.
    pub labels: BTreeMap<String, String>,
    /// Annotations, the pod's own among them.
    pub annotations: BTreeMap<String, String>,
    /// Parent cgroup in the form of the cgroup driver (CG-02).
    pub cgroup_parent: String,
    /// Sysctls of the sandbox.
    pub sysctls: BTreeMap<String, String>,
    /// Security settings of the pause process and the defaults of the pod.
    pub security: SandboxSecurity,
    /// Resources that belong to the pod but to no container.
    pub overhead: Option<LinuxResources>,
    /// Sum of the containers' resources.
    pub resources: Option<LinuxResources>,
    /// Handler of the RuntimeClass; empty for the default one. Not part of CRI's config, but of the call.
    pub runtime_handler: String,
}

/// Contents of `resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DnsConfig {
    /// `nameserver` lines.
    pub servers: Vec<String>,
    /// The `search` line.
    pub searches: Vec<String>,
    /// The `options` line.
    pub options: Vec<String>,
}

/// A host port that leads to a container port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    /// Transport.
    pub protocol: Protocol,
    /// Port in the pod.
    pub container_port: i32,
    /// Port on the node; 0 asks for none.
    pub host_port: i32,
    /// Address on the node; empty for all.
    pub host_ip: String,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Security settings of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SandboxSecurity {
    /// Its namespaces.
    pub namespaces: Namespaces,
    /// SELinux labels.
    pub selinux: Option<SelinuxOptions>,
    /// User of the pause process.
    pub run_as_user: Option<i64>,
    /// Group of the pause process.
    pub run_as_group: Option<i64>,
    /// Root file system of the pause process is read-only.
    pub readonly_rootfs: bool,
    /// Supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// How image groups and the above combine.
    pub supplemental_groups_policy: GroupsPolicy,
    /// Some container of the pod is privileged.
    pub privileged: bool,
    /// Seccomp profile of the pause process.
    pub seccomp: SecurityProfile,
}

/// The configuration of the container in `CreateContainer`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerConfig {
    /// Name in the pod's spec.
    pub name: String,
    /// Restart count: with the sandbox's name it makes the runtime's unique name.
    pub attempt: u32,
    /// The image, resolved.
    pub image: ImageSpec,
    /// Entry point; empty for the image's.
    pub command: Vec<String>,
    /// Arguments; empty for the image's.
    pub args: Vec<String>,
    /// Working directory; empty for the image's.
    pub working_dir: String,
    /// Environment, in order of definition.
    pub envs: Vec<(String, String)>,
    /// Mounts, in order.
    pub mounts: Vec<Mount>,
    /// Device nodes.
    pub devices: Vec<Device>,
    /// Names of CDI devices.
    pub cdi_devices: Vec<String>,
    /// Labels (section 7.8).
    pub labels: BTreeMap<String, String>,
    /// Annotations (section 7.8).
    pub annotations: BTreeMap<String, String>,
    /// Log file, relative to the sandbox's log directory.
    pub log_path: String,
    /// Standard input stays open.
    pub stdin: bool,
    /// Standard input closes after the first attach.
    pub stdin_once: bool,
    /// A terminal is allocated.
    pub tty: bool,
    /// CPU, memory, huge pages and swap.
    pub resources: LinuxResources,
    /// Security settings.
    pub security: ContainerSecurity,
    /// Signal that asks it to stop, as CRI names it (`SIGTERM`); `None` for the image's.
    pub stop_signal: Option<String>,
}

/// An image in calls of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ImageSpec {
    /// Name or reference.
    pub image: String,
    /// The image in the pod's spec, if `image` was resolved from it.
    pub user_specified_image: String,
    /// Runtime handler that uses the image; empty for the default handler.
    pub runtime_handler: String,
    /// Annotations for the runtime.
    pub annotations: BTreeMap<String, String>,
}

/// A mount into a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mount {
    /// Path inside.
    pub container_path: String,
    /// Path on the node; empty for an image mount.
    pub host_path: String,
    /// Not writable.
    pub readonly: bool,
    /// Read-only for every mount below it too.
    pub recursive_read_only: bool,
    /// The runtime sets SELinux labels on its content.
    pub selinux_relabel: bool,
    /// Which mounts made later are seen on the other side.
    pub propagation: MountPropagation,
    /// User-namespace mapping of user ids.
    pub uid_mappings: Vec<IdMapping>,
    /// User-namespace mapping of group ids.
    pub gid_mappings: Vec<IdMapping>,
    /// The image to mount, for an image volume.
    pub image: Option<ImageSpec>,
    /// Directory inside that image.
    pub image_sub_path: String,
}

/// Which mounts made later are seen on the other side (MNT-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MountPropagation {
    /// None.
    #[default]
    Private,
    /// The container sees the node's.
    HostToContainer,
    /// Each sees the other's.
    Bidirectional,
}

/// A device node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Path inside.
    pub container_path: String,
    /// Path on the node.
    pub host_path: String,
    /// Letters of `rwm`.
    pub permissions: String,
}

/// CPU, memory, huge pages and swap, in the kernel's units (RT-90 … RT-95).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinuxResources {
    /// CFS period in microseconds; 0 is unset.
    pub cpu_period: i64,
    /// CFS quota in microseconds; 0 is unset, -1 is none.
    pub cpu_quota: i64,
    /// CPU shares; 0 is unset.
    pub cpu_shares: i64,
    /// Memory limit in bytes; 0 is unset.
    pub memory_limit_in_bytes: i64,
    /// `oom_score_adj` of the container's processes.
    pub oom_score_adj: i64,
    /// CPUs it may run on; empty for all.
    pub cpuset_cpus: String,
    /// Memory nodes it may use; empty for all.
    pub cpuset_mems: String,
    /// Limit per huge page size, such as (`2MB`, bytes).
    pub hugepage_limits: Vec<(String, u64)>,
    /// cgroup v2 files by name.
    pub unified: BTreeMap<String, String>,
    /// Memory plus swap in bytes; 0 is unset.
    pub memory_swap_limit_in_bytes: i64,
}

/// Security settings of a container (RT-96 … RT-98).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerSecurity {
    /// Capabilities added.
    pub add_capabilities: Vec<String>,
    /// Capabilities dropped.
    pub drop_capabilities: Vec<String>,
    /// Full access to the node's devices and kernel.
    pub privileged: bool,
    /// Its namespaces.
    pub namespaces: Namespaces,
    /// SELinux labels.
    pub selinux: Option<SelinuxOptions>,
    /// User id.
    pub run_as_user: Option<i64>,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// User by name, as the image has it, when no id is known.
    pub run_as_username: String,
    /// Root file system is read-only.
    pub readonly_rootfs: bool,
    /// Supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// How image groups and the above combine.
    pub supplemental_groups_policy: GroupsPolicy,
    /// Its processes can gain no privilege by `execve`.
    pub no_new_privs: bool,
    /// Paths that are hidden.
    pub masked_paths: Vec<String>,
    /// Paths that are read-only.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile.
    pub seccomp: SecurityProfile,
    /// AppArmor profile; `None` leaves it to the runtime.
    pub apparmor: Option<SecurityProfile>,
}

/// How the groups of the image's user and the spec's list combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GroupsPolicy {
    /// Both.
    #[default]
    Merge,
    /// The spec's only.
    Strict,
}

/// SELinux labels.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SelinuxOptions {
    /// User part.
    pub user: String,
    /// Role part.
    pub role: String,
    /// Type part.
    pub type_: String,
    /// Level part.
    pub level: String,
}

/// A seccomp or AppArmor profile.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum SecurityProfile {
    /// No profile.
    #[default]
    Unconfined,
    /// The runtime's own.
    RuntimeDefault,
    /// The file (seccomp) or loaded profile (AppArmor) of this name on the node.
    Localhost(String),
}
