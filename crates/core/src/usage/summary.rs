//! `/stats/summary`, which is JSON: the node, its system containers, its pods with containers, volumes and network.
//!
//! What could not be measured is left out. Two values are zero instead, as upstream has them: pressure, on a kernel that does
//! not measure it, and swap, on one that counts memory only.
//! upstream: kubelet/server/stats/summary.go, kubelet/stats/helper.go, cri_stats_provider.go (v1.36)

mod document;

use jiff::Timestamp;

use self::document::{
    ContainerStats, CpuStats, FsStats, InterfaceStats, IoStats, MemoryStats, NetworkStats, NodeStats, PodReference,
    PodStats, ProcessStats, PsiData, PsiStats, PvcReference, RlimitStats, RuntimeStats, Summary, SwapStats, Time,
    VolumeStats,
};
use super::{
    CgroupKind, CgroupSample, ContainerUsage, DiskUsage, FsStats as FileSystem, Interface, MachineInfo, NetworkUsage,
    NodeDisks, NodeUsage, PodUsage, Stall, Stalls, SystemContainer, VolumeUsage, shown_interfaces, shown_pods,
};

/// How much of the summary is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All of it.
    All,
    /// `only_cpu_and_memory=true`.
    CpuAndMemory,
}

/// What of a summary does not come from the look.
#[derive(Clone, Copy, Debug)]
pub struct SummaryOf<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// The machine.
    pub machine: &'a MachineInfo,
    /// When this kubelet was started.
    pub kubelet_started: Timestamp,
}

/// The interface whose counters stand for all of them. upstream: stats/helper.go defaultNetworkInterfaceName (v1.36)
const DEFAULT_INTERFACE: &str = "eth0";

/// The document.
pub fn summary(usage: &NodeUsage, of: &SummaryOf<'_>, parts: Parts) -> String {
    let look = Look { usage, parts, at: Time(Some(usage.sample.at.wall)) };
    let summary = Summary { node: look.node(of), pods: shown_pods(usage).map(|pod| look.pod(pod)).collect() };
    serde_json::to_string(&summary).expect("structs of text and numbers are JSON")
}

struct Look<'a> {
    usage: &'a NodeUsage,
    parts: Parts,
    at: Time,
}

/// The limits that a cgroup's usage is compared with.
#[derive(Clone, Copy)]
struct Bounds {
    memory: Option<u64>,
    swap: Option<u64>,
}

