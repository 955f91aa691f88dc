//! What configuration, flags, gates and facts come down to for the engine.

mod node;

pub(crate) use node::NodeSettings;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rubelet_core::admit::SysctlAllowlist;
use rubelet_core::backoff::BackoffPolicy;
use rubelet_core::config::{Gate, KubeletConfiguration, SwapBehavior};
use rubelet_core::gc::GcPolicy;
use rubelet_core::launch::{LaunchContext, LaunchGates, SwapPolicy};
use rubelet_core::lifecycle::Pace;
use rubelet_core::node::{Unserved, first_labels, node_allocatable, node_capacity};
use rubelet_core::plan::PlanGates;
use rubelet_core::qos::{CgroupTree, CpuPolicy, QosClass, node_values, qos_values};
use rubelet_engine::images::PullLimits;
use rubelet_engine::node::{Admission, Settings};
use rubelet_engine::ports::{CgroupError, Cgroups, NodeFacts, RuntimeVersion};
use rubelet_linux::host::KernelFiles;
use rubelet_linux::host::facts::swap_can_be_limited;

use crate::config_load::Loaded;

/// Pods that are started at the same time, per CPU: enough to keep the runtime busy while others wait for the disk.
const STARTS_PER_CPU: i64 = 2;

/// What configuration, flags, gates and facts come down to.
pub(crate) fn settings(
    loaded: &Loaded,
    facts: &NodeFacts,
    version: &RuntimeVersion,
    tree: CgroupTree,
) -> anyhow::Result<Settings> {
    let config = &loaded.config;
    let gate = |gate| loaded.gates.enabled(gate);
    let longest = config.crash_loop_back_off.max_container_restart_period.map(Into::into);
    let longest = longest.filter(|_| gate(Gate::KubeletCrashLoopBackOffMax));
    let node = node::setup(loaded, facts)?;
    let cluster_dns: Result<Vec<IpAddr>, _> = config.cluster_dns.iter().map(|ip| ip.parse()).collect();
    Ok(Settings {
        runtime_name: version.name.clone(),
        pace: Pace::new(config.sync_frequency.to_std()),
        crash_backoff: BackoffPolicy::crash(longest, gate(Gate::ReduceDefaultCrashLoopBackOffDecay)),
        launch: launch_context(loaded, facts, tree)?,
        cluster_dns: cluster_dns.context("clusterDNS")?,
        plan_gates: PlanGates {
            container_restart_rules: gate(Gate::ContainerRestartRules),
            restart_all_containers: gate(Gate::RestartAllContainersOnContainerExits),
        },
        parallel_starts: usize::try_from(facts.cpu_millis / 1000 * STARTS_PER_CPU).unwrap_or(1).max(2),
        gc: GcPolicy {
            min_age: loaded.flags.minimum_container_ttl_duration.to_std(),
            // A negative number is no limit.
            per_container: usize::try_from(loaded.flags.maximum_dead_containers_per_container).ok(),
            total: usize::try_from(loaded.flags.maximum_dead_containers).ok(),
        },
        admission: Admission {
            labels: first_labels(&node),
            allocatable: node_allocatable(&node_capacity(&node.machine, node.pods), &node.reserved),
            taints: node.taints,
            unserved: match node.unserved {
                Unserved::Named(names) => names,
                // The object is put right when the node registers.
                Unserved::All => BTreeSet::new(),
            },
            sysctls: SysctlAllowlist::new(kernel_version(), &config.allowed_unsafe_sysctls)?,
        },
        address_period: config.node_status_update_frequency.to_std(),
    })
}

fn launch_context(loaded: &Loaded, facts: &NodeFacts, tree: CgroupTree) -> anyhow::Result<LaunchContext> {
    let config = &loaded.config;
    let period = config.cpu_cfs_quota_period.as_nanos() / 1000;
    Ok(LaunchContext {
        tree,
        cgroups: facts.cgroups,
        memory_bytes: facts.memory_bytes,
        hugepage_sizes: facts.hugepage_sizes.clone(),
        swap: SwapPolicy {
            limited: config.memory_swap.swap_behavior == Some(SwapBehavior::LimitedSwap),
            bytes: facts.swap_bytes,
            controller: swap_can_be_limited(&KernelFiles::default(), facts.cgroups),
        },
        cpu: CpuPolicy { quota: config.cpu_cfs_quota, period: u32::try_from(period).context("cpuCFSQuotaPeriod")? },
        single_process_oom_kill: config.single_process_oom_kill,
        pod_pids_limit: config.pod_pids_limit,
        pod_logs_dir: PathBuf::from(&config.pod_logs_dir),
        seccomp_dir: Path::new(&loaded.flags.root_dir).join("seccomp"),
        seccomp_default: loaded.seccomp_default(),
        selinux: Path::new("/sys/fs/selinux/enforce").exists(),
        masked_paths: thermal_throttle_paths(),
        cluster_domain: config.cluster_domain.clone(),
        gates: LaunchGates {
            stop_signals: loaded.gates.enabled(Gate::ContainerStopSignals),
            hostname_override: loaded.gates.enabled(Gate::HostnameOverride),
            runtime_class_in_images: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
        },
    })
}

fn max_pods(config: &KubeletConfiguration, facts: &NodeFacts) -> i64 {
    let most = i64::from(config.max_pods);
    match i64::from(config.pods_per_core) {
        0 => most,
        per_core => most.min(per_core.saturating_mul(facts.cpu_millis / 1000)),
    }
}

/// Makes the cgroups that hold all pods (CG-10, CG-21).
pub(crate) async fn prepare_cgroups(
    cgroups: &dyn Cgroups,
    config: &KubeletConfiguration,
    settings: &Settings,
    facts: &NodeFacts,
) -> Result<(), CgroupError> {
    let tree = &settings.launch.tree;
    if !tree.per_qos() {
        return Ok(());
    }
    // What cannot be read has been refused before.
    let limit = node::cgroup_limit(config, facts).unwrap_or_else(|_| settings.admission.allocatable.clone());
    cgroups.ensure(&tree.root(), &node_values(&limit, &facts.hugepage_sizes)).await?;
    let levels = qos_values([], &facts.hugepage_sizes);
    cgroups.ensure(&tree.level(QosClass::Burstable), &levels.burstable).await?;
    cgroups.ensure(&tree.level(QosClass::BestEffort), &levels.best_effort).await
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

fn kernel_version() -> (u32, u32) {
    rubelet_linux::host::facts::running_kernel().unwrap_or((0, 0))
}

/// Directories that tell of other tenants' load (RT-98). upstream: pkg/kubelet defaultMaskedPaths (v1.36)
fn thermal_throttle_paths() -> Vec<String> {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut paths: Vec<String> = cpus
        .map(|cpu| cpu.path().join("thermal_throttle"))
        .filter(|path| path.exists())
        .filter_map(|path| path.to_str().map(str::to_owned))
        .collect();
    paths.sort();
    paths
}
