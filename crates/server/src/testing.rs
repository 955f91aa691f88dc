//! Views of fictitious nodes, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Stage;
use rubelet_core::node::Pressure;
use rubelet_core::qos::{CgroupDriver, CgroupTree};
use rubelet_core::resources::Amount;
use rubelet_core::time::{Instant, Now};
use rubelet_core::timeline::Timeline;
use rubelet_core::usage::{
    CgroupKind, CgroupSample, ContainerUsage, DiskUsage, FsStats, LayerUsage, Limits, MachineInfo, MemoryUsage,
    NodeDisks, NodeUsage, PodUsage, Sample, Usage, VolumeUsage,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::health::RuntimeHealth;
use rubelet_engine::node_now::NodeNow;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::{RuntimeVersion, Unmeasured, UsageReader, Wanted};
use rubelet_engine::status::StatusMail;
use rubelet_engine::sync_loop::{KnownPod, NodeView};
use rubelet_testkit::RecordingEvents;

use tokio::sync::watch;

use crate::documents::NodeLimits;
use crate::local::{Agent, Insight};
use crate::recent_events::RecentEvents;
use crate::watched::WatchedNode;

/// An hour after start-up.
pub(crate) const NOW: Instant = Instant::from_secs(3600);

/// Wall time, `secs` before now.
pub(crate) fn ago(secs: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 - secs).expect("a time in range")
}

pub(crate) fn node(pods: Vec<WorkerView>) -> NodeView {
    let mut runtime = RuntimeHealth { up: true, ..RuntimeHealth::default() };
    runtime.status.network.ready = true;
    NodeView {
        pods,
        rejected: Vec::new(),
        bad: Vec::new(),
        runtime,
        unread_sources: Vec::new(),
        now: Now { mono: NOW, wall: ago(0) },
        job_panics: 0,
        longest_hold_up: None,
    }
}

