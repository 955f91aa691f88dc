//! The configuration itself: every field of `KubeletConfiguration` v1beta1 under its upstream spelling.
//!
//! One large flat struct, because its shape is a public file format and readers search for a field by its name in the file.
//! A value of this type is always complete: a field that the file leaves out has its default (`defaults.rs`), so later code
//! need not handle missing fields. `Option` marks the few fields whose absence has a meaning.
//!
//! Serialized (CFG-05), empty text, numbers and lists are left out, while durations, nested objects and fields that
//! upstream keeps behind a pointer are always present: the same keys as in upstream's `/configz`.
//!
//! upstream: kubelet/config/v1beta1/types.go (v1.36); behaviours: section 1.3.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::choices::{
    CgroupDriver, ChangeDetection, CpuManagerPolicy, HairpinMode, ImageCredentialPolicy, MemoryManagerPolicy,
    MemoryReservationPolicy, TopologyPolicy, TopologyScope,
};
use super::duration::GoDuration;
use super::logging::Logging;
use super::parts::{
    Authentication, Authorization, CrashLoopBackOff, MemoryReservation, MemorySwap, ShutdownGracePeriodByPodPriority,
    Taint, Tracing, UserNamespaces, empty_is_none,
};

/// Everything that can be configured on a node, complete and in upstream's spelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubeletConfiguration {
    /// Always `KubeletConfiguration`.
    pub kind: String,
    /// Always `kubelet.config.k8s.io/v1beta1`.
    pub api_version: String,
    /// Whether the node's own HTTPS API is served.
    pub enable_server: bool,
    /// File or directory of static pod manifests; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub static_pod_path: String,
    /// Where container logs are written, one directory per pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_logs_dir: String,
    /// Longest time between two syncs of an unchanged pod.
    pub sync_frequency: GoDuration,
    /// How often manifests on disk are read again without a change being noticed.
    pub file_check_frequency: GoDuration,
    /// How often manifests are fetched from `static_pod_url`.
    pub http_check_frequency: GoDuration,
    /// URL of static pod manifests; empty for none.
    #[serde(rename = "staticPodURL", skip_serializing_if = "String::is_empty")]
    pub static_pod_url: String,
    /// Headers sent with requests for `static_pod_url`. May hold secrets: masked in logs.
    #[serde(rename = "staticPodURLHeader", skip_serializing_if = "BTreeMap::is_empty")]
    pub static_pod_url_header: BTreeMap<String, Vec<String>>,
    /// Address that the node's own API listens on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Port of the node's own API.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub port: i32,
    /// Port of the API without authentication; 0 for none. 10255 when started without a file (CFG-03).
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub read_only_port: i32,
    /// Serving certificate; empty to make or request one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_cert_file: String,
    /// Key of `tls_cert_file`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_private_key_file: String,
    /// Cipher suites offered, by IANA name; empty for the library's choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_cipher_suites: Vec<String>,
    /// Key exchange groups offered, by IANA number; empty for the library's choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_curve_preferences: Vec<i32>,
    /// Oldest TLS version accepted, like `VersionTLS12`; empty for the library's choice.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tls_min_version: String,
    /// Whether the client certificate is renewed before it expires.
    #[serde(skip_serializing_if = "is_false")]
    pub rotate_certificates: bool,
    /// Whether the serving certificate is requested from the cluster instead of self-signed.
    #[serde(rename = "serverTLSBootstrap", skip_serializing_if = "is_false")]
    pub server_tls_bootstrap: bool,
    /// Authentication for the node's own API.
    pub authentication: Authentication,
    /// Authorization for the node's own API.
    pub authorization: Authorization,
    /// Image pulls per second; 0 for no limit.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: i32,
    /// Image pulls allowed at once above `registry_pull_qps`.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub registry_burst: i32,
    /// For which images on the node a pod must prove its right to them; none while its gate is off.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "empty_is_none")]
    pub image_pull_credentials_verification_policy: Option<ImageCredentialPolicy>,
    /// Images that need no proof under `NeverVerifyAllowlistedImages`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// Events sent per second; 0 for no limit.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: i32,
    /// Events allowed at once above `event_record_qps`.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub event_burst: i32,
    /// Whether exec, attach, logs, port-forward and debug endpoints are served.
    pub enable_debugging_handlers: bool,
    /// Whether lock contention is profiled.
    #[serde(skip_serializing_if = "is_false")]
    pub enable_contention_profiling: bool,
    /// Port of the local health endpoint; 0 for none.
    pub healthz_port: i32,
    /// Address of the local health endpoint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub healthz_bind_address: String,
    /// The agent's own `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Domain that pods search first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_domain: String,
    /// Name servers of pods with policy `ClusterFirst`.
    #[serde(rename = "clusterDNS", skip_serializing_if = "Vec::is_empty")]
    pub cluster_dns: Vec<String>,
    /// How long exec, attach and port-forward may be silent.
    pub streaming_connection_idle_timeout: GoDuration,
    /// How often the node's status is computed.
    pub node_status_update_frequency: GoDuration,
    /// How often an unchanged node status is sent. Follows `node_status_update_frequency` if only that is given.
    pub node_status_report_frequency: GoDuration,
    /// How long the node lease is valid without renewal.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub node_lease_duration_seconds: i32,
    /// Youngest unused image that may be removed.
    #[serde(rename = "imageMinimumGCAge")]
    pub image_minimum_gc_age: GoDuration,
    /// Unused images older than this are removed; zero for never.
    #[serde(rename = "imageMaximumGCAge")]
    pub image_maximum_gc_age: GoDuration,
    /// Disk use at which image removal starts.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: i32,
    /// Disk use at which image removal stops.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: i32,
    /// How often volume use is measured; negative for never.
    pub volume_stats_agg_period: GoDuration,
    /// Cgroup for the agent itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubelet_cgroups: String,
    /// Cgroup for processes that are in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_cgroups: String,
    /// Cgroup under which pods are placed; empty means `/`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroup_root: String,
    /// Whether pods get cgroups of their own, sorted by QoS class.
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: bool,
    /// The cgroup driver, unless the runtime reports one.
    pub cgroup_driver: CgroupDriver,
    /// Whether pods get exclusive cpus.
    pub cpu_manager_policy: CpuManagerPolicy,
    /// Kill one process, not the container, when memory runs out; none means as the cgroup version does.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,
    /// Fine tuning of `cpu_manager_policy`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    /// How often cpu sets are compared with what they should be.
    pub cpu_manager_reconcile_period: GoDuration,
    /// Whether pods get memory of chosen NUMA nodes.
    pub memory_manager_policy: MemoryManagerPolicy,
    /// How placement across NUMA nodes is reconciled.
    pub topology_manager_policy: TopologyPolicy,
    /// What is aligned as one.
    pub topology_manager_scope: TopologyScope,
    /// Fine tuning of `topology_manager_policy`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub topology_manager_policy_options: BTreeMap<String, String>,
    /// Share of requests that lower QoS classes cannot use, like memory=50%.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_reserved: BTreeMap<String, String>,
    /// How long a runtime call may take, pulls, exec, attach and logs apart.
    pub runtime_request_timeout: GoDuration,
    /// Accepted for old files; CRI runtimes do their own networking.
    pub hairpin_mode: HairpinMode,
    /// Most pods on this node.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub max_pods: i32,
    /// Pod addresses of a standalone node.
    #[serde(rename = "podCIDR", skip_serializing_if = "String::is_empty")]
    pub pod_cidr: String,
    /// Most processes per pod; -1 for what the node can hold.
    pub pod_pids_limit: i64,
    /// Resolver file that pods' own is built on; empty for none.
    pub resolv_conf: String,
    /// Must stay false: running once was removed.
    #[serde(skip_serializing_if = "is_false")]
    pub run_once: bool,
    /// Whether cpu limits are enforced.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// Period over which cpu limits are enforced.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: GoDuration,
    /// Most images listed in the node's status; -1 for all.
    pub node_status_max_images: i32,
    /// Files the agent may open.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub max_open_files: i64,
    /// Encoding of requests to the API server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    /// Requests to the API server per second.
    #[serde(rename = "kubeAPIQPS")]
    pub kube_api_qps: i32,
    /// Requests allowed at once above `kube_api_qps`.
    #[serde(rename = "kubeAPIBurst", skip_serializing_if = "is_zero_i32")]
    pub kube_api_burst: i32,
    /// Pull one image at a time. False by default if `max_parallel_image_pulls` is two or more.
    pub serialize_image_pulls: bool,
    /// Most pulls at once; none for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_image_pulls: Option<i32>,
    /// Signals and amounts at which pods are evicted at once. Empty unless a file is read (CFG-04).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_hard: BTreeMap<String, String>,
    /// Signals and amounts at which pods are evicted after a grace period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft: BTreeMap<String, String>,
    /// How long each soft signal must last.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// How long pressure is still reported after it ended.
    pub eviction_pressure_transition_period: GoDuration,
    /// Longest grace of a softly evicted pod, in seconds.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub eviction_max_pod_grace_period: i32,
    /// How much to free beyond each threshold.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// Whether hard thresholds left out keep their defaults.
    pub merge_default_eviction_settings: bool,
    /// Most pods per cpu; 0 for no such limit.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub pods_per_core: i32,
    /// Whether the control plane attaches volumes.
    pub enable_controller_attach_detach: bool,
    /// Refuse to start rather than set kernel tunables.
    #[serde(skip_serializing_if = "is_false")]
    pub protect_kernel_defaults: bool,
    /// Whether the agent keeps its iptables chains in place.
    #[serde(rename = "makeIPTablesUtilChains")]
    pub make_iptables_util_chains: bool,
    /// Accepted for old files; not used.
    pub iptables_masquerade_bit: i32,
    /// Accepted for old files; not used.
    pub iptables_drop_bit: i32,
    /// Feature gates that were set, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Refuse to start on a node with swap.
    pub fail_swap_on: bool,
    /// What pods may do with swap.
    pub memory_swap: MemorySwap,
    /// Size at which a container's log is rotated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_log_max_size: String,
    /// Log files kept per container.
    pub container_log_max_files: i32,
    /// Rotated logs compressed at once.
    pub container_log_max_workers: i32,
    /// How often the size of a log that does not grow is looked at.
    pub container_log_monitor_interval: GoDuration,
    /// How changes of ConfigMaps and Secrets are noticed.
    pub config_map_and_secret_change_detection_strategy: ChangeDetection,
    /// Resources kept for processes outside Kubernetes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub system_reserved: BTreeMap<String, String>,
    /// Resources kept for Kubernetes' own daemons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kube_reserved: BTreeMap<String, String>,
    /// Cpus kept free of exclusive use, like 0-1,8.
    #[serde(rename = "reservedSystemCPUs", skip_serializing_if = "String::is_empty")]
    pub reserved_system_cpus: String,
    /// Show metrics that this minor version still had; only the previous one is allowed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub show_hidden_metrics_for_version: String,
    /// Cgroup on which `system_reserved` is enforced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_reserved_cgroup: String,
    /// Cgroup on which `kube_reserved` is enforced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_reserved_cgroup: String,
    /// Where node allocatable is enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enforce_node_allocatable: Vec<String>,
    /// Sysctls that pods may set although they can hurt the node; a trailing `*` matches a prefix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Directory of exec volume plugins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_plugin_dir: String,
    /// Identity of this machine at its provider.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Learn of memory pressure from the kernel instead of by polling.
    #[serde(skip_serializing_if = "is_false")]
    pub kernel_memcg_notification: bool,
    /// How the agent logs.
    pub logging: Logging,
    /// Whether /logs/ is served.
    pub enable_system_log_handler: bool,
    /// Whether /logs/ answers queries.
    pub enable_system_log_query: bool,
    /// How long a node shutdown is delayed for pods to terminate.
    pub shutdown_grace_period: GoDuration,
    /// The part of it that is kept for critical pods.
    pub shutdown_grace_period_critical_pods: GoDuration,
    /// Grace at node shutdown by pod priority, instead of the two above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shutdown_grace_period_by_pod_priority: Vec<ShutdownGracePeriodByPodPriority>,
    /// How long a crashing container waits.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Memory kept free per NUMA node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved_memory: Vec<MemoryReservation>,
    /// Whether /debug/pprof is served.
    pub enable_profiling_handler: bool,
    /// Whether /debug/flags is served.
    pub enable_debug_flags_handler: bool,
    /// Whether pods that name no seccomp profile get the runtime's.
    pub seccomp_default: bool,
    /// Share of the limit at which memory is throttled under MemoryQoS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_throttling_factor: Option<f64>,
    /// Which memory is protected under MemoryQoS.
    pub memory_reservation_policy: MemoryReservationPolicy,
    /// Taints that the node registers with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub register_with_taints: Vec<Taint>,
    /// Whether the node registers itself.
    pub register_node: bool,
    /// Where traces are sent; none for nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Whether local storage of pods is accounted and limited.
    pub local_storage_capacity_isolation: bool,
    /// Socket of the CRI runtime.
    pub container_runtime_endpoint: String,
    /// Socket of the CRI image service; empty for the runtime's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_service_endpoint: String,
    /// Refuse to start on cgroup v1.
    pub fail_cgroup_v1: bool,
    /// How user namespaces of pods are laid out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_namespaces: Option<UserNamespaces>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero_i32(value: &i32) -> bool {
    *value == 0
}

fn is_zero_i64(value: &i64) -> bool {
    *value == 0
}
