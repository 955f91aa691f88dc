//! A node that is not there, for a look at its page: `cargo run -p rubelet-server --example page -- PORT PODS`.
//!
//! Its pods are made up: most run, some wait, one crashes, one has a name with markup in it. Nothing but the page is real.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_core::id::{ContainerId, PodRef, PodUid};
use rubelet_core::launch::NamespaceMode;
use rubelet_core::lifecycle::{Cause, Ending, Grace, Stage};
use rubelet_core::observe::{
    ContainerMarks, ContainerObservation, ContainerState as SeenState, PodObservation, SandboxObservation, SandboxState,
};
use rubelet_core::qos::{CgroupDriver, CgroupTree};
use rubelet_core::resources::{Amount, Amounts};
use rubelet_core::time::{Instant, Now};
use rubelet_core::timeline::{Entry, Timeline, Waiting};
use rubelet_core::usage::{
    CgroupKind, CgroupSample, ContainerUsage, DiskUsage, FsStats, LayerUsage, MachineInfo, MemoryUsage, NodeDisks,
    NodeUsage, PodUsage, ProcessCount, Sample, Usage, VolumeUsage,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::health::RuntimeHealth;
use rubelet_engine::node_now::NodeNow;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::{RuntimeVersion, Unmeasured, UsageReader, Wanted};
use rubelet_engine::status::StatusMail;
use rubelet_engine::sync_loop::{KnownPod, NodeView};
use rubelet_server::documents::NodeLimits;
use rubelet_server::local::{Agent, Insight, ui::LocalUi};
use rubelet_server::{RecentEvents, WatchedNode};
use rubelet_testkit::{RecordingEvents, pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// What a pod is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Well,
    Pulling,
    Crashing,
    Unready,
    Done,
    Ending,
}

/// A pod that is made up.
struct Made {
    namespace: String,
    name: String,
    kind: Kind,
    /// Age in seconds.
    age: i64,
    cpu_millis: u64,
    memory_mib: u64,
}

impl Made {
    fn uid(&self) -> String {
        format!("{}-{}-uid", self.namespace, self.name)
    }
}

fn made(count: usize) -> Vec<Made> {
    let row = |namespace: &str, name: &str, kind, age, cpu_millis, memory_mib| Made {
        namespace: namespace.into(),
        name: name.into(),
        kind,
        age,
        cpu_millis,
        memory_mib,
    };
    let mut all = vec![
        row("kube-system", "kube-proxy-x7k2p", Kind::Well, 273_600, 3, 24),
        row("kube-system", "coredns-6f8d9c-4kq7z", Kind::Well, 273_500, 9, 31),
        row("shop", "cart-5d9c7b-2xv8n", Kind::Well, 41_400, 121, 188),
        row("shop", "cart-5d9c7b-m4jqt", Kind::Well, 41_398, 98, 171),
        row("shop", "checkout-7c6f5-zz9wd", Kind::Crashing, 2_640, 0, 0),
        row("shop", "search-0", Kind::Well, 86_400, 412, 940),
        row("shop", "images-import-28417", Kind::Done, 5_400, 0, 0),
        row("shop", "recommend-84bf6-q5h2k", Kind::Pulling, 46, 0, 0),
        row("shop", "<img src=x onerror=alert(1)>", Kind::Unready, 184, 33, 96),
        row("monitoring", "prometheus-0", Kind::Well, 259_200, 203, 1310),
        row("monitoring", "node-exporter-c2x4t", Kind::Well, 259_100, 6, 19),
        row("data", "postgres-1", Kind::Well, 172_800, 87, 612),
        row("data", "backup-9k2d7", Kind::Ending, 610, 41, 54),
    ];
    all.truncate(count);
    for number in all.len()..count {
        let number64 = u64::try_from(number).unwrap_or_default();
        let kind = if number % 97 == 0 { Kind::Pulling } else { Kind::Well };
        all.push(row(
            "load",
            &format!("pod-{number:04}"),
            kind,
            900 + i64::from(u16::try_from(number).unwrap_or(0)),
            number64 % 9,
            12 + number64 % 40,
        ));
    }
    all
}

struct Fiction {
    pods: Vec<Made>,
    clock: Clock,
    /// How often usage was read: a browser under test has a clock of its own, so usage changes with each reading.
    readings: AtomicU32,
}

impl Fiction {
    fn ago(&self, seconds: i64) -> Timestamp {
        self.clock.wall().checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn worker(&self, made: &Made) -> WorkerView {
        let spec =
            pod(&made.name).ns(&made.namespace).uid(&made.uid()).container("app").image("registry.example/app:4.2");
        let spec = spec
            .request("cpu", &format!("{}m", 20 + made.cpu_millis * 2))
            .request("memory", &format!("{}Mi", 32 + made.memory_mib));
        let spec = spec.build();
        let (phase, container) = self.container(made);
        let stage = match made.kind {
            Kind::Ending => Stage::Terminating {
                since: Instant::START,
                grace: Grace::secs(30),
                until: Instant::from_secs(3600),
                ending: Ending { cause: Cause::Deleted, reason: None },
            },
            _ => Stage::Syncing { since: Instant::START },
        };
        let waiting = match made.kind {
            Kind::Pulling => Some("image registry.example/recommend:9 to be pulled, behind 2 others"),
            Kind::Ending => Some("container app to stop, within 30 s"),
            Kind::Unready => Some(
                "the readiness probe of container app to pass; its last output: HTTP probe failed with statuscode: 503",
            ),
            _ => None,
        };
        let waiting = waiting.map(|what| Waiting { what: what.into(), since: Instant::START, until: None });
        let status = PodStatus {
            phase: Some(phase.into()),
            container_statuses: Some(vec![container]),
            pod_ip: Some("10.88.0.7".into()),
            ..PodStatus::default()
        };
        WorkerView {
            pod: PodRef::of(&spec),
            spec: Some(spec),
            stage,
            status: Arc::new(status),
            arrived: Now { mono: Instant::START, wall: self.ago(made.age) },
            waiting,
            next_look: None,
            problem: None,
            timeline: self.timeline(made),
            failures: 0,
            probe_troubles: Vec::new(),
            next_starts: match made.kind {
                Kind::Crashing => BTreeMap::from([("app".to_owned(), Duration::from_secs(92))]),
                _ => BTreeMap::new(),
            },
            seen: Some(Arc::new(self.seen(made))),
        }
    }

    fn seen(&self, made: &Made) -> PodObservation {
        let reference = PodRef {
            namespace: made.namespace.as_str().into(),
            name: made.name.as_str().into(),
            uid: made.uid().as_str().into(),
        };
        let (id, sandbox) = ("7c1f0a94be5d20c3a8e4", "e90d44b1f27a63c5098b");
        let container = ContainerObservation {
            id: id.into(),
            sandbox: sandbox.into(),
            name: "app".into(),
            state: SeenState::Running { started_at: self.ago(made.age - 3) },
            created_at: self.ago(made.age - 3),
            image: "registry.example/app:4.2".into(),
            image_id: String::new(),
            marks: ContainerMarks::default(),
            log_path: format!("/var/log/pods/{}_{}_{}/app/0.log", made.namespace, made.name, made.uid()),
            resources: None,
            user: None,
        };
        let sandbox = SandboxObservation {
            id: sandbox.into(),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: self.ago(made.age),
            network: NamespaceMode::Pod,
            ips: Vec::new(),
            runtime_handler: String::new(),
        };
        let nothing = PodObservation::nothing(reference, Instant::START);
        PodObservation { sandboxes: vec![sandbox], containers: vec![container], ..nothing }
    }

    fn container(&self, made: &Made) -> (&'static str, ContainerStatus) {
        let running = || ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(self.ago(made.age - 3))) }),
            ..ContainerState::default()
        };
        let waiting = |reason: &str, message: &str| ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message: Some(message.into()) }),
            ..ContainerState::default()
        };
        let ended = |code, reason: &str, ago| ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: code,
                reason: Some(reason.into()),
                finished_at: Some(Time(self.ago(ago))),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        };
        let (phase, state, ready, restarts) = match made.kind {
            Kind::Well => ("Running", running(), true, 0),
            Kind::Unready | Kind::Ending => ("Running", running(), false, 0),
            Kind::Pulling => ("Pending", waiting("ContainerCreating", ""), false, 0),
            Kind::Crashing => {
                ("Running", waiting("CrashLoopBackOff", "back-off 2m40s restarting failed container"), false, 9)
            }
            Kind::Done => ("Succeeded", ended(0, "Completed", 4_100), false, 0),
        };
        let last_state = (made.kind == Kind::Crashing).then(|| ended(1, "Error", 68));
        let status = ContainerStatus {
            name: "app".into(),
            image: "registry.example/app:4.2".into(),
            ready,
            restart_count: restarts,
            started: Some(ready),
            state: Some(state),
            last_state,
            ..ContainerStatus::default()
        };
        (phase, status)
    }

    fn timeline(&self, made: &Made) -> Timeline {
        let mut timeline = Timeline::default();
        let arrived = self.ago(made.age);
        let mut add = |millis: i64, what: &str, took: Option<u64>, bad| {
            let at = arrived.checked_add(SignedDuration::from_millis(millis)).unwrap_or(arrived);
            timeline.add(Entry {
                at,
                first: at,
                what: what.into(),
                times: 1,
                took: took.map(Duration::from_millis),
                bad,
            });
        };
        add(0, "Accepted from api", None, false);
        add(214, "Sandbox created", Some(186), false);
        add(231, "Pulling: Pulling image \"registry.example/app:4.2\"", None, false);
        if made.kind == Kind::Pulling {
            return timeline;
        }
        add(1_915, "Pulled: Successfully pulled image \"registry.example/app:4.2\" in 1.684s", Some(1_684), false);
        add(2_043, "Container app created", Some(121), false);
        add(2_171, "Container app started", Some(118), false);
        match made.kind {
            Kind::Crashing => {
                for round in 0_i64..6 {
                    let at = 20_000 * 2_i64.pow(u32::try_from(round).unwrap_or(0)) + 2_000;
                    add(at, "BackOff: Back-off restarting failed container app", None, true);
                }
                add(made.age * 1000 - 70_000, "Container app started again", Some(110), false);
            }
            Kind::Unready => {
                add(
                    7_400,
                    "Unhealthy: container app: Readiness probe failed: HTTP probe failed with statuscode: 503",
                    Some(12),
                    true,
                );
            }
            Kind::Ending => {
                add(600_000, "Ending (deleted), with 30 s of grace", None, false);
                add(604_200, "Killing: Stopping container app", Some(4_100), false);
            }
            Kind::Well | Kind::Pulling | Kind::Done => {}
        }
        timeline
    }

    fn view(&self) -> NodeView {
        let mut runtime = RuntimeHealth { up: true, ..RuntimeHealth::default() };
        runtime.status.network.ready = true;
        NodeView {
            pods: self.pods.iter().map(|made| self.worker(made)).collect(),
            rejected: Vec::new(),
            bad: Vec::new(),
            runtime,
            unread_sources: Vec::new(),
            now: self.clock.now(),
            job_panics: 0,
            longest_hold_up: None,
        }
    }
}

