//! Being the node's agent: the order of start-up and of shutdown (BOOT-01). Decides nothing.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rubelet_cluster::api::Client;
use rubelet_cluster::logins::{DiskLogins, DockerFiles};
use rubelet_core::backoff::Doubling;
use rubelet_core::config::{configz, node_ips};
use rubelet_core::qos::{CgroupDriver, CgroupTree, CgroupVersion};
use rubelet_cri::{
    Connection, ConnectionOptions, CriImages, CriRuntime, Endpoint, HandOver, KeptCalls, ListMode, OperationMetrics,
};
use rubelet_engine::assemble::{self, Parts};
use rubelet_engine::chain::Chain;
use rubelet_engine::clock::Clock;
use rubelet_engine::node::Ports;
use rubelet_engine::ports::{Chance, Events, NodeFacts, Reviews, RuntimeInfo, RuntimeStatus, RuntimeVersion};
use rubelet_engine::task::TaskGroup;
use rubelet_linux::cgroups::{KernelCgroups, Layout};
use rubelet_linux::checkpoints::RootCheckpoints;
use rubelet_linux::heap::Heap;
use rubelet_linux::host::KernelFiles;
use rubelet_linux::host::chance::KernelChance;
use rubelet_linux::host::facts::{FactsRequest, node_facts};
use rubelet_linux::host::lock_file::{LockFile, RootLock};
use rubelet_linux::host::node_files::NodeFiles;
use rubelet_linux::host::root_dir::{Sharing, prepare};
use rubelet_linux::host::tunables::TunablePolicy;
use rubelet_linux::host::{process, tunables};
use rubelet_linux::logs::{DiskLogs, LogDirs};
use rubelet_linux::pod_dirs::RootPods;
use rubelet_linux::socket_holder::HolderProcess;
use rubelet_linux::subpaths::RootSubpaths;
use rubelet_linux::volume_dirs::{Payloads, RootVolumes};
use rubelet_probe::NetworkProbes;
use rubelet_server::api::{self, ApiParts, ApiSettings, EnginePage, ProbePage, TlsParts};
use rubelet_server::healthz::{self, Health};
use rubelet_server::local::{LocalServer, ROOT};
use rubelet_server::{LiveNode, WatchedNode};
use rubelet_volume::Content;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cluster::{self, Cluster};
use crate::config_load::Loaded;
use crate::flags::control_socket;
use crate::logging::{Log, Queue};
use crate::metrics::{LogPage, RuntimePage};
use crate::settings;
use crate::sources;
use crate::standalone::{LogEvents, NoStatus};

/// Where links to container logs are, for log shippers. Not configurable upstream either.
const CONTAINER_LOGS: &str = "/var/log/containers";
/// Pauses between attempts to reach the runtime at start.
const RUNTIME_RETRIES: Doubling = Doubling::new(Duration::from_millis(100), Duration::from_secs(5));
/// How often the OOM score is set again (BOOT-06).
const OOM_SCORE_PERIOD: Duration = Duration::from_secs(300);

/// This program, also when its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Runs until told to stop. No container is stopped then (RST-18).
pub async fn run(loaded: Loaded, log: &Log) -> anyhow::Result<()> {
    let cancel = CancellationToken::new();
    let ending = Ending { cancel: cancel.clone(), hand_over: HandOver::default() };
    let stop = stop_on_signal(ending.clone())?;
    let result = tokio::select! {
        biased;
        // Before the loops run there is nothing to bring to rest: the start is simply given up.
        () = cancel.cancelled() => Ok(()),
        result = start(&loaded, log, &ending) => match result {
            Ok(running) => running.until_stopped(&ending).await,
            Err(err) => Err(err),
        },
    };
    stop.abort();
    result
}

/// The end of this process in good order.
#[derive(Clone)]
struct Ending {
    cancel: CancellationToken,
    hand_over: HandOver,
}

impl Ending {
    /// Calls to the runtime that are in flight go on without us, as after a kill: they are handed over before the jobs
    /// that wait for them are cancelled.
    fn begin(&self) {
        self.hand_over.begin();
        self.cancel.cancel();
    }
}

