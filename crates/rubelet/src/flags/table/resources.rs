//! Cgroups, reservations, cpu, memory and topology; eviction.

use rubelet_core::config::{
    CgroupDriver, Choice, CpuManagerPolicy, MemoryManagerPolicy, TopologyPolicy, TopologyScope,
};

use super::{Flag, Group, Kind};

const USE_EVICTION: &str = "use --eviction-hard or --eviction-soft instead; it will be removed";

pub(super) static FLAGS: &[Flag] = &[
    Flag::new(
        "cgroup-driver",
        Group::Resources,
        Kind::Word {
            value_name: "DRIVER",
            set: |s, word| {
                s.config.cgroup_driver = word.parse::<CgroupDriver>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.cgroup_driver.word().to_owned(),
        },
        "cgroupfs or systemd; the runtime's driver takes precedence.",
    )
    .field("cgroupDriver"),
    Flag::new(
        "cgroup-root",
        Group::Resources,
        Kind::Text(|s| &mut s.config.cgroup_root),
        "Cgroup under which pods are placed.",
    )
    .field("cgroupRoot"),
    Flag::new(
        "cgroups-per-qos",
        Group::Resources,
        Kind::Bool(|s| &mut s.config.cgroups_per_qos),
        "Give pods cgroups of their own, sorted by QoS class.",
    )
    .field("cgroupsPerQOS"),
    Flag::new(
        "kubelet-cgroups",
        Group::Resources,
        Kind::Text(|s| &mut s.config.kubelet_cgroups),
        "Cgroup for rubelet itself.",
    )
    .field("kubeletCgroups"),
    Flag::new(
        "system-cgroups",
        Group::Resources,
        Kind::Text(|s| &mut s.config.system_cgroups),
        "Cgroup for processes that are in none; needs --cgroup-root.",
    )
    .field("systemCgroups"),
    Flag::new(
        "system-reserved",
        Group::Resources,
        Kind::Map(|s| &mut s.config.system_reserved),
        "Resources kept for processes outside Kubernetes: cpu, memory, ephemeral-storage, pid.",
    )
    .field("systemReserved"),
    Flag::new(
        "system-reserved-cgroup",
        Group::Resources,
        Kind::Text(|s| &mut s.config.system_reserved_cgroup),
        "Cgroup on which --system-reserved is enforced.",
    )
    .field("systemReservedCgroup"),
    Flag::new(
        "kube-reserved",
        Group::Resources,
        Kind::Map(|s| &mut s.config.kube_reserved),
        "Resources kept for Kubernetes' own daemons: cpu, memory, ephemeral-storage, pid.",
    )
    .field("kubeReserved"),
    Flag::new(
        "kube-reserved-cgroup",
        Group::Resources,
        Kind::Text(|s| &mut s.config.kube_reserved_cgroup),
        "Cgroup on which --kube-reserved is enforced.",
    )
    .field("kubeReservedCgroup"),
    Flag::new(
        "enforce-node-allocatable",
        Group::Resources,
        Kind::List(|s| &mut s.config.enforce_node_allocatable),
        "Where node allocatable is enforced: pods, system-reserved[-compressible], kube-reserved[-compressible], or none.",
    )
    .field("enforceNodeAllocatable"),
    Flag::new(
        "reserved-cpus",
        Group::Resources,
        Kind::Text(|s| &mut s.config.reserved_system_cpus),
        "Cpus kept for the system, like 0-1,8; wins over cpu counts in the reservations.",
    )
    .field("reservedSystemCPUs"),
    Flag::new(
        "reserved-memory",
        Group::Resources,
        Kind::ReservedMemory(|s| &mut s.config.reserved_memory),
        "Memory kept free per NUMA node, like 0:memory=1Gi,hugepages-2Mi=64Mi. May be repeated.",
    )
    .field("reservedMemory"),
    Flag::new(
        "qos-reserved",
        Group::Resources,
        Kind::Map(|s| &mut s.config.qos_reserved),
        "Share of requests that lower QoS classes cannot use, like memory=50%. (Alpha)",
    )
    .field("qosReserved"),
    Flag::new(
        "cpu-cfs-quota",
        Group::Resources,
        Kind::Bool(|s| &mut s.config.cpu_cfs_quota),
        "Enforce cpu limits.",
    )
    .field("cpuCFSQuota"),
    Flag::new(
        "cpu-cfs-quota-period",
        Group::Resources,
        Kind::Duration(|s| &mut s.config.cpu_cfs_quota_period),
        "Period over which cpu limits are enforced, 1ms to 1s.",
    )
    .field("cpuCFSQuotaPeriod"),
    Flag::new(
        "cpu-manager-policy",
        Group::Resources,
        Kind::Word {
            value_name: "POLICY",
            set: |s, word| {
                s.config.cpu_manager_policy = word.parse::<CpuManagerPolicy>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.cpu_manager_policy.word().to_owned(),
        },
        "none, or static for exclusive cpus.",
    )
    .field("cpuManagerPolicy"),
    Flag::new(
        "cpu-manager-policy-options",
        Group::Resources,
        Kind::Pair(|s| &mut s.config.cpu_manager_policy_options),
        "Fine tuning of --cpu-manager-policy. May be repeated.",
    )
    .field("cpuManagerPolicyOptions"),
    Flag::new(
        "cpu-manager-reconcile-period",
        Group::Resources,
        Kind::Duration(|s| &mut s.config.cpu_manager_reconcile_period),
        "How often cpu sets are compared with what they should be.",
    )
    .field("cpuManagerReconcilePeriod"),
    Flag::new(
        "memory-manager-policy",
        Group::Resources,
        Kind::Word {
            value_name: "POLICY",
            set: |s, word| {
                s.config.memory_manager_policy = word.parse::<MemoryManagerPolicy>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.memory_manager_policy.word().to_owned(),
        },
        "None, or Static for memory of chosen NUMA nodes.",
    )
    .field("memoryManagerPolicy"),
    Flag::new(
        "topology-manager-policy",
        Group::Resources,
        Kind::Word {
            value_name: "POLICY",
            set: |s, word| {
                s.config.topology_manager_policy = word.parse::<TopologyPolicy>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.topology_manager_policy.word().to_owned(),
        },
        "none, best-effort, restricted or single-numa-node.",
    )
    .field("topologyManagerPolicy"),
    Flag::new(
        "topology-manager-scope",
        Group::Resources,
        Kind::Word {
            value_name: "SCOPE",
            set: |s, word| {
                s.config.topology_manager_scope = word.parse::<TopologyScope>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.topology_manager_scope.word().to_owned(),
        },
        "Unit of alignment: container or pod.",
    )
    .field("topologyManagerScope"),
    Flag::new(
        "topology-manager-policy-options",
        Group::Resources,
        Kind::Map(|s| &mut s.config.topology_manager_policy_options),
        "Fine tuning of --topology-manager-policy.",
    )
    .field("topologyManagerPolicyOptions"),
    Flag::new(
        "eviction-hard",
        Group::Eviction,
        Kind::Thresholds(|s| &mut s.config.eviction_hard),
        "Evict at once below these, like memory.available<1Gi. Without a --config file there are none.",
    )
    .field("evictionHard"),
    Flag::new(
        "eviction-soft",
        Group::Eviction,
        Kind::Thresholds(|s| &mut s.config.eviction_soft),
        "Evict below these after a grace period.",
    )
    .field("evictionSoft"),
    Flag::new(
        "eviction-soft-grace-period",
        Group::Eviction,
        Kind::Map(|s| &mut s.config.eviction_soft_grace_period),
        "How long each soft threshold must be crossed, like memory.available=1m30s.",
    )
    .field("evictionSoftGracePeriod"),
    Flag::new(
        "eviction-max-pod-grace-period",
        Group::Eviction,
        Kind::Int32(|s| &mut s.config.eviction_max_pod_grace_period),
        "Longest grace of a softly evicted pod in seconds; negative for the pod's own.",
    )
    .field("evictionMaxPodGracePeriod"),
    Flag::new(
        "eviction-minimum-reclaim",
        Group::Eviction,
        Kind::Map(|s| &mut s.config.eviction_minimum_reclaim),
        "How much to free beyond each threshold, like imagefs.available=2Gi.",
    )
    .field("evictionMinimumReclaim"),
    Flag::new(
        "eviction-pressure-transition-period",
        Group::Eviction,
        Kind::Duration(|s| &mut s.config.eviction_pressure_transition_period),
        "How long pressure is still reported after it ended.",
    )
    .field("evictionPressureTransitionPeriod"),
    Flag::new(
        "kernel-memcg-notification",
        Group::Eviction,
        Kind::Bool(|s| &mut s.config.kernel_memcg_notification),
        "Learn of memory pressure from the kernel instead of by polling.",
    )
    .field("kernelMemcgNotification"),
    Flag::new(
        "experimental-allocatable-ignore-eviction",
        Group::Eviction,
        Kind::Bool(|s| &mut s.flags.experimental_allocatable_ignore_eviction),
        "Leave hard thresholds out of node allocatable.",
    )
    .old("it will be removed"),
    Flag::new(
        "minimum-container-ttl-duration",
        Group::Eviction,
        Kind::Duration(|s| &mut s.flags.minimum_container_ttl_duration),
        "Youngest dead container that may be removed.",
    )
    .old(USE_EVICTION),
    Flag::new(
        "maximum-dead-containers-per-container",
        Group::Eviction,
        Kind::Int32(|s| &mut s.flags.maximum_dead_containers_per_container),
        "Dead instances kept per container.",
    )
    .old(USE_EVICTION),
    Flag::new(
        "maximum-dead-containers",
        Group::Eviction,
        Kind::Int32(|s| &mut s.flags.maximum_dead_containers),
        "Dead instances kept on the node; negative for all.",
    )
    .old(USE_EVICTION),
];
