//! A node that can be killed and started again, while the world it acts on goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use rubelet_core::admit::SysctlAllowlist;
use rubelet_core::backoff::BackoffPolicy;
use rubelet_core::eviction::{EvictionPolicy, PageCache};
use rubelet_core::gc::GcPolicy;
use rubelet_core::id::PodUid;
use rubelet_core::image_gc::ImageGcPolicy;
use rubelet_core::launch::{LaunchContext, LaunchGates, SwapPolicy};
use rubelet_core::lifecycle::{Pace, Stage};
use rubelet_core::log_rotation::LogRotation;
use rubelet_core::node::NodeCgroups;
use rubelet_core::plan::PlanGates;
use rubelet_core::pod::Source;
use rubelet_core::qos::{CgroupDriver, CgroupTree, CgroupVersion, CpuPolicy};
use rubelet_core::resources::Amount;
use rubelet_core::shutdown::ShutdownPlan;
use rubelet_engine::assemble::{EngineHandle, Parts, start};
use rubelet_engine::clock::Clock;
use rubelet_engine::eviction::EvictionParts;
use rubelet_engine::images::PullLimits;
use rubelet_engine::metrics::write_probes;
use rubelet_engine::node::{Admission, Ports, Settings};
use rubelet_engine::node_reporter::NodeParts;
use rubelet_engine::node_shutdown::ShutdownParts;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::{NoLogins, NodeFacts};
use rubelet_engine::sync_loop::NodeView;
use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::Tracer;
use rubelet_engine::usage::UsageParts;
use rubelet_testkit::{
    FakeAddresses, FakeApi, FakeCgroups, FakeCheckpoints, FakeHostFiles, FakeMachine, FakeMemory, FakePodDirs,
    FakePodLogs, FakeProbes, FakeProcesses, FakeRuntime, FakeSource, FakeSubpaths, FakeVolumes, LoadedMachine,
    RecordingEvents, RecordingStatus, SeededRng, TestClock,
};
use tokio_util::sync::CancellationToken;

use crate::laws::Laws;

/// The node's address, unless a test changes it.
pub(crate) const NODE_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A simulated node. The fields are the world, which outlives the engine.
pub(crate) struct Sim {
    pub(crate) seed: u64,
    pub(crate) clock: TestClock,
    pub(crate) runtime: FakeRuntime,
    pub(crate) files: FakeSource,
    pub(crate) cgroups: FakeCgroups,
    pub(crate) processes: FakeProcesses,
    /// The cgroups of the node itself.
    pub(crate) node_cgroups: NodeCgroups,
    pub(crate) dirs: FakePodDirs,
    pub(crate) logs: FakePodLogs,
    pub(crate) volumes: FakeVolumes,
    pub(crate) events: RecordingEvents,
    pub(crate) statuses: RecordingStatus,
    pub(crate) checkpoints: FakeCheckpoints,
    pub(crate) rng: SeededRng,
    /// What listens in the pods.
    pub(crate) memory: FakeMemory,
    /// When images are removed; `None` for never.
    pub(crate) image_gc: Option<ImageGcPolicy>,
    pub(crate) log_rotation: Option<LogRotation>,
    /// The kernel's log, for the next engine.
    pub(crate) kernel_log: Option<tokio::sync::mpsc::Receiver<String>>,
    pub(crate) probes: FakeProbes,
    /// Addresses of the node.
    pub(crate) addresses: FakeAddresses,
    /// A second source, where a test wants one.
    pub(crate) more: Option<FakeSource>,
    /// The API server, where a test wants one.
    pub(crate) api: Option<FakeApi>,
    /// How much swap containers get.
    pub(crate) swap: SwapPolicy,
    /// The node's object and lease, where a test wants them.
    pub(crate) node: Option<Box<dyn Fn() -> NodeParts>>,
    /// The machine, which can go down.
    pub(crate) machine: FakeMachine,
    /// How pods end when it does, where a test wants that.
    pub(crate) shutdown: Option<ShutdownPlan>,
    /// What the machine has of memory and disk, and what pods use of it.
    pub(crate) loaded: LoadedMachine,
    /// When pods are evicted, where a test wants that.
    pub(crate) eviction: Option<EvictionPolicy>,
    /// Makes spans of jobs, where a test wants them.
    pub(crate) tracer: Tracer,
    /// What usage is measured with, where a test wants that.
    pub(crate) usage: Option<UsageParts>,
    pub(crate) laws: Laws,
    /// The engine's wall clock, and by how much it is wrong: it is not the runtime's.
    wall: Clock,
    wrong: jiff::SignedDuration,
    running: Option<(TaskGroup, EngineHandle, CancellationToken)>,
    /// Sends the engine the pods that use a changed object.
    pub(crate) object_changes: Option<tokio::sync::mpsc::Sender<rubelet_core::id::PodUid>>,
}

