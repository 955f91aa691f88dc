//! Counters of a machine that a test sets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, PodUid};
use rubelet_core::usage::{
    CgroupKind, CgroupSample, CpuUsage, DiskUsage, FsStats, LayerUsage, Limits, MachineInfo, MemoryUsage, NetworkUsage,
    ProcessCount, Sample, Usage,
};
use rubelet_engine::ports::{Detail, Disks, RuntimeStats, Stats, Unmeasured, Walked};

use crate::clock::TestClock;

/// The cgroups, networks, disks and writable layers of a machine. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeStats {
    clock: TestClock,
    world: Arc<Mutex<World>>,
}

#[derive(Debug, Default)]
struct World {
    cgroups: BTreeMap<String, CgroupSample>,
    networks: BTreeMap<String, NetworkUsage>,
    disks: BTreeMap<PathBuf, FsStats>,
    dirs: BTreeMap<PathBuf, (DiskUsage, usize)>,
    turns: BTreeMap<PathBuf, usize>,
    layers: BTreeMap<ContainerId, LayerUsage>,
    hanging: BTreeSet<&'static str>,
    looks: Vec<Detail>,
}

impl FakeStats {
    /// A machine with a root cgroup and nothing else.
    pub fn new(clock: TestClock) -> Self {
        let this = Self { clock, world: Arc::default() };
        this.set_cgroup("/", CgroupKind::Root, Duration::ZERO, 0);
        this
    }

    /// Sets what a cgroup uses; makes it if it is not there.
    pub fn set_cgroup(&self, path: &str, kind: CgroupKind, cpu: Duration, memory: u64) {
        let usage = Usage {
            cpu: Some(CpuUsage { total: cpu, ..CpuUsage::default() }),
            memory: Some(MemoryUsage { usage: memory, ..MemoryUsage::default() }),
            ..Usage::default()
        };
        let cgroup = CgroupSample { kind, created_at: None, usage, limits: Limits::default() };
        self.world().cgroups.insert(path.to_owned(), cgroup);
    }

    /// Makes the cgroup of a container.
    pub fn set_container(&self, pod: &PodUid, id: &ContainerId, memory: u64) {
        let kind = CgroupKind::Container { pod: pod.clone(), id: id.clone() };
        self.set_cgroup(&format!("/kubepods/pod{pod}/{id}"), kind, Duration::ZERO, memory);
    }

    /// Sets the network that is read through a cgroup.
    pub fn set_network(&self, cgroup: &str, network: NetworkUsage) {
        self.world().networks.insert(cgroup.to_owned(), network);
    }

    /// Mounts a file system.
    pub fn set_disk(&self, path: &str, size: FsStats) {
        self.world().disks.insert(path.into(), size);
    }

    /// Sets what a directory takes, and in how many turns it is measured.
    pub fn set_dir(&self, path: &Path, used: DiskUsage, turns: usize) {
        self.world().dirs.insert(path.to_path_buf(), (used, turns));
    }

    /// Sets the writable layer of a container.
    pub fn set_layer(&self, id: &ContainerId, bytes: u64) {
        let layer = LayerUsage { at: None, bytes: Some(bytes), inodes: Some(1) };
        self.world().layers.insert(id.clone(), layer);
    }

    /// A part that never answers from now on: `sample`, `networks`, `processes`, `file_system`, `usage` or `layers`.
    pub fn hang(&self, part: &'static str) {
        self.world().hanging.insert(part);
    }

    /// The looks at the cgroups so far.
    pub fn looks(&self) -> Vec<Detail> {
        self.world().looks.clone()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(&self, part: &'static str) {
        let hangs = self.world().hanging.contains(part);
        if hangs {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Stats for FakeStats {
    async fn sample(&self, detail: Detail) -> Result<Sample, Unmeasured> {
        self.world().looks.push(detail);
        self.enter("sample").await;
        Ok(Sample { at: self.clock.now(), cgroups: self.world().cgroups.clone() })
    }

    async fn networks(&self, cgroups: &[String]) -> BTreeMap<String, NetworkUsage> {
        self.enter("networks").await;
        let world = self.world();
        cgroups.iter().filter_map(|path| Some((path.clone(), world.networks.get(path)?.clone()))).collect()
    }

    async fn processes(&self) -> Result<ProcessCount, Unmeasured> {
        self.enter("processes").await;
        Ok(ProcessCount { max: 4096, current: 100 })
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo { cpus: 4, memory_bytes: 8 << 30, ..MachineInfo::default() }
    }
}

#[async_trait]
impl Disks for FakeStats {
    async fn file_system(&self, path: &Path) -> Result<FsStats, Unmeasured> {
        self.enter("file_system").await;
        let world = self.world();
        let found = path.ancestors().find_map(|path| world.disks.get(path).copied());
        found.ok_or_else(|| Unmeasured(format!("nothing is mounted at {}", path.display())))
    }

    async fn usage(&self, dirs: &[PathBuf]) -> BTreeMap<PathBuf, Walked> {
        self.enter("usage").await;
        let mut world = self.world();
        let mut answers = BTreeMap::new();
        for dir in dirs {
            let (used, turns) = world.dirs.get(dir).copied().unwrap_or_default();
            let turn = world.turns.entry(dir.clone()).or_default();
            *turn += 1;
            let walked = if *turn >= turns { Walked::Whole(used) } else { Walked::Unfinished };
            answers.insert(dir.clone(), walked);
        }
        answers
    }
}

#[async_trait]
impl RuntimeStats for FakeStats {
    async fn layers(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
        self.enter("layers").await;
        Ok(self.world().layers.clone())
    }
}
