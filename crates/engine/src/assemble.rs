//! Puts the loops together: the same way for the real node and for the simulation.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node as ApiNode;
use rubelet_core::id::PodUid;
use rubelet_core::node::Pressure;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::ended::{EndedHandle, Remembering};
use crate::eviction::{self, Collectors, EvictionHandle, EvictionParts, Evictor};
use crate::image_gc::{ImageGc, ImageGcHandle};
use crate::images::{PullLimits, Puller, PullerHandle};
use crate::log_rotation::{LogRotator, LogRotatorHandle};
use crate::metrics::Metrics;
use crate::mirror::{MirrorPods, Mirrors};
use crate::node::{Node, Ports, Settings};
use crate::node_lease::Heartbeat;
use crate::node_now::{self, NodeNow};
use crate::node_reporter::{self, NodeParts, Seen};
use crate::node_shutdown::{NodeShutdown, ShutdownParts, World};
use crate::oom;
use crate::pleg::{Listed, Pleg};
use crate::ports::{ClusterPorts, KernelLog, NodeFacts, PodSource, StatusObserver, UsageReader};
use crate::prober::{Prober, ProberHandle};
use crate::slots::StartSlots;
use crate::status::{StatusMail, StatusWriter};
use crate::sync_loop::{DELIVERIES, HINTS, SyncLoop, SyncLoopHandle, SyncLoopParts};
use crate::task::TaskGroup;
use crate::trace::Tracer;
use crate::usage::{NoUsage, UsageParts, UsageTask};

/// What a running engine offers to others.
#[derive(Clone)]
pub struct EngineHandle {
    /// Asks the sync loop.
    pub sync_loop: SyncLoopHandle,
    /// The node's object as last reported; `None` before it is registered, and without an API server.
    pub node: watch::Receiver<Option<Arc<ApiNode>>>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Asks the prober.
    pub prober: ProberHandle,
    /// Removes images on request.
    pub image_gc: ImageGcHandle,
    /// What the node is now.
    pub now: watch::Receiver<Arc<NodeNow>>,
    /// Whether the API server answers; `None` on a node without one.
    pub heartbeat: Option<watch::Receiver<Heartbeat>>,
    /// Where pod statuses go.
    pub statuses: StatusMail,
    /// Asks which images are pulled and which wait.
    pub puller: PullerHandle,
    /// Asks which pods have ended lately.
    pub ended: EndedHandle,
    /// What eviction sees.
    pub eviction: EvictionHandle,
    /// What the node and its pods use.
    pub usage: Arc<dyn UsageReader>,
}

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineHandle").field("sync_loop", &self.sync_loop).finish_non_exhaustive()
    }
}

/// The arguments of [`start`].
pub struct Parts {
    /// The ports.
    pub ports: Ports,
    /// What the node is for as long as this process runs.
    pub facts: NodeFacts,
    /// Its addresses at the start.
    pub ips: Vec<IpAddr>,
    /// How it is configured.
    pub settings: Settings,
    /// How images are pulled.
    pub pulls: PullLimits,
    /// Sees every pod status.
    pub status_observer: Option<Arc<dyn StatusObserver>>,
    /// Makes spans of what jobs do.
    pub tracer: Tracer,
    /// Time.
    pub clock: Clock,
    /// Where pods come from.
    pub sources: Vec<Arc<dyn PodSource>>,
    /// The node's object and lease, for a node in a cluster.
    pub node: Option<NodeParts>,
    /// The shutdown of the machine; `None` on a node that does not end its pods before.
    pub shutdown: Option<ShutdownParts>,
    /// Eviction; `None` on a node that evicts nothing.
    pub eviction: Option<EvictionParts>,
    /// Pods that use a config map, secret or the like that has changed; `None` on a node without an API server.
    pub object_changes: Option<mpsc::Receiver<PodUid>>,
    /// The kernel's log; `None` where it cannot be read.
    pub kernel_log: Option<Box<dyn KernelLog>>,
    /// What usage is measured with; `None` on a node that measures none.
    pub usage: Option<UsageParts>,
}

