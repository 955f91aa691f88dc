//! The defaults of a configuration file (CFG-03, CFG-04), and those of a start by flags alone, which are older and laxer.
//!
//! upstream: apis/config/v1beta1/defaults.go, cmd/kubelet/app/options/options.go applyLegacyDefaults (v1.36).

use std::collections::BTreeMap;

use super::choices::{
    AuthorizationMode, CgroupDriver, ChangeDetection, CpuManagerPolicy, HairpinMode, ImageCredentialPolicy,
    MemoryManagerPolicy, MemoryReservationPolicy, TopologyPolicy, TopologyScope,
};
use super::duration::GoDuration;
use super::gates::{FeatureGates, Gate};
use super::given::Given;
use super::kubelet::KubeletConfiguration;
use super::logging::{FlushFrequency, Logging};
use super::parts::{Authentication, Authorization, CrashLoopBackOff, MemorySwap};

/// The `kind` of a configuration file.
pub const KIND: &str = "KubeletConfiguration";

/// The `apiVersion` of a configuration file.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// The port of the unauthenticated API when no file is used.
const LEGACY_READ_ONLY_PORT: i32 = 10255;

/// Hard eviction thresholds of a node that is configured by a file which names none.
/// upstream: eviction/defaults_linux.go DefaultEvictionHard (v1.36).
pub const DEFAULT_EVICTION_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

impl Default for KubeletConfiguration {
    /// The defaults of a configuration file, with every gate at its default. Hard eviction thresholds are not part of
    /// them: they are filled in by [`KubeletConfiguration::fill_eviction_hard`], and only if a file is read.
    fn default() -> Self {
        Self {
            kind: KIND.into(),
            api_version: API_VERSION.into(),
            enable_server: true,
            static_pod_path: String::new(),
            pod_logs_dir: "/var/log/pods".into(),
            sync_frequency: GoDuration::mins(1),
            file_check_frequency: GoDuration::secs(20),
            http_check_frequency: GoDuration::secs(20),
            static_pod_url: String::new(),
            static_pod_url_header: BTreeMap::new(),
            address: "0.0.0.0".into(),
            port: 10250,
            read_only_port: 0,
            tls_cert_file: String::new(),
            tls_private_key_file: String::new(),
            tls_cipher_suites: Vec::new(),
            tls_curve_preferences: Vec::new(),
            tls_min_version: String::new(),
            rotate_certificates: false,
            server_tls_bootstrap: false,
            authentication: Authentication::default(),
            authorization: Authorization::default(),
            registry_pull_qps: 5,
            registry_burst: 10,
            image_pull_credentials_verification_policy: Some(ImageCredentialPolicy::NeverVerifyPreloadedImages),
            preloaded_images_verification_allowlist: Vec::new(),
            event_record_qps: 50,
            event_burst: 100,
            enable_debugging_handlers: true,
            enable_contention_profiling: false,
            healthz_port: 10248,
            healthz_bind_address: "127.0.0.1".into(),
            oom_score_adj: -999,
            cluster_domain: String::new(),
            cluster_dns: Vec::new(),
            streaming_connection_idle_timeout: GoDuration::secs(4 * 3600),
            node_status_update_frequency: GoDuration::secs(10),
            node_status_report_frequency: GoDuration::mins(5),
            node_lease_duration_seconds: 40,
            image_minimum_gc_age: GoDuration::mins(2),
            image_maximum_gc_age: GoDuration::ZERO,
            image_gc_high_threshold_percent: 85,
            image_gc_low_threshold_percent: 80,
            volume_stats_agg_period: GoDuration::mins(1),
            kubelet_cgroups: String::new(),
            system_cgroups: String::new(),
            cgroup_root: String::new(),
            cgroups_per_qos: true,
            cgroup_driver: CgroupDriver::Cgroupfs,
            cpu_manager_policy: CpuManagerPolicy::None,
            single_process_oom_kill: None,
            cpu_manager_policy_options: BTreeMap::new(),
            cpu_manager_reconcile_period: GoDuration::secs(10),
            memory_manager_policy: MemoryManagerPolicy::None,
            topology_manager_policy: TopologyPolicy::None,
            topology_manager_scope: TopologyScope::Container,
            topology_manager_policy_options: BTreeMap::new(),
            qos_reserved: BTreeMap::new(),
            runtime_request_timeout: GoDuration::mins(2),
            hairpin_mode: HairpinMode::PromiscuousBridge,
            max_pods: 110,
            pod_cidr: String::new(),
            pod_pids_limit: -1,
            resolv_conf: "/etc/resolv.conf".into(),
            run_once: false,
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: GoDuration::millis(100),
            node_status_max_images: 50,
            max_open_files: 1_000_000,
            content_type: "application/vnd.kubernetes.protobuf".into(),
            kube_api_qps: 50,
            kube_api_burst: 100,
            serialize_image_pulls: true,
            max_parallel_image_pulls: None,
            eviction_hard: BTreeMap::new(),
            eviction_soft: BTreeMap::new(),
            eviction_soft_grace_period: BTreeMap::new(),
            eviction_pressure_transition_period: GoDuration::mins(5),
            eviction_max_pod_grace_period: 0,
            eviction_minimum_reclaim: BTreeMap::new(),
            merge_default_eviction_settings: false,
            pods_per_core: 0,
            enable_controller_attach_detach: true,
            protect_kernel_defaults: false,
            make_iptables_util_chains: true,
            iptables_masquerade_bit: 14,
            iptables_drop_bit: 15,
            feature_gates: BTreeMap::new(),
            fail_swap_on: true,
            memory_swap: MemorySwap::default(),
            container_log_max_size: "10Mi".into(),
            container_log_max_files: 5,
            container_log_max_workers: 1,
            container_log_monitor_interval: GoDuration::secs(10),
            config_map_and_secret_change_detection_strategy: ChangeDetection::Watch,
            system_reserved: BTreeMap::new(),
            kube_reserved: BTreeMap::new(),
            reserved_system_cpus: String::new(),
            show_hidden_metrics_for_version: String::new(),
            system_reserved_cgroup: String::new(),
            kube_reserved_cgroup: String::new(),
            enforce_node_allocatable: vec!["pods".into()],
            allowed_unsafe_sysctls: Vec::new(),
            volume_plugin_dir: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/".into(),
            provider_id: String::new(),
            kernel_memcg_notification: false,
            logging: Logging::default(),
            enable_system_log_handler: true,
            enable_system_log_query: false,
            shutdown_grace_period: GoDuration::ZERO,
            shutdown_grace_period_critical_pods: GoDuration::ZERO,
            shutdown_grace_period_by_pod_priority: Vec::new(),
            crash_loop_back_off: CrashLoopBackOff::default(),
            reserved_memory: Vec::new(),
            enable_profiling_handler: true,
            enable_debug_flags_handler: true,
            seccomp_default: false,
            memory_throttling_factor: Some(0.9),
            memory_reservation_policy: MemoryReservationPolicy::None,
            register_with_taints: Vec::new(),
            register_node: true,
            tracing: None,
            local_storage_capacity_isolation: true,
            container_runtime_endpoint: "unix:///run/containerd/containerd.sock".into(),
            image_service_endpoint: String::new(),
            fail_cgroup_v1: true,
            user_namespaces: None,
        }
    }
}

