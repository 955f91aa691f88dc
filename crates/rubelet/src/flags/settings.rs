//! The settings that flags write to.

use std::collections::BTreeMap;

use rubelet_core::config::{GoDuration, KubeletConfiguration};

/// The settings that exist only as flags (FLAG-01, FLAG-02): what cannot be shared between nodes, or was never moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletFlags {
    /// `--config`: configuration file; empty for none.
    pub config: String,
    /// `--config-dir`: directory of drop-ins; empty for none.
    pub config_dir: String,
    /// `--kubeconfig`: how to reach the API server; empty for a standalone node (BOOT-02).
    pub kubeconfig: String,
    /// `--bootstrap-kubeconfig`: how to ask for a client certificate when `kubeconfig` does not exist yet.
    pub bootstrap_kubeconfig: String,
    /// `--hostname-override`: name of the node instead of the host's.
    pub hostname_override: String,
    /// `--node-ip`, as given; read it with `core::config::node_ips`.
    pub node_ip: String,
    /// `--node-labels`: labels to register with.
    pub node_labels: BTreeMap<String, String>,
    /// `--cloud-provider`: empty or `external`.
    pub cloud_provider: String,
    /// `--cert-dir`: where certificates are kept.
    pub cert_dir: String,
    /// `--root-dir`: where everything else is kept.
    pub root_dir: String,
    /// `--lock-file`: taken at start; empty for none (BOOT-04).
    pub lock_file: String,
    /// `--exit-on-lock-contention`: exit when another process opens the lock file (BOOT-04).
    pub exit_on_lock_contention: bool,
    /// `--runtime-cgroups`: cgroup of the container runtime.
    pub runtime_cgroups: String,
    /// `--image-credential-provider-config`: file or directory.
    pub image_credential_provider_config: String,
    /// `--image-credential-provider-bin-dir`: where provider plugins are.
    pub image_credential_provider_bin_dir: String,
    /// `--seccomp-default`; see `Loaded::seccomp_default`.
    pub seccomp_default: bool,
    /// `--minimum-container-ttl-duration`: youngest dead container that may be removed.
    pub minimum_container_ttl_duration: GoDuration,
    /// `--maximum-dead-containers-per-container`: dead instances kept per container; negative for all.
    pub maximum_dead_containers_per_container: i32,
    /// `--maximum-dead-containers`: dead instances kept on the node; negative for all.
    pub maximum_dead_containers: i32,
    /// `--experimental-mounter-path`.
    pub experimental_mounter_path: String,
    /// `--experimental-allocatable-ignore-eviction`: leave hard eviction thresholds in node allocatable.
    pub experimental_allocatable_ignore_eviction: bool,
    /// `--housekeeping-interval`: how often container statistics are refreshed.
    pub housekeeping_interval: GoDuration,
    /// `--api-pod-cache`: keep a copy of the API's pods for a start without the API server. Not in upstream.
    pub api_pod_cache: bool,
    /// `--eviction-spares-page-cache`: active page cache is no used memory. Not in upstream.
    pub eviction_spares_page_cache: bool,
    /// `--sessions-need-create`: exec, attach, run and port-forward need the verb `create`. Not in upstream.
    pub sessions_need_create: bool,
    /// `--local-ui`: the port of the page for people on 127.0.0.1; `None` for no port. Not in upstream.
    pub local_ui: Option<u16>,
}

impl Default for KubeletFlags {
    fn default() -> Self {
        Self {
            config: String::new(),
            config_dir: String::new(),
            kubeconfig: String::new(),
            bootstrap_kubeconfig: String::new(),
            hostname_override: String::new(),
            node_ip: String::new(),
            node_labels: BTreeMap::new(),
            cloud_provider: String::new(),
            cert_dir: "/var/lib/kubelet/pki".into(),
            root_dir: "/var/lib/kubelet".into(),
            lock_file: String::new(),
            exit_on_lock_contention: false,
            runtime_cgroups: String::new(),
            image_credential_provider_config: String::new(),
            image_credential_provider_bin_dir: String::new(),
            seccomp_default: false,
            minimum_container_ttl_duration: GoDuration::ZERO,
            maximum_dead_containers_per_container: 1,
            maximum_dead_containers: -1,
            experimental_mounter_path: String::new(),
            experimental_allocatable_ignore_eviction: false,
            housekeeping_interval: GoDuration::secs(10),
            api_pod_cache: false,
            eviction_spares_page_cache: false,
            sessions_need_create: false,
            local_ui: None,
        }
    }
}

/// How a command shows its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// A table for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
}

/// How a command shows values that people also keep in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A table for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
    /// YAML, as configuration files are written.
    Yaml,
}

/// What the flags of commands other than the agent set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolSettings {
    /// `-o` of most commands.
    pub(crate) output: Output,
    /// `-o` of `config show` and `version`.
    pub(crate) format: Format,
    /// `--socket`; empty for the one in the root directory.
    pub(crate) socket: String,
    /// `-n`; empty for all namespaces.
    pub(crate) namespace: String,
    /// `-A`: takes precedence over `-n`.
    pub(crate) all_namespaces: bool,
    /// `--all` of `config show`.
    pub(crate) all_fields: bool,
    /// `--dir` of `man`; empty for stdout.
    pub(crate) dir: String,
    /// `-w` of `events`.
    pub(crate) watch: bool,
    /// What `logs` is asked for.
    pub(crate) log: LogSettings,
}

/// What the flags of `logs` set.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogSettings {
    /// `-c`; empty for the default container.
    pub(crate) container: String,
    /// `-f`.
    pub(crate) follow: bool,
    /// `-p`.
    pub(crate) previous: bool,
    /// `--timestamps`.
    pub(crate) timestamps: bool,
    /// `--tail`; `None` for all lines.
    pub(crate) tail: Option<u64>,
}

/// Everything a command line can set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) flags: KubeletFlags,
    pub(crate) config: KubeletConfiguration,
    pub(crate) tool: ToolSettings,
    /// The values of flags without effect, so that they are still validated.
    pub(crate) ignored: Ignored,
}

impl Settings {
    /// Flags at their defaults over a configuration.
    pub(crate) fn over(config: KubeletConfiguration) -> Self {
        Self { flags: KubeletFlags::default(), config, tool: ToolSettings::default(), ignored: Ignored::default() }
    }
}

/// Values of flags without effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignored {
    pub(crate) text: String,
    pub(crate) number: i32,
    pub(crate) switch: bool,
    pub(crate) duration: GoDuration,
}