/// Starts every loop. They end when `cancel` is cancelled; no container is stopped then.
#[doc(alias = "RunKubelet")]
pub fn start(parts: Parts, cancel: &CancellationToken) -> (TaskGroup, EngineHandle) {
    let Parts { ports, facts, ips, settings, pulls, status_observer, clock, sources, .. } = parts;
    let Parts { node: node_parts, object_changes, shutdown, eviction, kernel_log, tracer, usage, .. } = parts;
    let mut tasks = TaskGroup::new(cancel);
    let cancel = tasks.cancel_token();

    let (going_down, shutting_down) = watch::channel(false);
    let (publish_pressure, pressure) = eviction::pressure();
    let now = node_now::start(&ports, &settings, (ips, shutting_down, pressure.clone()), &clock, &mut tasks);

    let (puller, puller_handle) = Puller::new(Arc::clone(&ports.images), clock.clone(), pulls);
    tasks.start("image-puller", puller.run(cancel.clone()));

    let metrics = Arc::new(Metrics::default());
    let (pleg_sender, pleg_news) = mpsc::channel(HINTS);
    let (pleg, pleg_health) =
        Pleg::new(Arc::clone(&ports.runtime) as _, clock.clone(), pleg_sender, Arc::clone(&metrics));
    let listed = pleg.listed();
    tasks.start("pleg", pleg.run(cancel.clone()));
    let collectors = collectors(&ports, &settings, &metrics, (&clock, &tracer), listed, kernel_log, &mut tasks);

    let object = node_parts.as_ref().map(|parts| parts.watched.clone());
    let (reported, heartbeat) = match node_parts {
        Some(parts) => {
            let metrics = Arc::clone(&metrics);
            let seen = Seen { now: now.clone(), pleg: pleg_health, pressure, metrics };
            let (node, heartbeat) = node_reporter::start(parts, &ports, &clock, seen, &mut tasks);
            (node, Some(heartbeat))
        }
        None => (watch::channel(None).1, None),
    };

    let (deliver, deliveries) = mpsc::channel(DELIVERIES);
    let source_kinds: Vec<_> = sources.iter().map(|source| source.source()).collect();
    for source in sources {
        let (deliver, cancel) = (deliver.clone(), cancel.clone());
        tasks.start("pod-source", async move { source.run(deliver, cancel).await });
    }

    let (status, mirrors) = statuses(ports.cluster.clone(), &clock, (status_observer, &metrics), &mut tasks);
    let starts = StartSlots::new(settings.parallel_starts);
    let counted = Arc::clone(&metrics);
    let (events, checkpoints) = (Arc::clone(&ports.events), Arc::clone(&ports.checkpoints));
    let (shown_now, shown_statuses) = (now.clone(), status.clone());
    let seen_by_usage = usage.map(|parts| (parts, ports.clone(), clock.clone()));
    let seen_by_shutdown = shutdown.map(|parts| (parts, status.clone(), now.clone(), clock.clone()));
    let memory = u64::try_from(facts.memory_bytes).unwrap_or_default();
    let (evictor_clock, evictor_events) = (clock.clone(), Arc::clone(&ports.events));
    let (image_gc, log_rotator) = collectors;
    let collects_images = image_gc.clone();
    let (remembering, ended) = Remembering::new(Arc::clone(&checkpoints), clock.clone());
    tasks.start("ended-pods", remembering.run(cancel.clone()));
    let (shown_puller, shown_ended) = (puller_handle.clone(), ended.clone());
    let puller = puller_handle;
    let node = Arc::new(Node {
        ports,
        facts,
        settings,
        clock,
        tracer,
        status,
        puller,
        image_gc,
        log_rotator,
        ended,
        starts,
        metrics,
        now,
    });
    let (prober, prober_line, prober_handle) = Prober::new(Arc::clone(&node));
    tasks.start("prober", prober.run(cancel.clone()));
    let (sync_loop, handle) = SyncLoop::new(SyncLoopParts {
        node,
        sources: source_kinds,
        deliveries,
        pleg: pleg_news,
        prober: prober_line,
        mirrors,
        object_changes,
    });
    tasks.start("sync-loop", sync_loop.run(cancel.clone()));
    let usage: Arc<dyn UsageReader> = match seen_by_usage {
        Some((parts, ports, clock)) => {
            let (task, usage) = UsageTask::new(parts, &ports, handle.clone(), clock);
            tasks.start("usage", task.run(cancel.clone()));
            Arc::new(usage)
        }
        None => Arc::new(NoUsage),
    };
    if let Some((parts, status, now, clock)) = seen_by_shutdown {
        let metrics = Arc::clone(&counted);
        let world = World { sync_loop: handle.clone(), status, events, checkpoints, metrics, now, clock };
        tasks.start("node-shutdown", NodeShutdown::new(parts, going_down, world).run(cancel.clone()));
    }
    let (view, eviction_handle) = EvictionHandle::new();
    match eviction.filter(|parts| !parts.policy.is_off()) {
        Some(parts) => {
            let reader = parts.usage.clone().unwrap_or_else(|| Arc::clone(&usage));
            let own = Collectors { sync_loop: handle.clone(), images: collects_images.clone() };
            let reclaim = parts.reclaim.clone().unwrap_or_else(|| Arc::new(own));
            let world = eviction::World {
                sync_loop: handle.clone(),
                events: evictor_events,
                metrics: Arc::clone(&counted),
                clock: evictor_clock,
                object,
                pressure: publish_pressure,
                view,
                memory,
            };
            tasks.start("evictor", Evictor::new(parts, (reader, reclaim), world).run(cancel));
        }
        None => drop(publish_pressure.send(Some(Pressure::default()))),
    }

    let handle = EngineHandle {
        sync_loop: handle,
        node: reported,
        metrics: counted,
        prober: prober_handle,
        image_gc: collects_images,
        now: shown_now,
        heartbeat,
        statuses: shown_statuses,
        puller: shown_puller,
        ended: shown_ended,
        eviction: eviction_handle,
        usage,
    };
    (tasks, handle)
}