/// Sets a field to its default if it has its zero value: for upstream, `port: 0` means "not set".
fn zero_means<T: Default + PartialEq>(field: &mut T, default: T) {
    if *field == T::default() {
        *field = default;
    }
}

impl KubeletConfiguration {
    /// The defaults of a start without a configuration file: open to every caller, as early kubelets were (CFG-03).
    #[must_use]
    #[doc(alias = "applyLegacyDefaults")]
    pub fn legacy_defaults() -> Self {
        let mut config = Self::default();
        config.authentication.anonymous.enabled = true;
        config.authentication.webhook.enabled = false;
        config.authorization.mode = AuthorizationMode::AlwaysAllow;
        config.read_only_port = LEGACY_READ_ONLY_PORT;
        config
    }

    /// Completes a configuration just read from a file. `given` holds the fields that the file sets: some defaults depend on
    /// other fields, and only for fields that were left out.
    #[doc(alias = "SetDefaults_KubeletConfiguration")]
    pub fn set_defaults(&mut self, given: &Given) {
        // Only for a field that was left out; a zero counts as left out too.
        if !given.has("nodeStatusReportFrequency") || self.node_status_report_frequency.is_zero() {
            let follows = given.has("nodeStatusUpdateFrequency") && !self.node_status_update_frequency.is_zero();
            self.node_status_report_frequency =
                if follows { self.node_status_update_frequency } else { GoDuration::ZERO };
        }
        if !given.has("serializeImagePulls") {
            self.serialize_image_pulls = self.max_parallel_image_pulls.is_none_or(|most| most < 2);
        }
        let gates = FeatureGates::lenient(&self.feature_gates);
        if !gates.enabled(Gate::KubeletCrashLoopBackOffMax) && !given.has("crashLoopBackOff.maxContainerRestartPeriod")
        {
            self.crash_loop_back_off.max_container_restart_period = None;
        }
        if !given.has("imagePullCredentialsVerificationPolicy")
            || self.image_pull_credentials_verification_policy.is_none()
        {
            let on = gates.enabled(Gate::KubeletEnsureSecretPulledImages);
            self.image_pull_credentials_verification_policy = on.then(ImageCredentialPolicy::default);
        }
        self.pod_pids_limit = self.pod_pids_limit.max(-1);
        self.replace_zeros();
    }