/// Everything that runs, and what must be held meanwhile.
struct Running {
    tasks: TaskGroup,
    servers: TaskGroup,
    /// The ways to the API server: they end last, so that what was decided can still be told.
    cluster: TaskGroup,
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

async fn start(loaded: &Loaded, log: &Log, ending: &Ending) -> anyhow::Result<Running> {
    let config = &loaded.config;
    let cancel = &ending.cancel;
    let root = PathBuf::from(&loaded.flags.root_dir);
    let lock_file = take_lock_file(loaded, ending).await?;
    let logs = LogDirs { pods: (&config.pod_logs_dir).into(), containers: CONTAINER_LOGS.into() };
    prepare(&root, &logs, Sharing::Shared).await.map_err(told)?;
    let root_lock = RootLock::take(&root).await.map_err(told)?;
    let files = KernelFiles::default();
    prepare_process(loaded, &files)?;

    let facts = facts(loaded, files.clone()).await?;
    info!(node = %facts.name, ips = ?facts.ips, cpu_millis = facts.cpu_millis, memory = facts.memory_bytes, "This is the node");
    check_host(loaded, &facts, &files)?;

    let clock = Clock::real();
    let calls = Arc::new(OperationMetrics::default());
    let kept = kept_calls(&ending.hand_over);
    let connection = connect(&config.container_runtime_endpoint, loaded, &clock, &calls, kept.clone())?;
    let runtime = Arc::new(CriRuntime::new(connection.clone()));
    let (version, status) = wait_for_runtime(runtime.as_ref(), &config.container_runtime_endpoint).await;
    info!(runtime = %version.name, version = %version.version, "The runtime answers");
    let images = match config.image_service_endpoint.as_str() {
        "" => connection,
        endpoint if endpoint == config.container_runtime_endpoint => connection,
        endpoint => connect(endpoint, loaded, &clock, &calls, kept)?,
    };

    let driver = cgroup_driver(runtime.as_ref(), loaded).await?;
    let tree = CgroupTree::new(&config.cgroup_root, driver, config.cgroups_per_qos);
    let layout = Layout::discover(&files.proc).context("read the cgroup mounts")?;
    let cgroups = KernelCgroups::new(layout, tree.clone());
    cgroups.check().await.map_err(told)?;

    let settings = settings::settings(loaded, &facts, &version, &status, tree)?;
    settings::prepare_cgroups(&cgroups, config, &settings, &facts).await.map_err(told)?;
    let disk_logs = Arc::new(DiskLogs::new(logs));
    let volume_dirs = RootVolumes::new(root.clone());
    let memory = u64::try_from(facts.memory_bytes).unwrap_or_default();
    let chance: Arc<dyn Chance> = Arc::new(KernelChance::default());
    let mut ways = TaskGroup::new(&CancellationToken::new());
    let cluster = cluster::join(loaded, &facts, &clock, &chance, &mut ways).await?;
    let content =
        Content::new(Arc::new(volume_dirs.clone()), Arc::new(Payloads::new(volume_dirs, clock.clone())), memory);
    let allocatable = &settings.admission.allocatable;
    let volumes = rubelet_volume::plugins(&content, allocatable, cluster.as_ref().map(|cluster| &cluster.ports));
    let events: Arc<dyn Events> = match &cluster {
        Some(cluster) => Arc::clone(&cluster.events),
        None => Arc::new(LogEvents::new(clock.clone())),
    };
    let served = Served {
        facts: facts.clone(),
        runtime: runtime.clone(),
        logs: disk_logs.clone(),
        reviews: cluster.as_ref().map(|cluster| Arc::clone(&cluster.reviews)),
        client: cluster.as_ref().map(Cluster::client),
        chance: Arc::clone(&chance),
        calls,
        log: log.queue(),
    };
    let ports = Ports {
        runtime,
        images: Arc::new(CriImages::new(images)),
        logins: Arc::new(logins(loaded, &root, &clock)?),
        cgroups: Arc::new(cgroups),
        dirs: Arc::new(RootPods::new(root.clone())),
        logs: disk_logs.clone(),
        log_cleaner: disk_logs,
        subpaths: Arc::new(RootSubpaths::new(root.clone())),
        volumes,
        checkpoints: Arc::new(RootCheckpoints::new(root.clone())),
        host_files: Arc::new(NodeFiles::new(&config.resolv_conf)),
        events,
        status: Arc::new(NoStatus),
        probes: Arc::new(NetworkProbes::new().map_err(told)?),
        memory: Arc::new(Heap),
        chance,
        cluster: cluster.as_ref().map(|cluster| cluster.ports.clone()),
    };
    let mut sources = sources::sources(loaded, &facts.name)?;
    let pulls = settings::pull_limits(config);
    let (node, object_changes) = match cluster {
        Some(cluster) => {
            sources.push(cluster.source);
            (Some(cluster.node), Some(cluster.object_changes))
        }
        None => (None, None),
    };
    let parts = Parts { ports, facts, settings, pulls, clock: clock.clone(), sources, node, object_changes };
    let (tasks, handle) = assemble::start(parts, cancel);
    let servers = serve(loaded, &root, handle, served, clock, cancel).await?;
    Ok(Running { tasks, servers, cluster: ways, _root_lock: root_lock, _lock_file: lock_file })
}

/// Logins for registries that this node has: of files, and of programs where flags name them (IMG-06, IMG-07).
fn logins(loaded: &Loaded, root: &Path, clock: &Clock) -> anyhow::Result<DiskLogins> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let logins = DiskLogins::new(DockerFiles::usual(root, home.as_deref()), clock.clone());
    let flags = &loaded.flags;
    let (config, programs) = (&flags.image_credential_provider_config, &flags.image_credential_provider_bin_dir);
    if config.is_empty() && programs.is_empty() {
        return Ok(logins);
    }
    logins.with_providers(Path::new(config), Path::new(programs)).map_err(told)
}

