//! `rubelet run`: the order of start-up and of shutdown (BOOT-01). Each area has a builder of its own; nothing is decided
//! here.

mod cgroup_advice;
mod ending;
mod host;
mod serve;
mod service;
pub(crate) mod systemd;
#[cfg(test)]
mod testing;
mod traces;
mod usage;
mod volumes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use rubelet_cluster::ClusterMetrics;
use rubelet_cluster::logins::{DiskLogins, DockerFiles};
use rubelet_core::config::Gate;
use rubelet_core::eviction::{EvictionPolicy, PageCache};
use rubelet_core::qos::CgroupTree;
use rubelet_core::shutdown::ShutdownPlan;
use rubelet_core::time::Instant;
use rubelet_engine::assemble::{self, Parts};
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::eviction::EvictionParts;
use rubelet_engine::node::{Ports, Settings};
use rubelet_engine::node_cgroups::{self, PrepareError};
use rubelet_engine::node_shutdown::ShutdownParts;
use rubelet_engine::ports::{CgroupDriver, Events, NoPressureEvents, PressureEvents, Rng, VolumePlugin};
use rubelet_engine::task::TaskGroup;
use rubelet_linux::cgroups::{KernelCgroups, KernelProcesses, Layout};
use rubelet_linux::checkpoints::RootCheckpoints;
use rubelet_linux::dbus::Bus;
use rubelet_linux::env_files::VolumeEnvFiles;
use rubelet_linux::heap::Heap;
use rubelet_linux::host::image_disks::KernelImageDisks;
use rubelet_linux::host::kernel_log::KernelMessages;
use rubelet_linux::host::lock_file::{LockFile, RootLock};
use rubelet_linux::host::node_files::NodeFiles;
use rubelet_linux::host::own_usage::uptime;
use rubelet_linux::host::rng::KernelRng;
use rubelet_linux::host::root_dir::{Sharing, prepare};
use rubelet_linux::logind::Logind;
use rubelet_linux::logs::{DiskLogs, LogDirs};
use rubelet_linux::memory_events::KernelMemoryEvents;
use rubelet_linux::pod_dirs::RootPods;
use rubelet_linux::subpaths::RootSubpaths;
use rubelet_probe::NetworkProbes;
use rubelet_server::healthz::Health;
use rubelet_server::local::Insight;
use rubelet_server::{LiveNode, RecentEvents, WatchedNode};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::cluster::{self, Cluster};
use crate::config_load::Loaded;
use crate::logging::Log;
use crate::metrics::{LogPage, ProgramPage};
use crate::runtime::{self, RuntimePorts};
use crate::settings;
use crate::sources;
use crate::standalone::LogEvents;
use ending::Ending;
use host::Host;
use serve::{Served, serve};
use service::Service;

/// Where links to container logs are, for log shippers. Not configurable upstream either.
const CONTAINER_LOGS: &str = "/var/log/containers";

/// Runs until a signal ends it. No container is stopped then (RST-18).
pub async fn run(loaded: Loaded, log: &Log) -> anyhow::Result<()> {
    let ending = Ending::default();
    let stop = ending.on_signal()?;
    let result = tokio::select! {
        biased;
        // Before the loops run there is nothing to stop: the start is cancelled.
        () = ending.cancel.cancelled() => Ok(()),
        result = start(&loaded, log, &ending) => match result {
            Ok(running) => running.until_stopped(&ending).await,
            Err(err) => Err(err),
        },
    };
    stop.abort();
    result
}

/// Everything that runs, and what must be held meanwhile.
struct Running {
    tasks: TaskGroup,
    servers: TaskGroup,
    /// The connections to the API server: they end last, so that the last statuses and events can still be sent.
    cluster: TaskGroup,
    service: Service,
    _root_lock: RootLock,
    _lock_file: Option<LockFile>,
}

