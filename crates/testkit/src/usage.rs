//! A reader of usage that a test controls, and a node with usage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rubelet_core::id::PodRef;
use rubelet_core::time::{Instant, Now};
use rubelet_core::usage::{
    CgroupKind, CgroupSample, ContainerUsage, CpuUsage, Interface, MachineInfo, MemoryUsage, NetworkUsage, NodeDisks,
    NodeUsage, OpenFiles, PodUsage, Sample, SandboxUsage, Tasks, Usage,
};
use rubelet_engine::ports::{Unmeasured, UsageReader, Wanted};
use tokio::sync::watch;

type Answer = Result<Arc<NodeUsage>, Unmeasured>;

/// Answers with what the test sets, and keeps what it was asked. Clones share one world.
#[derive(Clone, Debug)]
pub struct FakeUsage {
    answer: Arc<watch::Sender<Option<Answer>>>,
    asked: Arc<watch::Sender<Vec<Wanted>>>,
}

impl FakeUsage {
    /// A reader that answers with this.
    pub fn new(answer: Result<NodeUsage, Unmeasured>) -> Self {
        let reader = Self::hanging();
        reader.set(answer);
        reader
    }

    /// A reader that does not answer until [`Self::set`].
    pub fn hanging() -> Self {
        Self { answer: Arc::new(watch::Sender::new(None)), asked: Arc::new(watch::Sender::new(Vec::new())) }
    }

    /// Answers with this from now on, also those that wait.
    pub fn set(&self, answer: Result<NodeUsage, Unmeasured>) {
        self.answer.send_replace(Some(answer.map(Arc::new)));
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Wanted> {
        self.asked.borrow().clone()
    }
}

#[async_trait]
impl UsageReader for FakeUsage {
    async fn usage(&self, wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        self.asked.send_modify(|asked| asked.push(wanted));
        let mut answer = self.answer.subscribe();
        let answer = answer.wait_for(Option::is_some).await.map(|answer| answer.clone());
        answer.ok().flatten().unwrap_or_else(|| Err(Unmeasured("the reader is gone".into())))
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo { cpus: 2, memory_bytes: 8 << 30, ..MachineInfo::default() }
    }
}

/// A node with this many pods, `default/web-0` and so on, of two containers each.
pub fn node_usage(pods: usize) -> NodeUsage {
    let wall = Timestamp::from_second(1_780_000_000).expect("a time in range");
    let mut cgroups = BTreeMap::new();
    for (path, kind) in
        [("/", CgroupKind::Root), ("/kubepods", CgroupKind::AllPods), ("/kubepods/burstable", CgroupKind::PodsOfClass)]
    {
        cgroups.insert(path.to_owned(), cgroup(kind));
    }
    let pods = (0..pods).map(|n| pod(n, &mut cgroups)).collect();
    NodeUsage {
        sample: Arc::new(Sample { at: Now { mono: Instant::START, wall }, cgroups }),
        cpu_rates: BTreeMap::new(),
        pods,
        network: None,
        disks: NodeDisks::default(),
        processes: None,
    }
}

fn cgroup(kind: CgroupKind) -> CgroupSample {
    let total = Duration::from_millis(1234);
    let memory = MemoryUsage { usage: 20 << 20, inactive_file: 1 << 20, ..MemoryUsage::default() };
    let usage = Usage {
        cpu: Some(CpuUsage { total, user: total, ..CpuUsage::default() }),
        memory: Some(memory),
        tasks: Some(Tasks { threads: 4, threads_max: None, processes: Some(2) }),
        files: Some(OpenFiles { descriptors: 9, sockets: 1, limit: Some(1024) }),
        ..Usage::default()
    };
    let created_at = Timestamp::from_second(1_779_990_000).ok();
    CgroupSample { kind, created_at, usage, limits: Default::default() }
}

fn pod(n: usize, cgroups: &mut BTreeMap<String, CgroupSample>) -> PodUsage {
    let uid = format!("6f1d2c3a-0000-4000-8000-{n:012x}");
    let path = format!("/kubepods/burstable/pod{uid}");
    cgroups.insert(path.clone(), cgroup(CgroupKind::Pod(uid.as_str().into())));
    let created_at = Timestamp::from_second(1_779_990_000).expect("a time in range");
    let mut below = |which: usize| {
        let id = format!("{:064x}", n * 8 + which);
        let path = format!("{path}/{id}");
        cgroups
            .insert(path.clone(), cgroup(CgroupKind::Container { pod: uid.as_str().into(), id: id.as_str().into() }));
        (id, Some(path))
    };
    let (id, sandbox_cgroup) = below(0);
    let sandbox =
        SandboxUsage { id: id.into(), image: "registry.example/pause:3.10".into(), created_at, cgroup: sandbox_cgroup };
    let containers = (1..=2).map(|which| {
        let (id, cgroup) = below(which);
        ContainerUsage {
            name: format!("app-{which}"),
            id: id.into(),
            image: "registry.example/app:1.0".into(),
            started_at: created_at,
            cgroup,
            layer: None,
            logs: None,
        }
    });
    let containers = containers.collect();
    let eth0 = Interface { name: "eth0".into(), ..Interface::default() };
    PodUsage {
        pod: PodRef { namespace: "default".into(), name: format!("web-{n}").into(), uid: uid.as_str().into() },
        started_at: Some(created_at),
        host_network: false,
        cgroup: Some(path),
        sandbox: Some(sandbox),
        containers,
        network: Some(NetworkUsage { interfaces: vec![eth0] }),
        volumes: Vec::new(),
        own_files: None,
    }
}