/// The error with its causes in one line: people read it, nobody matches on it here.
pub(crate) fn told(err: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    anyhow::anyhow!("{}", Chain(&err))
}

/// SIGTERM and SIGINT end the process; pods go on (RST-18).
fn stop_on_signal(ending: Ending) -> anyhow::Result<tokio::task::AbortHandle> {
    let mut term = signal(SignalKind::terminate()).context("watch for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("watch for SIGINT")?;
    let mut watch = tokio::task::JoinSet::new();
    let handle = watch.spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        ending.begin();
    });
    watch.detach_all();
    Ok(handle)
}

/// `--lock-file`, and leaving when somebody else wants it (BOOT-04).
async fn take_lock_file(loaded: &Loaded, ending: &Ending) -> anyhow::Result<Option<LockFile>> {
    if loaded.flags.lock_file.is_empty() {
        return Ok(None);
    }
    info!(path = %loaded.flags.lock_file, "Waiting for the lock file");
    let lock = LockFile::acquire(&loaded.flags.lock_file).await.map_err(told)?;
    if loaded.flags.exit_on_lock_contention {
        let contention = lock.watch().map_err(told)?;
        let ending = ending.clone();
        let mut watch = tokio::task::JoinSet::new();
        watch.spawn(async move {
            match contention.wait().await {
                Ok(()) => info!("Somebody else wants the lock file: stopping"),
                Err(err) => warn!(err = %Chain(&err), "Could not watch the lock file: stopping"),
            }
            ending.begin();
        });
        watch.detach_all();
    }
    Ok(Some(lock))
}

/// What this process asks of the kernel for itself (BOOT-06, BOOT-07, BOOT-10).
fn prepare_process(loaded: &Loaded, files: &KernelFiles) -> anyhow::Result<()> {
    let config = &loaded.config;
    let open_files = process::raise_open_files(u64::try_from(config.max_open_files).unwrap_or_default());
    if open_files.is_short() {
        warn!(wanted = open_files.wanted, in_force = open_files.in_force, "Could not raise the limit on open files");
    }
    if let Err(err) = process::set_oom_score_adj(files, config.oom_score_adj) {
        warn!(score = config.oom_score_adj, %err, "Could not set our own OOM score");
    }
    let policy = if config.protect_kernel_defaults { TunablePolicy::Verify } else { TunablePolicy::Set };
    let problems: Vec<String> = tunables::apply(files, policy).iter().map(|err| Chain(err).to_string()).collect();
    match policy {
        TunablePolicy::Verify if !problems.is_empty() => {
            bail!("protectKernelDefaults is set and kernel settings differ:\n  {}", problems.join("\n  "))
        }
        TunablePolicy::Verify | TunablePolicy::Set => {
            problems.iter().for_each(|problem| warn!(%problem, "A kernel setting is not as pods need it"));
            Ok(())
        }
    }
}