impl Sim {
    /// A node with nothing on it, started, whose file source has been read and is empty.
    pub(crate) async fn seeded(seed: u64) -> Self {
        let mut sim = Self::stopped(seed);
        sim.files.push([]);
        sim.start().await;
        sim
    }

    /// A node in a cluster, started, with no static pods.
    pub(crate) async fn in_cluster(seed: u64) -> (Self, FakeApi) {
        let mut sim = Self::stopped(seed);
        let api = FakeApi::seeded(sim.clock, seed);
        sim.api = Some(api.clone());
        sim.files.push([]);
        sim.start().await;
        (sim, api)
    }

    /// The same, not yet started and its source not yet read.
    pub(crate) fn stopped(seed: u64) -> Self {
        // `SIM_LOG=debug` shows the engine's log, for replaying a seed.
        if let Ok(filter) = std::env::var("SIM_LOG") {
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().without_time();
            let _already = log.try_init();
        }
        let clock = TestClock::start();
        let runtime = FakeRuntime::seeded(clock, seed);
        let cgroups = FakeCgroups::default();
        cgroups.hold_processes_of(&runtime);
        let loaded = LoadedMachine::new(runtime.clone(), 64 << 30, 1 << 40);
        let logs = FakePodLogs::default();
        runtime.write_logs_to(logs.clone());
        Self {
            seed,
            clock,
            runtime,
            files: FakeSource::new(Source::File),
            cgroups,
            processes: FakeProcesses::default(),
            node_cgroups: NodeCgroups::default(),
            dirs: FakePodDirs::default(),
            logs,
            volumes: FakeVolumes::default(),
            events: RecordingEvents::default(),
            statuses: RecordingStatus::default(),
            checkpoints: FakeCheckpoints::default(),
            rng: SeededRng::new(seed ^ 0x5eed),
            memory: FakeMemory::default(),
            image_gc: None,
            log_rotation: None,
            kernel_log: None,
            addresses: FakeAddresses::new(vec![NODE_IP]),
            probes: FakeProbes::new(clock),
            more: None,
            api: None,
            swap: SwapPolicy::default(),
            node: None,
            machine: FakeMachine::default(),
            shutdown: None,
            loaded,
            eviction: None,
            tracer: Tracer::off(),
            usage: None,
            laws: Laws::default(),
            wall: Clock::virtual_from(clock.now().wall),
            wrong: jiff::SignedDuration::ZERO,
            running: None,
            object_changes: None,
        }
    }