#[async_trait]
impl WatchedNode for Fiction {
    async fn view(&self) -> Option<NodeView> {
        Some(Self::view(self))
    }

    async fn pod(&self, _uid: &PodUid) -> Option<Option<KnownPod>> {
        None
    }

    async fn pod_named(&self, _namespace: &str, _name: &str) -> Option<Option<KnownPod>> {
        None
    }

    fn quiet_for(&self) -> Duration {
        Duration::ZERO
    }

    fn news(&self) -> watch::Receiver<Instant> {
        watch::channel(Instant::START).1
    }
}

#[async_trait]
impl UsageReader for Fiction {
    async fn usage(&self, _wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        // A slow wave, a little different for each pod.
        let time = f64::from(self.readings.fetch_add(1, Ordering::Relaxed));
        let mut sample = Sample { at: self.clock.now(), cgroups: BTreeMap::new() };
        let (mut cpu_rates, mut pods) = (BTreeMap::new(), Vec::new());
        let (mut all_cpu, mut all_memory) = (140_000_000, 900 * MIB);
        for (number, made) in (0_u32..).zip(&self.pods) {
            if matches!(made.kind, Kind::Pulling | Kind::Crashing | Kind::Done) {
                continue;
            }
            let wave = |speed: f64| {
                100 + wave(
                    (time / speed + f64::from(number) * 1.7).sin() * 0.8 + (time * 0.9 + f64::from(number)).sin() * 0.3,
                )
            };
            let (cpu, memory) =
                (made.cpu_millis * 10_000 * wave(7.0), made.memory_mib * MIB / 100 * (90 + wave(31.0) / 10));
            let path = format!("/kubepods/pod{}", made.uid());
            all_cpu += cpu;
            all_memory += memory;
            sample.cgroups.insert(path.clone(), cgroup(CgroupKind::PodsOfClass, memory));
            cpu_rates.insert(path.clone(), cpu);
            pods.push(self.pod_usage(made, path));
        }
        sample.cgroups.insert("/".to_owned(), cgroup(CgroupKind::Root, all_memory));
        cpu_rates.insert("/".to_owned(), all_cpu);
        let disk = FsStats {
            device: 1,
            capacity: 196 * GIB,
            available: 118 * GIB,
            used: 68 * GIB,
            inodes: 13_000_000,
            inodes_free: 11_900_000,
        };
        let disks = NodeDisks {
            nodefs: Some(disk),
            imagefs: Some(disk),
            containerfs: Some(disk),
            images: Some(DiskUsage { bytes: 31 * GIB, inodes: 200_000 }),
            layers: Some(DiskUsage { bytes: 3 * GIB, inodes: 9_000 }),
        };
        Ok(Arc::new(NodeUsage {
            sample: Arc::new(sample),
            cpu_rates,
            pods,
            network: None,
            disks,
            processes: Some(ProcessCount { max: 32_768, current: 612 }),
        }))
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo::default()
    }
}

