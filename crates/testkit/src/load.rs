//! A machine whose memory and disk are used by the pods that run on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::eviction::{MemoryMark, MemoryUsed};
use rubelet_core::id::PodRef;
use rubelet_core::usage::{
    CgroupKind, CgroupSample, DiskUsage, FsStats, Limits, MachineInfo, MemoryUsage, NodeDisks, NodeUsage, PodUsage,
    ProcessCount, Sample, Tasks, Usage, VolumeUsage,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Detail, PressureEvents, ReclaimError, Reclaimer, Unmeasured, UsageReader, Wanted};
use tokio::sync::watch;

use crate::FakeRuntime;

/// What one pod uses while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodUse {
    /// Memory in bytes.
    pub memory: u64,
    /// Of it, active page cache.
    pub cache: u64,
    /// Bytes in its volume `data`.
    pub disk: u64,
    /// Bytes in writable layers, which stay until its containers are removed.
    pub layers: u64,
    /// Processes.
    pub processes: u64,
}

/// A machine whose usage is that of the pods that run in a [`FakeRuntime`]: it shrinks when one ends. Clones share one
/// machine.
#[derive(Clone)]
pub struct LoadedMachine {
    runtime: FakeRuntime,
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<u64>>,
}

struct World {
    clock: Clock,
    memory: u64,
    disk: u64,
    images: u64,
    dead: u64,
    pods: BTreeMap<String, (PodRef, PodUse)>,
    disks_hang: bool,
    fails: bool,
    spike: u64,
    looks: u64,
    weighed: u64,
    reclaims: Vec<&'static str>,
}

/// Process IDs of the machine.
const PIDS: u64 = 4_194_304;

impl LoadedMachine {
    /// A machine with so many bytes of memory and disk, whose pods run in `runtime`.
    pub fn new(runtime: FakeRuntime, memory: u64, disk: u64) -> Self {
        let world = World {
            clock: Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH),
            memory,
            disk,
            images: 0,
            dead: 0,
            pods: BTreeMap::new(),
            disks_hang: false,
            fails: false,
            spike: 0,
            looks: 0,
            weighed: 0,
            reclaims: Vec::new(),
        };
        Self { runtime, world: Arc::new(Mutex::new(world)), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// Measures by this clock: that of the engine.
    pub fn by(&self, clock: Clock) -> Self {
        self.edit(|world| world.clock = clock);
        self.clone()
    }

    /// What a pod uses while it runs.
    pub fn set(&self, pod: &PodRef, used: PodUse) {
        self.edit(|world| drop(world.pods.insert(pod.name.to_string(), (pod.clone(), used))));
    }

    /// Bytes of images that no container uses, and of dead containers.
    pub fn set_reclaimable(&self, images: u64, dead: u64) {
        self.edit(|world| (world.images, world.dead) = (images, dead));
    }

    /// The next look at the node alone sees so many bytes of memory more, and no other one does.
    pub fn spike(&self, memory: u64) {
        self.edit(|world| world.spike = memory);
    }

    /// File systems answer no more, or again.
    pub fn hang_disks(&self, hang: bool) {
        self.edit(|world| world.disks_hang = hang);
    }

    /// Nothing can be measured, or again.
    pub fn fail(&self, fail: bool) {
        self.edit(|world| world.fails = fail);
    }

    /// How often the node was looked at, and how often the disks of pods.
    pub fn looks(&self) -> (u64, u64) {
        let world = self.world();
        (world.looks, world.weighed)
    }

    /// What was reclaimed, in order.
    pub fn reclaims(&self) -> Vec<&'static str> {
        self.world().reclaims.clone()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, edit: impl FnOnce(&mut World)) {
        edit(&mut self.world());
        self.changed.send_modify(|count| *count += 1);
    }

    /// The pods that run, with what they use.
    fn running(&self) -> Vec<(PodRef, PodUse)> {
        let all: Vec<_> = self.world().pods.values().cloned().collect();
        all.into_iter().filter(|(pod, _)| !self.runtime.running(&pod.name).is_empty()).collect()
    }

    /// Bytes in the writable layers of containers that are there, dead ones included.
    fn layers(&self) -> u64 {
        let all: Vec<_> = self.world().pods.values().cloned().collect();
        all.iter().filter(|(pod, _)| self.runtime.has_containers(&pod.name)).map(|(_, used)| used.layers).sum()
    }

    fn memory_used(&self) -> u64 {
        self.running().iter().map(|(_, used)| used.memory).sum()
    }
}