async fn facts(loaded: &Loaded, files: KernelFiles) -> anyhow::Result<NodeFacts> {
    let request = FactsRequest {
        hostname_override: loaded.flags.hostname_override.clone(),
        node_ips: node_ips(&loaded.flags.node_ip)?.addresses,
        resolv_conf: loaded.config.resolv_conf.clone(),
        files,
    };
    let facts = node_facts(request).await.map_err(told)?;
    if let Some(err) = facts.no_address {
        warn!(err = %Chain(&err), "The node has no address: pods that ask for it get none");
    }
    Ok(facts.node)
}

/// Whether pods can run on such a host at all (BOOT-08, BOOT-09).
fn check_host(loaded: &Loaded, facts: &NodeFacts, files: &KernelFiles) -> anyhow::Result<()> {
    let swap = rubelet_linux::host::facts::swap_is_on(files).context("read whether swap is on")?;
    if swap && loaded.config.fail_swap_on {
        bail!("running with swap on is not supported: switch it off (swapoff -a) or set failSwapOn: false");
    }
    if facts.cgroups == CgroupVersion::V1 {
        warn!("This host has cgroup v1, which upstream has deprecated: prefer a host with cgroup v2");
    }
    Ok(())
}

/// Starts the process that keeps calls to the runtime alive when this one dies (ADR 13). A node works without it.
fn kept_calls(hand_over: &HandOver) -> Option<Arc<KeptCalls>> {
    match HolderProcess::start(Path::new(OWN_PROGRAM)) {
        Ok(holder) => Some(Arc::new(KeptCalls::new(Arc::new(holder), hand_over.clone()))),
        Err(err) => {
            warn!(
                %err,
                "Could not start the process that keeps runtime calls alive when rubelet dies: a kill of rubelet cuts off \
                 the calls in flight"
            );
            None
        }
    }
}

fn connect(
    endpoint: &str,
    loaded: &Loaded,
    clock: &Clock,
    calls: &Arc<OperationMetrics>,
    kept: Option<Arc<KeptCalls>>,
) -> anyhow::Result<Connection> {
    let endpoint: Endpoint = endpoint.parse().with_context(|| format!("containerRuntimeEndpoint {endpoint:?}"))?;
    let streaming = loaded.gates.enabled(rubelet_core::config::Gate::CRIListStreaming);
    let clock = clock.clone();
    let options = ConnectionOptions {
        request_timeout: loaded.config.runtime_request_timeout.to_std(),
        list_mode: if streaming { ListMode::Streamed } else { ListMode::Whole },
        metrics: Arc::clone(calls),
        now: Arc::new(move || clock.mono()),
        kept,
    };
    Ok(Connection::lazy(&endpoint, options))
}

/// Waits until the runtime answers. A node whose runtime starts later than its kubelet is common; the reason is told
/// when it changes.
async fn wait_for_runtime(runtime: &CriRuntime, endpoint: &str) -> (RuntimeVersion, RuntimeStatus) {
    let mut failures: u32 = 0;
    let mut told = String::new();
    loop {
        let answer = match runtime.version().await {
            Ok(version) => runtime.status().await.map(|status| (version, status)),
            Err(err) => Err(err),
        };
        match answer {
            Ok(answer) => return answer,
            Err(err) => {
                let problem = err.to_string();
                if problem != told {
                    warn!(
                        %endpoint,
                        err = %problem,
                        "The container runtime does not answer: waiting for it. Is it running, and does containerRuntimeEndpoint name its socket?"
                    );
                    told = problem;
                }
            }
        }
        failures = failures.saturating_add(1);
        tokio::time::sleep(RUNTIME_RETRIES.after(failures)).await;
    }
}

/// The runtime's cgroup driver counts, else the configured one (BOOT-05).
async fn cgroup_driver(runtime: &CriRuntime, loaded: &Loaded) -> anyhow::Result<CgroupDriver> {
    let configured = match loaded.config.cgroup_driver {
        rubelet_core::config::CgroupDriver::Systemd => CgroupDriver::Systemd,
        rubelet_core::config::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
    };
    let asked = runtime.cgroup_driver().await.map_err(told)?;
    let driver = asked.unwrap_or(configured);
    info!(?driver, from_runtime = asked.is_some(), "The cgroup driver is known");
    if driver == CgroupDriver::Systemd {
        bail!(
            "the cgroup driver is systemd, which rubelet does not have yet: set SystemdCgroup = false in containerd's \
             configuration and cgroupDriver: cgroupfs here"
        );
    }
    Ok(driver)
}