impl Look<'_> {
    fn all(&self) -> bool {
        self.parts == Parts::All
    }

    fn node(&self, of: &SummaryOf<'_>) -> NodeStats {
        let root = self.usage.sample.find(&CgroupKind::Root);
        let path = self.path_of(&CgroupKind::Root);
        // The cgroup of the machine has no limits: its own are those of the hardware.
        let bounds = Bounds { memory: Some(of.machine.memory_bytes), swap: Some(of.machine.swap_bytes) };
        let disks = &self.usage.disks;
        let image_fs = disks.imagefs.map(|fs| self.used_on(&fs, disks.images.as_ref()));
        let runtime = RuntimeStats { container_fs: self.container_fs(disks, image_fs.as_ref()), image_fs };
        let processes = self.usage.processes;
        let started = match self.parts {
            Parts::All => of.machine.boot_time,
            Parts::CpuAndMemory => root.and_then(|root| root.created_at).or(of.machine.boot_time),
        };
        NodeStats {
            node_name: of.node.to_owned(),
            system_containers: self.system_containers(of.kubelet_started),
            start_time: Time(started),
            cpu: root.and_then(|root| self.cpu(root, path)),
            memory: root.and_then(|root| self.memory(root, bounds.memory)),
            io: root.and_then(|root| self.io(root)),
            network: self.usage.network.as_ref().filter(|_| self.all()).and_then(|network| self.network(network)),
            fs: disks.nodefs.filter(|_| self.all()).map(|fs| self.whole(&fs)),
            runtime: self.all().then_some(runtime),
            rlimit: processes.filter(|_| self.all()).map(|count| RlimitStats {
                time: self.at,
                maxpid: count.max,
                curproc: count.current,
            }),
            swap: root.and_then(|root| self.swap(root, bounds.swap)),
        }
    }

    /// Upstream shows the file system of images twice. So do we unless writable layers are on another one.
    fn container_fs(&self, disks: &NodeDisks, image_fs: Option<&FsStats>) -> Option<FsStats> {
        match (disks.containerfs, disks.imagefs) {
            (Some(layers), Some(images)) if layers.device != images.device => {
                Some(self.used_on(&layers, disks.layers.as_ref()))
            }
            (Some(_) | None, _) => image_fs.cloned(),
        }
    }

    fn system_containers(&self, kubelet_started: Timestamp) -> Vec<ContainerStats> {
        let kinds = [SystemContainer::Kubelet, SystemContainer::Runtime, SystemContainer::Misc];
        let kinds = kinds.into_iter().map(|system| (system.as_str(), CgroupKind::System(system)));
        let kinds = kinds.chain([("pods", CgroupKind::AllPods)]);
        let shown = kinds.filter_map(|(name, kind)| {
            let cgroup = self.usage.sample.find(&kind)?;
            let own = kind == CgroupKind::System(SystemContainer::Kubelet);
            let started = if own { Some(kubelet_started) } else { cgroup.created_at };
            Some(self.container_stats(name, started, Some((cgroup, self.path_of(&kind)))))
        });
        shown.collect()
    }

    fn pod(&self, pod: &PodUsage) -> PodStats {
        let cgroup = self.cgroup(pod.cgroup.as_deref());
        let network = pod.network.as_ref().filter(|_| self.all() && !pod.host_network);
        let containers = pod.containers.chunk_by(|a, b| a.name == b.name);
        let containers = containers.filter_map(|same| same.iter().max_by_key(|container| container.started_at));
        let processes = pod
            .containers
            .iter()
            .filter_map(|container| self.cgroup(container.cgroup.as_deref())?.0.usage.tasks?.processes);
        let processes = processes.reduce(|a, b| a.saturating_add(b)).filter(|_| self.all());
        let started = pod.sandbox.as_ref().map(|sandbox| sandbox.created_at).or(pod.started_at);
        PodStats {
            pod_ref: PodReference {
                name: pod.pod.name.to_string(),
                namespace: pod.pod.namespace.to_string(),
                uid: pod.pod.uid.to_string(),
            },
            start_time: Time(started),
            containers: containers.map(|container| self.container(container)).collect(),
            cpu: cgroup.and_then(|(cgroup, path)| self.cpu(cgroup, path)),
            memory: cgroup.and_then(|(cgroup, _)| self.memory(cgroup, cgroup.limits.memory)),
            io: cgroup.and_then(|(cgroup, _)| self.io(cgroup)),
            network: network.and_then(|network| self.network(network)),
            volume: if self.all() { self.volumes(pod) } else { Vec::new() },
            ephemeral_storage: self.all().then(|| self.ephemeral_storage(pod)).flatten(),
            process_stats: processes.map(|process_count| ProcessStats { process_count }),
            swap: cgroup.and_then(|(cgroup, _)| self.swap(cgroup, cgroup.limits.swap)),
        }
    }

    fn container(&self, container: &ContainerUsage) -> ContainerStats {
        let cgroup = self.cgroup(container.cgroup.as_deref());
        let stats = self.container_stats(&container.name, Some(container.started_at), cgroup);
        if !self.all() {
            return stats;
        }
        let disks = &self.usage.disks;
        let layer = container.layer.map(|layer| FsStats {
            time: layer.at.map_or(self.at, |at| Time(Some(at))),
            used_bytes: layer.bytes,
            inodes_used: layer.inodes,
            ..self.room(disks.containerfs.or(disks.imagefs).as_ref())
        });
        let logs = container.logs.map(|logs| self.taken(&logs, disks.nodefs.as_ref()));
        ContainerStats { rootfs: layer, logs, ..stats }
    }

    fn container_stats(
        &self,
        name: &str,
        started: Option<Timestamp>,
        cgroup: Option<(&CgroupSample, Option<&str>)>,
    ) -> ContainerStats {
        ContainerStats {
            name: name.to_owned(),
            start_time: Time(started),
            cpu: cgroup.and_then(|(cgroup, path)| self.cpu(cgroup, path)),
            memory: cgroup.and_then(|(cgroup, _)| self.memory(cgroup, cgroup.limits.memory)),
            io: cgroup.and_then(|(cgroup, _)| self.io(cgroup)),
            rootfs: None,
            logs: None,
            swap: cgroup.and_then(|(cgroup, _)| self.swap(cgroup, cgroup.limits.swap)),
        }
    }

    fn cgroup<'s>(&'s self, path: Option<&'s str>) -> Option<(&'s CgroupSample, Option<&'s str>)> {
        Some((self.usage.sample.cgroups.get(path?)?, path))
    }

    fn path_of(&self, kind: &CgroupKind) -> Option<&str> {
        self.usage.sample.cgroups.iter().find(|(_, cgroup)| cgroup.kind == *kind).map(|(path, _)| path.as_str())
    }

    fn cpu(&self, cgroup: &CgroupSample, path: Option<&str>) -> Option<CpuStats> {
        let cpu = cgroup.usage.cpu?;
        Some(CpuStats {
            time: self.at,
            usage_nano_cores: path.and_then(|path| self.usage.cpu_rates.get(path)).copied(),
            usage_core_nano_seconds: nanos(cpu.total),
            psi: psi(cgroup.usage.pressure.map(|pressure| pressure.cpu)),
        })
    }

    fn memory(&self, cgroup: &CgroupSample, limit: Option<u64>) -> Option<MemoryStats> {
        let memory = cgroup.usage.memory?;
        let working_set = memory.working_set();
        Some(MemoryStats {
            time: self.at,
            available_bytes: limit.map(|limit| limit.saturating_sub(working_set)),
            usage_bytes: memory.usage,
            working_set_bytes: working_set,
            rss_bytes: memory.rss,
            page_faults: memory.own_page_faults,
            major_page_faults: memory.own_major_page_faults,
            psi: psi(cgroup.usage.pressure.map(|pressure| pressure.memory)),
        })
    }

    fn io(&self, cgroup: &CgroupSample) -> Option<IoStats> {
        let psi = psi(cgroup.usage.pressure.map(|pressure| pressure.io));
        self.all().then_some(IoStats { time: self.at, psi })
    }

    fn swap(&self, cgroup: &CgroupSample, limit: Option<u64>) -> Option<SwapStats> {
        cgroup.usage.memory?;
        let swap_usage_bytes = cgroup.usage.swap_bytes.unwrap_or_default();
        let swap_available_bytes = limit.map(|limit| limit.saturating_sub(swap_usage_bytes));
        Some(SwapStats { time: self.at, swap_available_bytes, swap_usage_bytes })
    }

    fn network(&self, network: &NetworkUsage) -> Option<NetworkStats> {
        let stats = |interface: &Interface| InterfaceStats {
            name: interface.name.clone(),
            rx_bytes: Some(interface.receive.bytes),
            rx_errors: Some(interface.receive.errors),
            tx_bytes: Some(interface.transmit.bytes),
            tx_errors: Some(interface.transmit.errors),
        };
        let interfaces: Vec<_> = shown_interfaces(network).map(stats).collect();
        let default = interfaces.iter().find(|interface| interface.name == DEFAULT_INTERFACE).cloned();
        let shown = !interfaces.is_empty();
        shown.then(|| NetworkStats { time: self.at, default: default.unwrap_or_default(), interfaces })
    }

    /// What files take of a file system.
    fn taken(&self, usage: &DiskUsage, fs: Option<&FileSystem>) -> FsStats {
        FsStats { used_bytes: Some(usage.bytes), inodes_used: Some(usage.inodes), ..self.room(fs) }
    }

    fn used_on(&self, fs: &FileSystem, usage: Option<&DiskUsage>) -> FsStats {
        let (used_bytes, inodes_used) = (usage.map(|usage| usage.bytes), usage.map(|usage| usage.inodes));
        FsStats { used_bytes, inodes_used, ..self.room(Some(fs)) }
    }

    /// A file system with all that is on it.
    fn whole(&self, fs: &FileSystem) -> FsStats {
        let inodes_used = Some(fs.inodes.saturating_sub(fs.inodes_free));
        FsStats { used_bytes: Some(fs.used), inodes_used, ..self.room(Some(fs)) }
    }

    /// The size of a file system, and what is free.
    fn room(&self, fs: Option<&FileSystem>) -> FsStats {
        FsStats {
            time: self.at,
            available_bytes: fs.map(|fs| fs.available),
            capacity_bytes: fs.map(|fs| fs.capacity),
            inodes_free: fs.map(|fs| fs.inodes_free),
            inodes: fs.map(|fs| fs.inodes),
            ..FsStats::default()
        }
    }

    /// Those of the node's disk first. upstream: stats/helper.go makePodStorageStats (v1.36)
    fn volumes(&self, pod: &PodUsage) -> Vec<VolumeStats> {
        let (local, others): (Vec<_>, Vec<_>) = pod.volumes.iter().partition(|volume| is_ephemeral(volume));
        let stats = |volume: &VolumeUsage| VolumeStats {
            // A volume has all six numbers.
            fs: {
                let on = volume.on.unwrap_or_default();
                FsStats { time: Time(Some(volume.at)), ..self.taken(&volume.used, Some(&on)) }
            },
            name: volume.name.clone(),
            pvc_ref: volume
                .claim
                .as_ref()
                .map(|claim| PvcReference { name: claim.clone(), namespace: pod.pod.namespace.to_string() }),
        };
        local.into_iter().chain(others).map(stats).collect()
    }

    /// Writable layers, logs, local volumes and the pod's own files.
    /// upstream: stats/helper.go calcEphemeralStorage (v1.36)
    #[doc(alias = "calcEphemeralStorage")]
    fn ephemeral_storage(&self, pod: &PodUsage) -> Option<FsStats> {
        let fs = self.usage.disks.nodefs?;
        let layers = pod.containers.iter().filter_map(|container| container.layer);
        let layers = layers.map(|layer| (layer.bytes, layer.inodes));
        let logs = pod.containers.iter().filter_map(|container| container.logs);
        let volumes = pod.volumes.iter().filter(|volume| is_ephemeral(volume)).map(|volume| volume.used);
        let files = logs.chain(volumes).chain(pod.own_files).map(|usage| (Some(usage.bytes), Some(usage.inodes)));
        let sum = |total: Option<u64>, part: Option<u64>| match (total, part) {
            (Some(total), Some(part)) => Some(total.saturating_add(part)),
            (total, part) => total.or(part),
        };
        let add = |total: (Option<u64>, Option<u64>), part: (Option<u64>, Option<u64>)| {
            (sum(total.0, part.0), sum(total.1, part.1))
        };
        let (used_bytes, inodes_used) = layers.chain(files).fold((None, None), add);
        Some(FsStats { used_bytes, inodes_used, ..self.room(Some(&fs)) })
    }
}

/// Its files are the pod's and take room of the node's disk.
/// upstream: pkg/volume/util IsLocalEphemeralVolume (v1.36)
fn is_ephemeral(volume: &VolumeUsage) -> bool {
    !volume.elsewhere && volume.claim.is_none()
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn psi(stalls: Option<Stalls>) -> PsiStats {
    let data = |stall: Stall| PsiData {
        total: nanos(stall.total),
        avg10: f64::from(stall.avg10) / 100.0,
        avg60: f64::from(stall.avg60) / 100.0,
        avg300: f64::from(stall.avg300) / 100.0,
    };
    let Stalls { some, full } = stalls.unwrap_or_default();
    PsiStats { full: data(full), some: data(some) }
}

#[cfg(test)]
mod tests;