impl Running {
    /// Waits for the end; a loop that ends by itself is a failure.
    async fn until_stopped(mut self, ending: &Ending) -> anyhow::Result<()> {
        let lost = tokio::select! {
            biased;
            () = ending.cancel.cancelled() => None,
            ended = self.tasks.next_end() => Some(ended),
        };
        self.service.stopping();
        ending.begin();
        self.servers.stop().await;
        self.tasks.stop().await;
        self.cluster.stop().await;
        match lost {
            None => {
                info!("Stopped; the pods go on");
                Ok(())
            }
            Some(Some(Ok(name))) => bail!("internal error: the loop {name} ended by itself"),
            Some(Some(Err(err))) => Err(err).context("internal error: a loop was lost"),
            Some(None) => bail!("internal error: nothing runs"),
        }
    }
}

/// The inputs of every area's builder.
struct Base<'a> {
    loaded: &'a Loaded,
    root: PathBuf,
    clock: Clock,
    rng: Arc<dyn Rng>,
    cluster_metrics: Arc<ClusterMetrics>,
}

async fn start(loaded: &Loaded, log: &Log, ending: &Ending) -> anyhow::Result<Running> {
    let config = &loaded.config;
    let root = PathBuf::from(&loaded.flags.root_dir);
    let (clock, rng) = (Clock::real(), Arc::new(KernelRng::default()));
    let base = Base { loaded, root, clock, rng, cluster_metrics: Arc::default() };
    let mut connections = TaskGroup::new(&CancellationToken::new());
    let service = Service::connect(&mut connections)?;
    let lock_file = ending.take_lock_file(loaded).await?;
    let logs = LogDirs { pods: (&config.pod_logs_dir).into(), containers: CONTAINER_LOGS.into() };
    prepare(&base.root, &logs, Sharing::Shared).await.map_err(into_anyhow)?;
    let root_lock = RootLock::take(&base.root).await.map_err(into_anyhow)?;
    let host = host::prepare(loaded).await?;

    let tracer = traces::tracer(&base, &host.facts.name, &mut connections)?;
    let runtime = runtime::open(loaded, &base.clock, &tracer, &ending.hand_over)?;
    service.status(&format!("Waiting for the container runtime at {}", config.container_runtime_endpoint));
    let version = runtime::wait(runtime.runtime.as_ref(), &config.container_runtime_endpoint).await;
    let driver = runtime::cgroup_driver(runtime.runtime.as_ref(), config.cgroup_driver).await?;
    let settings = settings::settings(loaded, &host.facts, &host.setup, &version, driver)?;
    let (cgroups, processes, layout) = cgroups(loaded, &host, &settings, &mut connections).await?;
    let usage = usage::parts(&base, &host, &settings, layout, &runtime);

    let cluster =
        cluster::join(loaded, &host.setup, &base.clock, (&base.rng, &base.cluster_metrics, &tracer), &mut connections)
            .await?;
    let disk = Disk {
        cgroups,
        processes,
        logs: Arc::new(DiskLogs::new(logs)),
        volumes: volumes::plugins(&base, &host.facts, &settings, cluster.as_ref()),
    };
    let events = events(&base, cluster.as_ref());
    let program = ProgramPage { files: host.files.clone(), gates: loaded.gates.clone(), cgroups: host.facts.cgroups };
    let served = Served {
        facts: host.facts.clone(),
        runtime: Arc::clone(&runtime.runtime),
        logs: Arc::clone(&disk.logs) as _,
        reviews: cluster.as_ref().map(|cluster| Arc::clone(&cluster.reviews)),
        client: cluster.as_ref().map(Cluster::client),
        rng: Arc::clone(&base.rng),
        clock: base.clock.clone(),
        tracer: tracer.clone(),
        metrics: vec![Arc::clone(&runtime.metrics), Arc::new(LogPage(log.queue())), Arc::new(program)],
        cluster_metrics: Arc::clone(&base.cluster_metrics),
        log: log.clone(),
        version,
        driver,
        identity: cluster.as_ref().map(|cluster| cluster.identity.clone()),
        insight: Insight {
            usage: None,
            events: Arc::clone(&events),
            limits: Arc::new(settings::node_limits(config, &host.setup)),
            tree: Some(settings.launch.tree.clone()),
            calls: Some(Arc::clone(&runtime.calls)),
            pulls: None,
            probes: None,
            ended: None,
            eviction: None,
        },
    };
    let ports = ports(&base, &host, runtime, cluster.as_ref(), (disk, events))?;
    let mut sources = sources::sources(loaded, &host.facts.name)?;
    let (node, object_changes) = match cluster {
        Some(cluster) => {
            sources.push(cluster.source);
            (Some(cluster.node), Some(cluster.object_changes))
        }
        None => (None, None),
    };
    let eviction = eviction(loaded, &host, &settings.launch.tree)?;
    let parts = Parts {
        ports,
        facts: host.facts,
        ips: host.ips,
        settings,
        pulls: settings::pull_limits(config),
        status_observer: None,
        tracer,
        clock: base.clock,
        sources,
        node,
        object_changes,
        shutdown: shutdown(loaded, &mut connections),
        eviction: Some(eviction),
        kernel_log: KernelMessages::open(Path::new("/dev")).map(|log| Box::new(log) as _),
        usage: Some(usage),
    };
    let (tasks, engine) = assemble::start(parts, &ending.cancel);
    if shutdowns_have_metrics(loaded) {
        engine.metrics.show_shutdown_times();
    }
    engine.metrics.machine_was_up(uptime().saturating_sub(served.clock.mono().since(Instant::START)));
    let (sync_loop, clock) = (engine.sync_loop.clone(), served.clock.clone());
    let mut servers = serve(loaded, &base.root, engine, served, &ending.cancel).await?;
    let live: Arc<dyn WatchedNode> = Arc::new(LiveNode { sync_loop: sync_loop.clone(), clock });
    service.ready(Health::new(live, config.sync_frequency.to_std()), sync_loop, &mut servers);
    Ok(Running { tasks, servers, cluster: connections, service, _root_lock: root_lock, _lock_file: lock_file })
}