/// Health on its port, and the socket that the commands use.
async fn serve(
    loaded: &Loaded,
    root: &Path,
    handle: assemble::EngineHandle,
    served: Served,
    clock: Clock,
    cancel: &CancellationToken,
) -> anyhow::Result<TaskGroup> {
    let config = &loaded.config;
    let mut servers = TaskGroup::new(cancel);
    let files = KernelFiles::default();
    let score = config.oom_score_adj;
    let stop = servers.cancel_token();
    servers.start("oom-score", async move {
        while stop.run_until_cancelled(tokio::time::sleep(OOM_SCORE_PERIOD)).await.is_some() {
            // It was told once at the start if this cannot be done.
            let _refused = process::set_oom_score_adj(&files, score);
        }
    });
    let sync_loop = handle.sync_loop.clone();
    let node: Arc<dyn WatchedNode> = Arc::new(LiveNode { sync_loop, clock: clock.clone() });
    if config.healthz_port > 0 {
        let ip: IpAddr = config.healthz_bind_address.parse().context("healthzBindAddress")?;
        let address = SocketAddr::new(ip, u16::try_from(config.healthz_port).context("healthzPort")?);
        let health = Health::new(Arc::clone(&node), config.sync_frequency.to_std());
        servers.start("healthz", healthz::run(address, health, servers.cancel_token()));
    }
    if config.enable_server {
        let health = Health::new(Arc::clone(&node), config.sync_frequency.to_std());
        node_api(loaded, Arc::clone(&node), health, handle, served, clock, &mut servers).await?;
    }
    let local = LocalServer::bind(&control_socket(root), node, ROOT).map_err(told)?;
    servers.start("local-socket", local.run(servers.cancel_token()));
    Ok(servers)
}

/// What the node's own API is made from, besides what the engine offers.
struct Served {
    facts: NodeFacts,
    runtime: Arc<CriRuntime>,
    logs: Arc<DiskLogs>,
    reviews: Option<Arc<dyn Reviews>>,
    client: Option<Client>,
    chance: Arc<dyn Chance>,
    calls: Arc<OperationMetrics>,
    log: Arc<Queue>,
}

/// The node's HTTPS API, and the read-only port if one is configured.
async fn node_api(
    loaded: &Loaded,
    node: Arc<dyn WatchedNode>,
    health: Health,
    engine: assemble::EngineHandle,
    served: Served,
    clock: Clock,
    servers: &mut TaskGroup,
) -> anyhow::Result<()> {
    let config = &loaded.config;
    let time_and_chance = (&clock, &served.chance);
    let client = served.client.as_ref();
    let certificate = cluster::serving(loaded, &served.facts, client, engine.node, time_and_chance, servers).await?;
    let client_ca = Some(&config.authentication.x509.client_ca_file).filter(|path| !path.is_empty());
    let tls = TlsParts {
        certificate,
        client_ca: client_ca.map(PathBuf::from),
        cipher_suites: config.tls_cipher_suites.clone(),
        min_version: config.tls_min_version.clone(),
    };
    let parts = ApiParts {
        node,
        runtime: served.runtime,
        logs: served.logs,
        health,
        reviews: served.reviews,
        clock,
        node_name: served.facts.name,
        configz: serde_json::to_vec(&configz(config)).context("the configuration as JSON")?.into(),
        metrics: vec![
            Arc::new(EnginePage { metrics: engine.metrics, sync_loop: engine.sync_loop }),
            Arc::new(RuntimePage(served.calls)),
            Arc::new(LogPage(served.log)),
        ],
        probe_metrics: Arc::new(ProbePage { prober: engine.prober }),
        settings: ApiSettings::new(config, &loaded.gates),
    };
    let ip: IpAddr = config.address.parse().context("address")?;
    let at = |port: i32, name| anyhow::Ok(SocketAddr::new(ip, u16::try_from(port).context(name)?));
    if config.read_only_port > 0 {
        let address = at(config.read_only_port, "readOnlyPort")?;
        servers.start("read-only-api", api::run(address, parts.clone(), None, servers.cancel_token()));
    }
    servers.start("node-api", api::run(at(config.port, "port")?, parts, Some(tls), servers.cancel_token()));
    Ok(())
}