    fn replace_zeros(&mut self) {
        let defaults = Self::default();
        zero_means(&mut self.pod_logs_dir, defaults.pod_logs_dir);
        zero_means(&mut self.sync_frequency, defaults.sync_frequency);
        zero_means(&mut self.file_check_frequency, defaults.file_check_frequency);
        zero_means(&mut self.http_check_frequency, defaults.http_check_frequency);
        zero_means(&mut self.address, defaults.address);
        zero_means(&mut self.port, defaults.port);
        zero_means(&mut self.registry_burst, defaults.registry_burst);
        zero_means(&mut self.event_burst, defaults.event_burst);
        zero_means(&mut self.healthz_bind_address, defaults.healthz_bind_address);
        zero_means(&mut self.streaming_connection_idle_timeout, defaults.streaming_connection_idle_timeout);
        zero_means(&mut self.node_status_update_frequency, defaults.node_status_update_frequency);
        zero_means(&mut self.node_status_report_frequency, defaults.node_status_report_frequency);
        zero_means(&mut self.node_lease_duration_seconds, defaults.node_lease_duration_seconds);
        zero_means(&mut self.image_minimum_gc_age, defaults.image_minimum_gc_age);
        zero_means(&mut self.volume_stats_agg_period, defaults.volume_stats_agg_period);
        zero_means(&mut self.cpu_manager_reconcile_period, defaults.cpu_manager_reconcile_period);
        zero_means(&mut self.runtime_request_timeout, defaults.runtime_request_timeout);
        zero_means(&mut self.max_pods, defaults.max_pods);
        zero_means(&mut self.max_open_files, defaults.max_open_files);
        zero_means(&mut self.content_type, defaults.content_type);
        zero_means(&mut self.kube_api_burst, defaults.kube_api_burst);
        zero_means(&mut self.eviction_pressure_transition_period, defaults.eviction_pressure_transition_period);
        zero_means(&mut self.container_log_max_size, defaults.container_log_max_size);
        zero_means(&mut self.volume_plugin_dir, defaults.volume_plugin_dir);
        zero_means(&mut self.container_runtime_endpoint, defaults.container_runtime_endpoint);
        zero_means(&mut self.authentication.webhook.cache_ttl, defaults.authentication.webhook.cache_ttl);
        zero_means(
            &mut self.authorization.webhook.cache_authorized_ttl,
            defaults.authorization.webhook.cache_authorized_ttl,
        );
        zero_means(
            &mut self.authorization.webhook.cache_unauthorized_ttl,
            defaults.authorization.webhook.cache_unauthorized_ttl,
        );
        if self.logging.flush_frequency.get().is_zero() {
            self.logging.flush_frequency = FlushFrequency::Text(GoDuration::secs(5));
        }
        zero_means(&mut self.kind, defaults.kind);
        zero_means(&mut self.api_version, defaults.api_version);
    }

    /// Fills in hard eviction thresholds after a `--config` file was read (CFG-04): all of them if the file names none,
    /// the missing ones if it asks for that, else nothing.
    #[doc(alias = "DefaultEvictionHard")]
    pub fn fill_eviction_hard(&mut self, given: &Given) {
        if given.has("evictionHard") && !self.merge_default_eviction_settings {
            return;
        }
        for (signal, amount) in DEFAULT_EVICTION_HARD {
            self.eviction_hard.entry(signal.to_owned()).or_insert_with(|| amount.to_owned());
        }
    }

    /// The fields that hold paths. In a `--config` file they are relative to the file (drop-ins: to nothing).
    #[doc(alias = "KubeletConfigurationPathRefs")]
    pub fn paths_mut(&mut self) -> [&mut String; 7] {
        [
            &mut self.static_pod_path,
            &mut self.authentication.x509.client_ca_file,
            &mut self.tls_cert_file,
            &mut self.tls_private_key_file,
            &mut self.resolv_conf,
            &mut self.volume_plugin_dir,
            &mut self.pod_logs_dir,
        ]
    }
}