/// As upstream, whether or not this node ends its pods before the machine goes down.
fn shutdowns_have_metrics(loaded: &Loaded) -> bool {
    let on = |gate| loaded.gates.enabled(gate);
    on(Gate::GracefulNodeShutdown) && on(Gate::GracefulNodeShutdownBasedOnPodPriority)
}

/// What ends the pods before the machine goes down, if that is configured (SHUT-01).
fn shutdown(loaded: &Loaded, tasks: &mut TaskGroup) -> Option<ShutdownParts> {
    let plan = ShutdownPlan::of(&loaded.config, &loaded.gates)?;
    let bus = Bus::start(systemd::bus_endpoints(), tasks);
    let recorded = loaded.gates.enabled(Gate::GracefulNodeShutdownBasedOnPodPriority);
    Some(ShutdownParts { plan, machine: Arc::new(Logind::new(bus)), recorded })
}

/// What evicts pods when the node runs short of memory, disk or process IDs (EV-01).
fn eviction(loaded: &Loaded, host: &Host, tree: &CgroupTree) -> anyhow::Result<EvictionParts> {
    let ignored = loaded.flags.experimental_allocatable_ignore_eviction;
    let policy = EvictionPolicy::of(&loaded.config, ignored).context("thresholds of eviction")?;
    let proc = &host.files.proc;
    let layout = Layout::discover(proc).context("read the cgroup mounts")?;
    let processors = u32::try_from(host.facts.cpu_millis / 1000).unwrap_or(u32::MAX);
    let pods = match tree.driver() {
        CgroupDriver::Cgroupfs => tree.root().cgroupfs(),
        CgroupDriver::Systemd => tree.root().systemd(),
    };
    let wakes: Arc<dyn PressureEvents> = match KernelMemoryEvents::new(&layout, &pods, proc, processors) {
        Some(events) => Arc::new(events),
        None => Arc::new(NoPressureEvents),
    };
    let page_cache = if loaded.flags.eviction_spares_page_cache { PageCache::Reclaimable } else { PageCache::Counts };
    Ok(EvictionParts { policy, page_cache, usage: None, wakes, reclaim: None })
}

/// The cgroups, logs and volume plugins of this machine, which several ports share.
struct Disk {
    cgroups: KernelCgroups,
    processes: KernelProcesses,
    logs: Arc<DiskLogs>,
    volumes: Vec<Arc<dyn VolumePlugin>>,
}

