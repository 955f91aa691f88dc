//! The engine's settings, made from configuration, flags, gates and the facts of the machine.

mod node;

pub(crate) use node::{NodeSettings, node_setup};

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rubelet_core::admit::SysctlAllowlist;
use rubelet_core::backoff::BackoffPolicy;
use rubelet_core::config::{Gate, KubeletConfiguration, SwapBehavior};
use rubelet_core::gc::GcPolicy;
use rubelet_core::image_gc::ImageGcPolicy;
use rubelet_core::launch::{LaunchContext, LaunchGates, SwapPolicy};
use rubelet_core::lifecycle::Pace;
use rubelet_core::log_rotation::LogRotation;
use rubelet_core::node::{NodeSetup, Unserved, first_labels, node_allocatable, node_capacity, node_cgroups};
use rubelet_core::plan::PlanGates;
use rubelet_core::qos::{CgroupDriver, CgroupTree, CpuPolicy};
use rubelet_engine::images::PullLimits;
use rubelet_engine::node::{Admission, Settings};
use rubelet_engine::ports::{NodeFacts, RuntimeVersion};
use rubelet_server::documents::NodeLimits;

use crate::config_load::Loaded;

/// Pods that are started at the same time, per CPU: enough to keep the runtime busy while others wait for the disk.
const STARTS_PER_CPU: i64 = 2;

/// The engine's settings, from configuration, flags, gates and the facts of the machine.
pub(crate) fn settings(
    loaded: &Loaded,
    facts: &NodeFacts,
    node: &NodeSetup,
    version: &RuntimeVersion,
    driver: CgroupDriver,
) -> anyhow::Result<Settings> {
    let config = &loaded.config;
    let gate = |gate| loaded.gates.enabled(gate);
    let longest = config.crash_loop_back_off.max_container_restart_period.map(Into::into);
    let longest = longest.filter(|_| gate(Gate::KubeletCrashLoopBackOffMax));
    let cluster_dns: Result<Vec<IpAddr>, _> = config.cluster_dns.iter().map(|ip| ip.parse()).collect();
    let launch = launch_context(loaded, facts, driver)?;
    Ok(Settings {
        runtime_name: version.name.clone(),
        pace: Pace::new(config.sync_frequency.to_std()),
        crash_backoff: BackoffPolicy::crash(longest, gate(Gate::ReduceDefaultCrashLoopBackOffDecay)),
        node_cgroups: node_cgroups(config, node, &launch.tree, &launch.hugepage_sizes)?,
        launch,
        cluster_dns: cluster_dns.context("clusterDNS")?,
        plan_gates: PlanGates {
            container_restart_rules: gate(Gate::ContainerRestartRules),
            restart_all_containers: gate(Gate::RestartAllContainersOnContainerExits),
            resize_init_containers: gate(Gate::InPlacePodVerticalScalingInitContainers),
        },
        parallel_starts: usize::try_from(facts.cpu_millis / 1000 * STARTS_PER_CPU).unwrap_or(1).max(2),
        gc: GcPolicy {
            min_age: loaded.flags.minimum_container_ttl_duration.to_std(),
            // A negative number is no limit.
            per_container: usize::try_from(loaded.flags.maximum_dead_containers_per_container).ok(),
            total: usize::try_from(loaded.flags.maximum_dead_containers).ok(),
        },
        image_gc: ImageGcPolicy::of(config),
        log_rotation: LogRotation::of(config),
        admission: Admission {
            labels: first_labels(node),
            allocatable: node_allocatable(&node_capacity(&node.machine, node.pods), &node.reserved),
            taints: node.taints.clone(),
            unserved: match &node.unserved {
                Unserved::Named(names) => names.clone(),
                // The object is put right when the node registers.
                Unserved::All => BTreeSet::new(),
            },
            sysctls: SysctlAllowlist::new(facts.kernel, &config.allowed_unsafe_sysctls)?,
        },
        address_period: config.node_status_update_frequency.to_std(),
    })
}

/// What the configuration and the machine fix for the node, as `rubelet explain node` shows it.
pub(crate) fn node_limits(config: &KubeletConfiguration, node: &NodeSetup) -> NodeLimits {
    NodeLimits {
        capacity: node_capacity(&node.machine, node.pods),
        reserved: node.reserved.clone(),
        hard: config.eviction_hard.clone(),
        soft: config.eviction_soft.clone(),
        soft_grace: config.eviction_soft_grace_period.clone(),
    }
}

fn launch_context(loaded: &Loaded, facts: &NodeFacts, driver: CgroupDriver) -> anyhow::Result<LaunchContext> {
    let config = &loaded.config;
    let period = config.cpu_cfs_quota_period.as_nanos() / 1000;
    Ok(LaunchContext {
        tree: CgroupTree::new(&config.cgroup_root, driver, config.cgroups_per_qos),
        cgroups: facts.cgroups,
        memory_bytes: facts.memory_bytes,
        hugepage_sizes: facts.hugepage_sizes.clone(),
        swap: SwapPolicy {
            limited: config.memory_swap.swap_behavior == Some(SwapBehavior::LimitedSwap),
            bytes: facts.swap_bytes,
            controller: facts.swap_controller,
        },
        cpu: CpuPolicy { quota: config.cpu_cfs_quota, period: u32::try_from(period).context("cpuCFSQuotaPeriod")? },
        single_process_oom_kill: config.single_process_oom_kill,
        pod_pids_limit: config.pod_pids_limit,
        pod_logs_dir: PathBuf::from(&config.pod_logs_dir),
        seccomp_dir: Path::new(&loaded.flags.root_dir).join("seccomp"),
        seccomp_default: loaded.seccomp_default(),
        selinux: facts.selinux,
        masked_paths: facts.thermal_throttle_paths.clone(),
        cluster_domain: config.cluster_domain.clone(),
        gates: LaunchGates {
            stop_signals: loaded.gates.enabled(Gate::ContainerStopSignals),
            env_files: loaded.gates.enabled(Gate::EnvFiles),
            hostname_override: loaded.gates.enabled(Gate::HostnameOverride),
            runtime_class_in_images: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
        },
    })
}

/// How images are pulled (IMG-05).
pub(crate) fn pull_limits(config: &KubeletConfiguration) -> PullLimits {
    let most = config.max_parallel_image_pulls.and_then(|n| usize::try_from(n).ok());
    PullLimits {
        parallel: if config.serialize_image_pulls { Some(1) } else { most },
        per_second: f64::from(config.registry_pull_qps),
        burst: f64::from(config.registry_burst),
    }
}