    /// Starts an engine on the world as it is.
    pub(crate) async fn start(&mut self) {
        assert!(self.running.is_none(), "one engine at a time");
        let cancel = CancellationToken::new();
        self.wall = Clock::virtual_from(self.clock.now().wall + self.wrong);
        self.laws.new_engine(self.clock.elapsed());
        let mut sources: Vec<Arc<dyn rubelet_engine::ports::PodSource>> = vec![Arc::new(self.files.clone())];
        if let Some(more) = &self.more {
            sources.push(Arc::new(more.clone()));
        }
        let (change_sender, changes) = tokio::sync::mpsc::channel(64);
        self.object_changes = Some(change_sender);
        if let Some(api) = &self.api {
            sources.push(Arc::new(api.clone()));
        }
        let mut settings = settings();
        settings.launch.swap = self.swap;
        settings.node_cgroups = self.node_cgroups.clone();
        settings.image_gc = self.image_gc.unwrap_or(settings.image_gc);
        settings.log_rotation = self.log_rotation;
        let parts = Parts {
            ports: self.ports(),
            facts: facts(),
            ips: vec![NODE_IP],
            settings,
            pulls: PullLimits { parallel: Some(1), per_second: 5.0, burst: 10.0 },
            status_observer: Some(Arc::new(self.statuses.clone())),
            tracer: self.tracer.clone(),
            clock: self.wall.clone(),
            sources,
            node: self.node.as_ref().map(|parts| parts()),
            object_changes: Some(changes),
            usage: self.usage.clone(),
            shutdown: self.shutdown.clone().map(|plan| ShutdownParts {
                plan,
                machine: Arc::new(self.machine.clone()),
                recorded: true,
            }),
            eviction: self.eviction.clone().map(|policy| {
                let usage = Arc::new(self.loaded.by(self.wall.clone()));
                EvictionParts {
                    policy,
                    page_cache: PageCache::Counts,
                    usage: Some(Arc::clone(&usage) as _),
                    wakes: Arc::clone(&usage) as _,
                    reclaim: Some(usage),
                }
            }),
            kernel_log: self.kernel_log.take().map(|lines| Box::new(Lines(lines)) as _),
        };
        let (tasks, handle) = start(parts, &cancel);
        self.running = Some((tasks, handle, cancel));
    }

    pub(crate) fn ports(&self) -> Ports {
        Ports {
            runtime: Arc::new(self.runtime.clone()),
            images: Arc::new(self.runtime.clone()),
            image_disks: Arc::new(self.runtime.clone()),
            logins: Arc::new(NoLogins),
            cgroups: Arc::new(self.cgroups.clone()),
            processes: Arc::new(self.processes.clone()),
            dirs: Arc::new(self.dirs.clone()),
            logs: Arc::new(self.logs.clone()),
            log_cleaner: Arc::new(self.logs.clone()),
            log_files: Arc::new(self.logs.clone()),
            subpaths: Arc::new(FakeSubpaths),
            env_files: Arc::new(self.dirs.clone()),
            volumes: vec![Arc::new(self.volumes.clone())],
            checkpoints: Arc::new(self.checkpoints.clone()),
            host_files: Arc::new(FakeHostFiles),
            events: Arc::new(self.events.clone()),
            addresses: Arc::new(self.addresses.clone()),
            probes: Arc::new(self.probes.clone()),
            memory: Arc::new(self.memory.clone()),
            rng: Arc::new(self.rng.clone()),
            cluster: self.api.as_ref().map(FakeApi::ports),
        }
    }

    /// `kill -9`: every task of the engine stops at whatever await it is at. The world goes on.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Sets the wall clock of the engine.
    pub(crate) fn set_wall(&mut self, by: jiff::SignedDuration) {
        self.wrong = self.wrong.saturating_add(by);
        self.wall.set_wall(by);
    }