/// A share in hundredths, between nothing and 120.
fn wave(height: f64) -> u64 {
    Duration::try_from_secs_f64(height.clamp(-0.9, 1.0) * 60.0 + 60.0).unwrap_or_default().as_secs()
}

fn cgroup(kind: CgroupKind, memory: u64) -> CgroupSample {
    let memory = MemoryUsage { usage: memory, ..MemoryUsage::default() };
    let usage = Usage { memory: Some(memory), ..Usage::default() };
    CgroupSample { kind, created_at: None, usage, limits: rubelet_core::usage::Limits::default() }
}

impl Fiction {
    fn pod_usage(&self, made: &Made, cgroup: String) -> PodUsage {
        let volume = VolumeUsage {
            name: "data".into(),
            claim: None,
            elsewhere: false,
            used: DiskUsage { bytes: made.memory_mib * 3 * MIB, inodes: 10 },
            on: None,
            at: self.clock.wall(),
        };
        let container = ContainerUsage {
            name: "app".into(),
            id: ContainerId::from("c"),
            image: String::new(),
            started_at: self.ago(made.age),
            cgroup: None,
            layer: Some(LayerUsage { at: None, bytes: Some(MIB), inodes: None }),
            logs: Some(DiskUsage { bytes: made.memory_mib * MIB / 2, inodes: 1 }),
        };
        PodUsage {
            pod: PodRef {
                namespace: made.namespace.as_str().into(),
                name: made.name.as_str().into(),
                uid: made.uid().as_str().into(),
            },
            started_at: None,
            host_network: false,
            cgroup: Some(cgroup),
            sandbox: None,
            containers: vec![container],
            network: None,
            volumes: vec![volume],
            own_files: None,
        }
    }
}