/// Starts what keeps the disk from filling, and what follows the kernel's log.
fn collectors(
    ports: &Ports,
    settings: &Settings,
    metrics: &Arc<Metrics>,
    (clock, tracer): (&Clock, &Tracer),
    listed: watch::Receiver<Listed>,
    kernel_log: Option<Box<dyn KernelLog>>,
    tasks: &mut TaskGroup,
) -> (ImageGcHandle, LogRotatorHandle) {
    let cancel = tasks.cancel_token();
    let (image_gc, handle) =
        ImageGc::of(ports, settings.image_gc, Arc::clone(metrics), (clock.clone(), tracer.clone()));
    tasks.start("image-gc", image_gc.run(cancel.clone()));
    if let Some(log) = kernel_log {
        tasks.start("kernel-log", oom::watch(log, Arc::clone(&ports.events), cancel.clone()));
    }
    let Some(rotation) = settings.log_rotation else { return (handle, LogRotatorHandle::default()) };
    let files = (Arc::clone(&ports.runtime), Arc::clone(&ports.log_files));
    let (rotator, rotates) = LogRotator::new(files, clock.clone(), rotation, settings.gc.per_container, listed);
    tasks.start("log-rotation", rotator.run(cancel));
    (handle, rotates)
}

/// Starts the writers of pod objects in the API. Without an API server statuses go nowhere, and there are no mirrors.
fn statuses(
    cluster: Option<ClusterPorts>,
    clock: &Clock,
    (observer, metrics): (Option<Arc<dyn StatusObserver>>, &Arc<Metrics>),
    tasks: &mut TaskGroup,
) -> (StatusMail, Option<watch::Sender<Arc<Mirrors>>>) {
    let Some(ClusterPorts { pods, view, .. }) = cluster else { return (StatusMail::unread(observer), None) };
    let (publish, mirrors) = watch::channel(Arc::new(Mirrors::default()));
    let (writer, status) =
        StatusWriter::new(Arc::clone(&pods), clock.clone(), mirrors.clone(), observer, Arc::clone(metrics));
    tasks.start("status-writer", writer.run(tasks.cancel_token()));
    let keeper = MirrorPods::new(pods, view, clock.clone(), mirrors);
    tasks.start("mirror-pods", keeper.run(tasks.cancel_token()));
    (status, Some(publish))
}