    /// `kill -9`, and a new start at once.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.start().await;
    }

    /// The way to ask for images to be removed.
    pub(crate) fn image_collector(&self) -> &rubelet_engine::image_gc::ImageGcHandle {
        &self.running.as_ref().expect("an engine runs").1.image_gc
    }

    /// The way to ask the engine's loop.
    pub(crate) fn sync_loop(&self) -> &rubelet_engine::sync_loop::SyncLoopHandle {
        &self.running.as_ref().expect("an engine runs").1.sync_loop
    }

    /// What the node and its pods use.
    pub(crate) fn reader(&self) -> Arc<dyn rubelet_engine::ports::UsageReader> {
        Arc::clone(&self.running.as_ref().expect("an engine runs").1.usage)
    }

    /// Whether the API server answers, as the engine sees it.
    pub(crate) fn heartbeat(&self) -> Option<tokio::sync::watch::Receiver<rubelet_engine::node_lease::Heartbeat>> {
        self.running.as_ref().expect("an engine runs").1.heartbeat.clone()
    }

    /// All that the engine knows.
    pub(crate) async fn view(&self) -> NodeView {
        let (_, handle, _) = self.running.as_ref().expect("an engine runs");
        handle.sync_loop.view().await.expect("the sync loop answers")
    }

    /// The engine's metrics, as `/metrics` and `/metrics/probes` show them.
    pub(crate) async fn metrics(&self) -> String {
        let (_, handle, _) = self.running.as_ref().expect("an engine runs");
        let mut page = String::new();
        handle.metrics.write(&mut page);
        handle.sync_loop.census().await.expect("the sync loop answers").write(&mut page);
        write_probes(&mut page, &handle.prober.counts().await.expect("the prober answers"));
        page
    }

    /// What the engine knows of the pod called `name`.
    pub(crate) async fn pod(&self, name: &str) -> Option<WorkerView> {
        self.view().await.pods.into_iter().find(|pod| &*pod.pod.name == name)
    }

    /// The stage of the pod called `name`.
    pub(crate) async fn stage(&self, name: &str) -> Option<Stage> {
        self.pod(name).await.map(|pod| pod.stage)
    }

    /// The pod is `Running` and every container is ready.
    pub(crate) async fn is_ready(&self, name: &str) -> bool {
        self.pod(name).await.is_some_and(|pod| is_ready(&pod.status))
    }

    /// Waits, in virtual time, until every one of these pods is ready.
    pub(crate) async fn until_ready(&self, names: &[&str], secs: u64) {
        self.until(secs, &format!("{names:?} to be ready"), async |sim| {
            for name in names {
                if !sim.is_ready(name).await {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Waits, in virtual time, until nothing of the pod called `name` is left anywhere.
    pub(crate) async fn until_gone(&self, name: &str, secs: u64) {
        self.until(secs, &format!("{name} to be gone"), async |sim| sim.is_gone(name).await).await;
    }

    /// Nothing of the pod is left: no worker, no sandbox, no log, no directory.
    pub(crate) async fn is_gone(&self, name: &str) -> bool {
        let view = self.view().await;
        let known = view.pods.iter().any(|pod| *pod.pod.name == *name);
        let logs = self.logs.pods().iter().any(|pod| *pod.name == *name);
        !known && !logs && !self.runtime.world().contains(name) && self.leaks(&view).is_empty()
    }

    /// Leftovers on the node: of pods without a life cycle, and cgroups and volumes of pods whose life cycle is over.
    pub(crate) fn leaks(&self, view: &NodeView) -> Vec<String> {
        let known = |uid: &PodUid| view.pods.iter().any(|pod| pod.pod.uid == *uid);
        let lives = |uid: &PodUid| view.pods.iter().any(|pod| pod.pod.uid == *uid && pod.stage != Stage::Finished);
        let cgroups = self.cgroups.pod_uids().into_iter().filter(|uid| !lives(uid));
        let volumes = self.volumes.made().into_iter().filter(|(uid, _)| !lives(uid));
        let dirs = self.dirs.uids().into_iter().filter(|uid| !known(uid));
        let logs = self.logs.pods().into_iter().filter(|pod| !known(&pod.uid));
        let cgroups = cgroups.map(|uid| format!("cgroup of {uid}"));
        let volumes = volumes.map(|(uid, name)| format!("volume {name} of {uid}"));
        let dirs = dirs.map(|uid| format!("directory of {uid}"));
        let logs = logs.map(|pod| format!("logs of {pod}"));
        cgroups.chain(volumes).chain(dirs).chain(logs).collect()
    }

    /// Waits, in virtual time, until `holds`; fails with the seed and all that happened.
    pub(crate) async fn until(&self, secs: u64, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let deadline = self.clock.elapsed() + Duration::from_secs(secs);
        loop {
            if holds(self).await {
                return;
            }
            if self.clock.elapsed() >= deadline {
                let stories: Vec<String> = self.view().await.pods.iter().map(story).collect();
                panic!(
                    "SIM_SEED={}: waited {secs} s for {what}\n--- pods\n{}\n--- world\n{}\n--- leaks\n{}\n--- calls\n{}",
                    self.seed,
                    stories.join("\n"),
                    self.runtime.world(),
                    self.leaks(&self.view().await).join("\n"),
                    self.runtime.timeline(),
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs)).await;
    }

    /// Asserts that no law was broken: no container ran twice, nothing started in a pod that had ended.
    pub(crate) fn check_laws(&self) {
        self.none_broken(&self.runtime.violations());
    }

    /// The same, and the laws about the engine's stages (see [`Laws`]).
    pub(crate) async fn watch_laws(&mut self) {
        self.check_laws();
        let view = self.view().await;
        let broken = self.laws.look(&view, &self.runtime.log(), &self.statuses, self.clock.elapsed());
        self.none_broken(&broken);
    }

    /// Prints the task with the longest poll, in real time.
    #[expect(clippy::print_stdout, reason = "a test speaks to people")]
    pub(crate) fn print_longest_hold_up(&self) {
        if let Some(longest) = rubelet_engine::task::Polls::here().longest() {
            println!("SIM_SEED={}: longest hold-up {:?} by {}", self.seed, longest.longest, longest.task);
        }
    }

    fn none_broken(&self, broken: &[String]) {
        assert!(broken.is_empty(), "SIM_SEED={}: {broken:#?}\n{}", self.seed, self.runtime.timeline());
    }
}

/// A kernel's log made of lines that a test sends.
struct Lines(tokio::sync::mpsc::Receiver<String>);

#[async_trait::async_trait]
impl rubelet_engine::ports::KernelLog for Lines {
    async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}

/// What happened to a pod, for a failing test.
fn story(pod: &WorkerView) -> String {
    let timeline: Vec<String> =
        pod.timeline.entries().map(|e| format!("    {} {} x{}", e.at, e.what, e.times)).collect();
    format!(
        "  {} {:?} waiting={:?} problem={:?}\n{}",
        pod.pod,
        pod.stage,
        pod.waiting,
        pod.problem,
        timeline.join("\n")
    )
}

pub(crate) fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// A static pod, as the file source delivers it.
pub(crate) fn static_pod(name: &str) -> rubelet_testkit::PodBuilder {
    rubelet_testkit::pod(name).static_from(Source::File)
}

/// The image that every test pod uses unless it says otherwise.
pub(crate) fn phase(pod: &WorkerView) -> &str {
    pod.status.phase.as_deref().unwrap_or_default()
}

pub(crate) fn facts() -> NodeFacts {
    NodeFacts {
        name: "node".into(),
        hostname: "node".into(),
        cpu_millis: 64_000,
        memory_bytes: 64 << 30,
        swap_bytes: 0,
        hugepage_sizes: Vec::new(),
        cgroups: rubelet_engine::ports::CgroupVersion::V2,
        resolv_conf: "/etc/resolv.conf".into(),
        apparmor: false,
        selinux: false,
        swap_controller: false,
        thermal_throttle_paths: Vec::new(),
        kernel: (6, 1),
    }
}

pub(crate) fn settings() -> Settings {
    let amount = |text: &str| Amount::parse(text).expect("a quantity");
    let allocatable: BTreeMap<String, Amount> =
        [("cpu", "64"), ("memory", "64Gi"), ("pods", "2500")].map(|(k, v)| (k.to_owned(), amount(v))).into();
    Settings {
        runtime_name: "fake".into(),
        pace: Pace::new(Duration::from_secs(60)),
        crash_backoff: BackoffPolicy::crash(None, false),
        launch: LaunchContext {
            tree: CgroupTree::new("", CgroupDriver::Cgroupfs, true),
            cgroups: CgroupVersion::V2,
            memory_bytes: 64 << 30,
            hugepage_sizes: Vec::new(),
            swap: SwapPolicy::default(),
            cpu: CpuPolicy::default(),
            single_process_oom_kill: None,
            pod_pids_limit: -1,
            pod_logs_dir: "/var/log/pods".into(),
            seccomp_dir: "/var/lib/kubelet/seccomp".into(),
            seccomp_default: false,
            selinux: false,
            masked_paths: Vec::new(),
            cluster_domain: String::new(),
            gates: LaunchGates::default(),
        },
        node_cgroups: NodeCgroups::default(),
        cluster_dns: Vec::new(),
        plan_gates: PlanGates::default(),
        parallel_starts: 4,
        gc: GcPolicy::default(),
        image_gc: ImageGcPolicy { high: 100, low: 80, min_age: Duration::from_secs(120), max_age: Duration::ZERO },
        log_rotation: None,
        admission: Admission {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: allocatable.into_iter().collect(),
            unserved: BTreeSet::from(["example.com/left-behind".to_owned()]),
            sysctls: SysctlAllowlist::new((6, 1), &[]).expect("an empty list"),
        },
        address_period: Duration::from_secs(10),
    }
}