fn cgroup(kind: CgroupKind, used: PodUse, limit: Option<u64>) -> CgroupSample {
    let memory = MemoryUsage { usage: used.memory, active_file: used.cache, ..MemoryUsage::default() };
    let tasks = Tasks { threads: used.processes, ..Tasks::default() };
    CgroupSample {
        kind,
        created_at: None,
        usage: Usage { memory: Some(memory), tasks: Some(tasks), ..Usage::default() },
        limits: Limits { memory: limit, ..Limits::default() },
    }
}

#[async_trait]
impl UsageReader for LoadedMachine {
    async fn usage(&self, wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        let running = self.running();
        let mut world = self.world();
        world.looks += 1;
        world.weighed += u64::from(wanted.disks);
        if world.fails {
            return Err(Unmeasured("the kernel does not answer".into()));
        }
        let now = world.clock.now();
        let spike = if wanted.detail == Detail::Node { std::mem::take(&mut world.spike) } else { 0 };
        let idle = PodUse { memory: spike, ..PodUse::default() };
        let sum = running.iter().fold(idle, |sum, (_, used)| PodUse {
            memory: sum.memory + used.memory,
            cache: sum.cache + used.cache,
            disk: sum.disk + used.disk,
            layers: sum.layers + used.layers,
            processes: sum.processes + used.processes,
        });
        let mut cgroups = BTreeMap::from([
            ("/".to_owned(), cgroup(CgroupKind::Root, sum, None)),
            ("/kubepods".to_owned(), cgroup(CgroupKind::AllPods, sum, Some(world.memory))),
        ]);
        let mut pods = Vec::new();
        for (pod, used) in &running {
            let path = format!("/kubepods/pod{}", pod.uid);
            cgroups.insert(path.clone(), cgroup(CgroupKind::Pod(pod.uid.clone()), *used, None));
            let volume = VolumeUsage {
                name: "data".into(),
                claim: None,
                elsewhere: false,
                used: DiskUsage { bytes: used.disk + used.layers, inodes: 1 },
                on: None,
                at: now.wall,
            };
            pods.push(PodUsage {
                pod: pod.clone(),
                started_at: None,
                host_network: false,
                cgroup: Some(path),
                sandbox: None,
                containers: Vec::new(),
                network: None,
                volumes: if wanted.disks { vec![volume] } else { Vec::new() },
                own_files: None,
            });
        }
        let processes = Some(ProcessCount { max: PIDS, current: sum.processes });
        Ok(Arc::new(NodeUsage {
            sample: Arc::new(Sample { at: now, cgroups }),
            cpu_rates: BTreeMap::new(),
            pods,
            network: None,
            disks: NodeDisks::default(),
            processes,
        }))
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo { memory_bytes: self.world().memory, ..MachineInfo::default() }
    }

    async fn disks(&self, _max_age: Duration) -> Result<NodeDisks, Unmeasured> {
        if self.world().disks_hang {
            std::future::pending::<()>().await;
        }
        let used = self.running().iter().map(|(_, used)| used.disk).sum::<u64>() + self.layers();
        let world = self.world();
        let available = world.disk.saturating_sub(used).saturating_sub(world.images).saturating_sub(world.dead);
        let fs = FsStats {
            device: 1,
            capacity: world.disk,
            available,
            used: world.disk - available,
            inodes: 1_000_000,
            inodes_free: 900_000,
        };
        Ok(NodeDisks { nodefs: Some(fs), imagefs: Some(fs), containerfs: Some(fs), ..NodeDisks::default() })
    }
}

#[async_trait]
impl PressureEvents for LoadedMachine {
    async fn used(&self) -> MemoryUsed {
        MemoryUsed { node: Some(self.memory_used()), pods: None }
    }

    async fn filled(&self, marks: &[MemoryMark]) {
        let mut changes = self.changed.subscribe();
        let Some(at) = marks.iter().map(|mark| mark.at).min() else {
            return std::future::pending().await;
        };
        while self.memory_used() < at {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

#[async_trait]
impl Reclaimer for LoadedMachine {
    async fn dead_containers(&self) -> Result<(), ReclaimError> {
        self.edit(|world| {
            world.dead = 0;
            world.reclaims.push("containers");
        });
        Ok(())
    }

    async fn unused_images(&self) -> Result<(), ReclaimError> {
        self.edit(|world| {
            world.images = 0;
            world.reclaims.push("images");
        });
        Ok(())
    }
}