fn agent(fiction: &Arc<Fiction>) -> Agent {
    let amounts = |cpu: i64, memory: u64, storage: u64| -> Amounts {
        let bytes = |size: u64| Amount::units(i64::try_from(size).unwrap_or(i64::MAX));
        [
            ("cpu", Amount::from_millis(cpu)),
            ("memory", bytes(memory)),
            ("ephemeral-storage", bytes(storage)),
            ("pods", Amount::units(110)),
        ]
        .map(|(name, amount)| (name.to_owned(), amount))
        .into()
    };
    let words = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let limits = NodeLimits {
        capacity: amounts(4000, 8 * GIB, 196 * GIB),
        reserved: amounts(200, 512 * MIB, 20 * GIB),
        hard: words(&[
            ("memory.available", "100Mi"),
            ("nodefs.available", "10%"),
            ("nodefs.inodesFree", "5%"),
            ("imagefs.available", "15%"),
        ]),
        soft: words(&[("memory.available", "3Gi")]),
        soft_grace: words(&[("memory.available", "1m30s")]),
    };
    let now = NodeNow { allocatable: amounts(3800, 8 * GIB - 612 * MIB, 176 * GIB), ..NodeNow::default() };
    let clock = fiction.clock.clone();
    Agent {
        node_name: "node-1".into(),
        version: "v1.36.4+rubelet.0.1.0".into(),
        started: Now { mono: Instant::START, wall: fiction.ago(273_600) },
        api_server: Some("https://10.0.0.1:6443".into()),
        heartbeat: None,
        object: watch::channel(None).1,
        now: watch::channel(Arc::new(now)).1,
        statuses: StatusMail::unread(None),
        runtime: RuntimeVersion { name: "containerd".into(), version: "2.1.9".into(), api_version: "v1".into() },
        runtime_endpoint: "unix:///run/containerd/containerd.sock".into(),
        driver: CgroupDriver::Systemd,
        certificates: Arc::new(Vec::new),
        insight: Insight {
            usage: Some(Arc::clone(fiction) as _),
            events: Arc::new(RecentEvents::new(Arc::new(RecordingEvents::default()), clock)),
            limits: Arc::new(limits),
            tree: Some(CgroupTree::new("", CgroupDriver::Systemd, true)),
            calls: None,
            pulls: None,
            probes: None,
            ended: None,
            eviction: None,
        },
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let mut number = |default: usize| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (port, count) = (u16::try_from(number(8123)).unwrap_or(8123), number(13));
    let fiction = Arc::new(Fiction { pods: made(count), clock: Clock::real(), readings: AtomicU32::new(0) });
    let agent = agent(&fiction);
    LocalUi::bind(port, fiction, agent).await?.run(CancellationToken::new()).await;
    Ok(())
}