/// Where events go: to the API server, or, on a node without one, to the log. The recent ones are kept for commands.
fn events(base: &Base<'_>, cluster: Option<&Cluster>) -> Arc<RecentEvents> {
    let next: Arc<dyn Events> = match cluster {
        Some(cluster) => Arc::clone(&cluster.events),
        None => Arc::new(LogEvents::new(base.clock.clone())),
    };
    Arc::new(RecentEvents::new(next, base.clock.clone()))
}

fn ports(
    base: &Base<'_>,
    host: &Host,
    runtime: RuntimePorts,
    cluster: Option<&Cluster>,
    (disk, events): (Disk, Arc<RecentEvents>),
) -> anyhow::Result<Ports> {
    let root = || base.root.clone();
    Ok(Ports {
        runtime: runtime.runtime,
        images: runtime.images,
        image_disks: Arc::new(KernelImageDisks),
        logins: Arc::new(logins(base)?),
        cgroups: Arc::new(disk.cgroups),
        processes: Arc::new(disk.processes),
        dirs: Arc::new(RootPods::new(root())),
        logs: Arc::clone(&disk.logs) as _,
        log_cleaner: Arc::clone(&disk.logs) as _,
        log_files: disk.logs,
        subpaths: Arc::new(RootSubpaths::new(root())),
        env_files: Arc::new(VolumeEnvFiles),
        volumes: disk.volumes,
        checkpoints: Arc::new(RootCheckpoints::new(root())),
        host_files: Arc::new(NodeFiles::new(&base.loaded.config.resolv_conf)),
        events,
        addresses: Arc::clone(&host.addresses) as _,
        probes: Arc::new(NetworkProbes::new().map_err(into_anyhow)?),
        memory: Arc::new(Heap),
        rng: Arc::clone(&base.rng),
        cluster: cluster.map(|cluster| cluster.ports.clone()),
    })
}

/// The cgroup tree, with the cgroups that hold all pods, and the processes of the node.
async fn cgroups(
    loaded: &Loaded,
    host: &Host,
    settings: &Settings,
    connections: &mut TaskGroup,
) -> anyhow::Result<(KernelCgroups, KernelProcesses, Layout)> {
    let layout = Layout::discover(&host.files.proc).context("read the cgroup mounts")?;
    let tree = settings.launch.tree.clone();
    let cgroups = match tree.driver() {
        CgroupDriver::Cgroupfs => KernelCgroups::new(layout.clone(), tree),
        CgroupDriver::Systemd => {
            let units = systemd::units(systemd::endpoints(), connections).await?;
            KernelCgroups::with_systemd(layout.clone(), tree, units)
        }
    };
    cgroups.check().await.map_err(cgroup_advice::explain)?;
    node_cgroups::prepare(&cgroups, settings).await.map_err(|err| match err {
        PrepareError::Pods(err) => cgroup_advice::explain(err),
        PrepareError::Reserved(_) => into_anyhow(err),
    })?;
    let score = loaded.config.oom_score_adj;
    Ok((cgroups, KernelProcesses::new(layout.clone(), host.files.proc.clone(), score), layout))
}

/// Logins for registries that this node has: of files, and of programs where flags name them (IMG-06, IMG-07).
fn logins(base: &Base<'_>) -> anyhow::Result<DiskLogins> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let files = DockerFiles::usual(&base.root, home.as_deref());
    let logins = DiskLogins::new(files, base.clock.clone(), Arc::clone(&base.cluster_metrics));
    let flags = &base.loaded.flags;
    let (config, programs) = (&flags.image_credential_provider_config, &flags.image_credential_provider_bin_dir);
    if config.is_empty() && programs.is_empty() {
        return Ok(logins);
    }
    logins.with_providers(Path::new(config), Path::new(programs)).map_err(into_anyhow)
}

/// The error with its causes in one line: people read it, no code matches on it here.
pub(crate) fn into_anyhow(err: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    anyhow::anyhow!("{}", Chain(&err))
}