/// A standalone agent that was started an hour ago.
pub(crate) fn agent() -> Agent {
    let now = NodeNow {
        ips: Arc::new([]),
        runtime: RuntimeHealth::default(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        allocatable: BTreeMap::new(),
        pressure: Pressure::default(),
        shutting_down: false,
    };
    Agent {
        node_name: "node-1".into(),
        version: "v1.36.4+rubelet.0.1.0".into(),
        started: Now { mono: Instant::START, wall: ago(3600) },
        api_server: None,
        heartbeat: None,
        object: watch::channel(None).1,
        now: watch::channel(Arc::new(now)).1,
        statuses: StatusMail::unread(None),
        runtime: RuntimeVersion { name: "containerd".into(), version: "2.1.9".into(), api_version: "v1".into() },
        runtime_endpoint: "unix:///run/containerd/containerd.sock".into(),
        driver: CgroupDriver::Cgroupfs,
        certificates: Arc::new(Vec::new),
        insight: insight(None),
    }
}

/// A node of two CPUs and 8 GiB, with a hard threshold for memory and one for its disk.
pub(crate) fn insight(usage: Option<Arc<dyn UsageReader>>) -> Insight {
    let amounts = |cpu: i64, memory: i64, pods: i64| {
        [("cpu", Amount::from_millis(cpu)), ("memory", Amount::units(memory)), ("pods", Amount::units(pods))]
            .map(|(name, amount)| (name.to_owned(), amount))
            .into()
    };
    let words = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let limits = NodeLimits {
        capacity: amounts(2000, 8 << 30, 110),
        reserved: amounts(100, 100 << 20, 0),
        hard: words(&[("memory.available", "100Mi"), ("nodefs.available", "10%")]),
        soft: words(&[("memory.available", "1Gi")]),
        soft_grace: words(&[("memory.available", "1m30s")]),
    };
    let events = RecentEvents::new(Arc::new(RecordingEvents::default()), Clock::real());
    Insight {
        usage,
        events: Arc::new(events),
        limits: Arc::new(limits),
        tree: Some(CgroupTree::new("", CgroupDriver::Cgroupfs, true)),
        calls: None,
        pulls: None,
        probes: None,
        ended: None,
        eviction: None,
    }
}

/// A pod that was added ten minutes ago.
pub(crate) fn worker(pod: Arc<Pod>, status: PodStatus) -> WorkerView {
    let since = Instant::from_secs(3000);
    WorkerView {
        pod: PodRef::of(&pod),
        spec: Some(pod),
        stage: Stage::Syncing { since },
        status: Arc::new(status),
        arrived: Now { mono: since, wall: ago(600) },
        waiting: None,
        next_look: None,
        problem: None,
        timeline: Timeline::default(),
        failures: 0,
        probe_troubles: Vec::new(),
        next_starts: BTreeMap::new(),
        seen: None,
    }
}

pub(crate) fn status(phase: &str, containers: Vec<ContainerStatus>) -> PodStatus {
    PodStatus { phase: Some(phase.into()), container_statuses: Some(containers), ..PodStatus::default() }
}

pub(crate) fn running(name: &str, since: i64, ready: bool) -> ContainerStatus {
    let running = ContainerStateRunning { started_at: Some(Time(ago(since))) };
    let state = ContainerState { running: Some(running), ..ContainerState::default() };
    ContainerStatus {
        name: name.into(),
        image: "test/app:1".into(),
        ready,
        started: Some(true),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

pub(crate) fn waiting(name: &str, reason: &str, message: &str) -> ContainerStatus {
    let waiting = ContainerStateWaiting { reason: Some(reason.into()), message: Some(message.into()) };
    let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
    ContainerStatus { name: name.into(), image: "test/app:1".into(), state: Some(state), ..ContainerStatus::default() }
}

pub(crate) fn ended(name: &str, code: i32, reason: &str, since: i64) -> ContainerStatus {
    ContainerStatus {
        name: name.into(),
        image: "test/app:1".into(),
        state: Some(end(code, reason, since)),
        ..ContainerStatus::default()
    }
}

pub(crate) fn end(code: i32, reason: &str, since: i64) -> ContainerState {
    let ended = ContainerStateTerminated {
        exit_code: code,
        reason: Some(reason.into()),
        finished_at: Some(Time(ago(since))),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(ended), ..ContainerState::default() }
}

/// A node that always returns the same view, or none at all.
pub(crate) struct FakeNode {
    pub(crate) view: Option<NodeView>,
    pub(crate) quiet_for: Duration,
}

#[async_trait]
impl WatchedNode for FakeNode {
    async fn view(&self) -> Option<NodeView> {
        match &self.view {
            Some(view) => Some(view.clone()),
            None => std::future::pending().await,
        }
    }

    async fn pod(&self, uid: &PodUid) -> Option<Option<KnownPod>> {
        Some(find(&self.view().await?, |pod| pod.uid == *uid))
    }

    async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>> {
        Some(find(&self.view().await?, |pod| *pod.namespace == *namespace && *pod.name == *name))
    }

    fn quiet_for(&self) -> Duration {
        self.quiet_for
    }

    fn news(&self) -> watch::Receiver<Instant> {
        watch::channel(NOW).1
    }
}

/// The first pod of a view that satisfies `meant`.
pub(crate) fn find(view: &NodeView, meant: impl Fn(&PodRef) -> bool) -> Option<KnownPod> {
    let found = view.pods.iter().find(|worker| meant(&worker.pod))?;
    let (reference, status) = (found.pod.clone(), found.status.clone());
    Some(KnownPod { reference, pod: found.spec.clone()?, status })
}

/// Usage of the node and of the pod `web`: memory is nearly full, and so is the disk.
pub(crate) fn usage() -> NodeUsage {
    let cgroup = |kind, bytes| {
        let memory = MemoryUsage { usage: bytes, ..MemoryUsage::default() };
        let usage = Usage { memory: Some(memory), ..Usage::default() };
        CgroupSample { kind, created_at: None, usage, limits: Limits::default() }
    };
    let (root, web) = ("/".to_owned(), "/kubepods/podweb-uid".to_owned());
    let at = Now { mono: NOW, wall: ago(0) };
    let cgroups = [
        (root.clone(), cgroup(CgroupKind::Root, 7 << 30)),
        (web.clone(), cgroup(CgroupKind::Pod("web-uid".into()), 40 << 20)),
    ];
    let fs =
        FsStats { device: 1, capacity: 100 << 30, available: 9 << 30, used: 91 << 30, inodes: 100, inodes_free: 50 };
    let container = ContainerUsage {
        name: "app".into(),
        id: "c1".into(),
        image: String::new(),
        started_at: ago(500),
        cgroup: None,
        layer: Some(LayerUsage { at: None, bytes: Some(1 << 20), inodes: None }),
        logs: Some(DiskUsage { bytes: 2 << 20, inodes: 1 }),
    };
    let volume = |elsewhere| VolumeUsage {
        name: "data".into(),
        claim: None,
        elsewhere,
        used: DiskUsage { bytes: 64 << 20, inodes: 3 },
        on: None,
        at: ago(0),
    };
    let pod = PodUsage {
        pod: PodRef { namespace: "default".into(), name: "web".into(), uid: "web-uid".into() },
        started_at: None,
        host_network: false,
        cgroup: Some(web.clone()),
        sandbox: None,
        containers: vec![container],
        network: None,
        volumes: vec![volume(false), volume(true)],
        own_files: None,
    };
    NodeUsage {
        sample: Arc::new(Sample { at, cgroups: cgroups.into() }),
        cpu_rates: BTreeMap::from([(root, 300_000_000), (web, 12_000_000)]),
        pods: vec![pod],
        network: None,
        disks: NodeDisks {
            nodefs: Some(fs),
            imagefs: Some(fs),
            containerfs: None,
            images: Some(DiskUsage { bytes: 5 << 30, inodes: 9 }),
            layers: None,
        },
        processes: None,
    }
}

/// Reads the same usage each time.
pub(crate) struct FakeUsage(pub(crate) NodeUsage);

#[async_trait]
impl UsageReader for FakeUsage {
    async fn usage(&self, _wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        Ok(Arc::new(self.0.clone()))
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo::default()
    }
}
