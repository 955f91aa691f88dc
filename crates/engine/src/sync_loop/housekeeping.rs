//! Housekeeping: finds unknown pods, which are on the node though no source wants them, and removes dead containers and
//! sandboxes (section 3.1, 18).
//!
//! A survey reads the runtime, the pod directories, the log directories and the cgroup tree *before* the loop compares
//! them with its pods, so that a pod that arrives meanwhile is never taken for an unknown one (HK-01). An unknown pod gets
//! a life cycle as an orphan: the jobs that end every pod stop it, unmount its volumes and remove its directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::gc::{GcContainer, GcPlan, GcView, PodFate, plan_gc};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Stage;
use rubelet_core::observe::PodSummary;
use rubelet_core::pod::OrphanPod;
use rubelet_core::qos::{QosValues, qos_values};
use rubelet_core::status::{MAX_MESSAGE_BYTES, cut};
use rubelet_core::time::Instant;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

use super::enforcement::Enforcement;
use crate::chain::Chain;
use crate::node::Node;
use crate::node_cgroups::{self, NodeLook};
use crate::pod_worker::PodWorkers;
use crate::ports::{EventKind, NodeEvent};
use crate::removal::{DeadContainer, RemoveError, remove_container};
use crate::resources;
use crate::task::timed;
use crate::trace::{self, SpanKind};

/// How often an idle node is surveyed. Upstream: every 2 s (LOOP-01). A change by this process leads to a survey at once,
/// so the period only bounds how long a change by another process goes unnoticed.
const PERIOD: Duration = Duration::from_secs(60);
/// How long after a change the survey starts, so that a hundred pods that end together cost one survey.
const GATHER: Duration = Duration::from_secs(2);

/// How long one part of a survey may take. A directory may be on a disk or a file server that does not answer. Such a
/// part is left out, logged once, and tried again by the next survey.
const PART: Duration = Duration::from_secs(10);

/// After this many jobs, once no job is in flight, there is enough freed memory to be worth a trim.
const JOBS_BEFORE_TRIM: u32 = 32;
/// How long after the last job: status writes and events that jobs caused are sent by then. Events of 100 pods take the
/// longest.
const TRIM_AFTER: Duration = Duration::from_secs(8);

/// When to survey, and the chores in flight.
#[doc(alias = "HandlePodCleanups")]
pub(super) struct Housekeeping {
    due: Instant,
    chores: JoinSet<ChoreEnd>,
    surveying: bool,
    collecting: bool,
    /// Those who wait for dead containers to be removed, because disk space is short (EV-10).
    reclaims: Vec<oneshot::Sender<()>>,
    /// Parts of the last survey that did not answer in time.
    hung: BTreeSet<&'static str>,
    levels: Levels,
    enforcement: Enforcement,
    /// Jobs that ended since the last trim.
    jobs: u32,
    /// No survey has ended yet.
    starting: bool,
}

/// The values of the QoS cgroups. One set is applied at a time, so that an older set never comes after a newer one.
#[derive(Default)]
struct Levels {
    wanted: Option<QosValues>,
    applied: Option<QosValues>,
    /// Somebody may have changed the applied values since the last look.
    check: bool,
    setting: bool,
}

/// Work that touches the disk or the runtime.
pub(super) enum Chore {
    /// List what the runtime and the disk have of any pod.
    Survey,
    /// Remove dead containers and sandboxes.
    Collect(GcPlan),
    /// Give freed memory back to the kernel.
    Trim,
}

/// How a chore ended.
pub(super) enum ChoreEnd {
    Surveyed(Survey),
    /// Dead containers and sandboxes are removed; those that could not be are found by the next survey.
    Collected,
    /// These are the values of the QoS cgroups now; `None` if they could not be set.
    LevelsSet(Option<QosValues>),
    /// The cgroups of the node were looked at.
    LookedAtNode(NodeLook),
    Done,
}

/// The pods of which the runtime or the disk has something.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) began: Instant,
    runtime: BTreeMap<PodUid, PodSummary>,
    /// UIDs with a directory, a log directory or a cgroup. Only a log directory has the name of its pod.
    on_disk: BTreeMap<PodUid, Option<PodRef>>,
    /// Parts that did not answer in time.
    hung: BTreeSet<&'static str>,
}

impl Survey {
    /// The result of one part of the survey; `None` if it does not answer in time.
    async fn part<T, E>(
        &mut self,
        name: &'static str,
        look: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        match tokio::time::timeout(PART, look).await {
            Ok(found) => found.map(Some),
            Err(_) => {
                self.hung.insert(name);
                Ok(None)
            }
        }
    }

    /// The unknown pods among those found.
    pub(super) fn unknown_pods(&self, is_unknown: impl Fn(&PodUid) -> bool) -> Vec<OrphanPod> {
        let running = self.runtime.iter().map(|(uid, pod)| (uid, Some(&pod.pod)));
        let on_disk = self.on_disk.iter().map(|(uid, name)| (uid, name.as_ref()));
        let mut found: BTreeMap<&PodUid, Option<&PodRef>> = BTreeMap::new();
        for (uid, name) in on_disk.chain(running).filter(|(uid, _)| is_unknown(uid)) {
            let known = found.entry(uid).or_default();
            *known = known.or(name);
        }
        let orphan = |(uid, name): (&PodUid, Option<&PodRef>)| {
            let nameless = || PodRef { namespace: "".into(), name: "".into(), uid: uid.clone() };
            OrphanPod { pod: name.cloned().unwrap_or_else(nameless) }
        };
        found.into_iter().map(orphan).collect()
    }

    /// Pods with a running sandbox or container.
    pub(super) fn running(&self) -> impl Iterator<Item = &PodUid> {
        self.runtime.iter().filter(|(_, pod)| pod.is_running()).map(|(uid, _)| uid)
    }

    /// Dead containers and sandboxes of known pods, beyond the number that is kept (GC-02, GC-03).
    pub(super) fn garbage(&self, node: &Node, workers: &PodWorkers, remove_ended: bool) -> GcPlan {
        // Unknown pods are left out: they end as orphans, and that removes everything they have.
        let fate = |uid: &PodUid| match workers.stage(uid) {
            Some(Stage::Finished) if workers.was_evicted(uid) => PodFate::Unneeded,
            Some(Stage::Finished) => PodFate::Ended,
            Some(_) | None => PodFate::MayRun,
        };
        let pods: Vec<&PodSummary> = self.runtime.values().filter(|pod| workers.knows(&pod.pod.uid)).collect();
        let view = GcView { policy: node.settings.gc, all_sources_seen: true, remove_ended, now: node.clock.wall() };
        plan_gc(&pods, fate, &view)
    }
}

impl Housekeeping {
    pub(super) fn new(now: Instant) -> Self {
        let (chores, hung, levels) = (JoinSet::new(), BTreeSet::new(), Levels::default());
        let enforcement = Enforcement::new(now);
        Self {
            due: now,
            chores,
            surveying: false,
            collecting: false,
            reclaims: Vec::new(),
            hung,
            levels,
            enforcement,
            jobs: 0,
            starting: true,
        }
    }

    /// When the next survey is due; `None` while one is under way or the runtime is down.
    pub(super) fn due(&self, up: bool) -> Option<Instant> {
        (up && !self.surveying).then_some(self.due)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.surveying && self.due <= now
    }

    /// Starts the next survey soon, because pods changed.
    pub(super) fn soon(&mut self, now: Instant) {
        self.due = self.due.min(now + GATHER);
    }

    pub(super) fn postpone(&mut self, now: Instant) {
        self.due = now + GATHER;
    }

    pub(super) fn surveyed(&mut self, survey: &Survey, node: &Arc<Node>) {
        self.surveying = false;
        // Memory that only the start needed returns to the kernel, with pods or without.
        if std::mem::take(&mut self.starting) {
            self.start(Chore::Trim, node);
        }
        for part in survey.hung.difference(&self.hung) {
            warn!(part, after = ?PART, "A survey of the node leaves out a part that does not answer: a disk or a mounted \
                file system may hang. What unknown pods left there is not cleaned up until it answers");
        }
        for part in self.hung.difference(&survey.hung) {
            info!(part, "A part of the node that did not answer is surveyed again");
        }
        self.hung.clone_from(&survey.hung);
        self.due = self.due.max(node.clock.mono() + GATHER);
        self.set_levels(node);
    }

    pub(super) fn start(&mut self, chore: Chore, node: &Arc<Node>) {
        let node = Arc::clone(node);
        match chore {
            Chore::Survey => {
                self.surveying = true;
                self.due = node.clock.mono() + PERIOD;
                self.chores.spawn(timed("survey", async move { ChoreEnd::Surveyed(survey(&node).await) }));
            }
            // The next survey finds the rest.
            Chore::Collect(_) if self.collecting => {}
            Chore::Collect(garbage) => {
                self.collecting = true;
                self.chores.spawn(timed("container-gc", async move {
                    // upstream: kuberuntime/kuberuntime_gc.go GarbageCollect (v1.36)
                    let span = node.tracer.start("Containers/GarbageCollect", SpanKind::Internal, None);
                    let context = span.as_ref().map(trace::Span::context);
                    trace::within(context, collect(&node, garbage)).await;
                    ChoreEnd::Collected
                }));
            }
            Chore::Trim => {
                let due = node.clock.mono() + TRIM_AFTER;
                self.chores.spawn(timed("give-memory-back", async move {
                    node.clock.sleep_until(Some(due)).await;
                    node.ports.memory.trim().await;
                    ChoreEnd::Done
                }));
            }
        }
    }

    pub(super) fn collected(&mut self) {
        self.collecting = false;
        self.reclaimed();
    }

    /// Surveys at once, and removes what pods that have ended have left. A collection in progress answers as well.
    pub(super) fn reclaim(&mut self, reply: oneshot::Sender<()>, now: Instant) {
        self.reclaims.push(reply);
        self.due = self.due.min(now);
    }

    /// Whether dead containers of pods that have ended go.
    pub(super) fn reclaims(&self) -> bool {
        !self.reclaims.is_empty()
    }

    /// Answers those who wait for dead containers to be removed.
    pub(super) fn reclaimed(&mut self) {
        for reply in self.reclaims.drain(..) {
            // The evictor may have given up.
            let _gone = reply.send(());
        }
    }

    /// Counts a job that has ended; `resting` if no other job is in flight.
    pub(super) fn job_ended(&mut self, resting: bool, node: &Arc<Node>) {
        self.jobs = self.jobs.saturating_add(1);
        if resting && self.jobs >= JOBS_BEFORE_TRIM {
            self.jobs = 0;
            self.start(Chore::Trim, node);
        }
    }

    /// Sets the CPU shares of the QoS cgroups if the active pods call for other ones (CG-10).
    pub(super) fn pods_changed(&mut self, node: &Arc<Node>, workers: &PodWorkers) {
        let values = qos_values(workers.active().map(AsRef::as_ref), &node.facts.hugepage_sizes);
        self.levels.wanted = Some(values);
        self.set_levels(node);
    }

    /// Looks at the cgroups of the node, QoS levels included, unless the last look was just before. What somebody changed
    /// is set right.
    pub(super) fn look_at_node_cgroups(&mut self, node: &Arc<Node>) {
        if !self.enforcement.begin(node.clock.mono()) {
            return;
        }
        self.levels.check = true;
        self.set_levels(node);
        let node = Arc::clone(node);
        self.chores
            .spawn(timed("node-cgroups", async move { ChoreEnd::LookedAtNode(node_cgroups::look(&node).await) }));
    }

    pub(super) fn looked_at_node(&mut self, look: &NodeLook, node: &Arc<Node>) {
        let settings = &node.settings;
        for event in self.enforcement.looked(look, &settings.launch.tree.root(), &settings.node_cgroups) {
            node.ports.events.record_node(event);
        }
    }

    /// Sets the wanted values, unless they are applied or being applied. A failure is retried after the next survey.
    fn set_levels(&mut self, node: &Arc<Node>) {
        let levels = &mut self.levels;
        let changed = levels.wanted != levels.applied;
        let Some(values) = levels.wanted.clone().filter(|_| !levels.setting && (changed || levels.check)) else {
            return;
        };
        levels.setting = true;
        levels.check = false;
        let node = Arc::clone(node);
        self.chores.spawn(timed("qos-levels", async move {
            match resources::ensure_levels(&node, &values).await {
                Ok(found) => {
                    for others in found.iter().filter(|_| !changed) {
                        warn!(changed = others, "Somebody changed the QoS cgroups: they are set again");
                    }
                    ChoreEnd::LevelsSet(Some(values))
                }
                Err(err) => {
                    warn!(err = %Chain(&err), "Could not set the QoS cgroups");
                    ChoreEnd::LevelsSet(None)
                }
            }
        }));
    }

    pub(super) fn levels_set(&mut self, values: Option<QosValues>, node: &Arc<Node>) {
        self.levels.setting = false;
        if values.is_some() {
            self.levels.applied = values;
            self.set_levels(node);
        }
    }

    /// Waits for the next chore to end; for ever if none is in flight. Cancel-safe, as `join_next` is.
    pub(super) async fn next_end(&mut self) -> ChoreEnd {
        match self.chores.join_next().await {
            Some(Ok(end)) => end,
            Some(Err(err)) => {
                error!(%err, "A housekeeping chore was lost");
                self.surveying = false;
                self.collecting = false;
                self.levels.setting = false;
                self.enforcement.lost();
                ChoreEnd::Done
            }
            None => std::future::pending().await,
        }
    }
}

/// Lists the pods that the runtime and the disk have something of. A part that cannot be read is left for the next survey:
/// nothing is removed because it could not be read.
#[doc(alias = "cleanupOrphanedPodDirs")]
#[doc(alias = "cleanupOrphanedPodCgroups")]
async fn survey(node: &Node) -> Survey {
    let mut survey = Survey { began: node.clock.mono(), ..Survey::default() };
    match survey.part("pod directories", node.ports.dirs.list()).await {
        Ok(uids) => survey.on_disk.extend(uids.into_iter().flatten().map(|uid| (uid, None))),
        Err(err) => warn!(err = %Chain(&err), "Could not list pod directories"),
    }
    match survey.part("pod cgroups", node.ports.cgroups.pods()).await {
        Ok(pods) => survey.on_disk.extend(pods.into_iter().flatten().map(|(uid, _)| (uid, None))),
        Err(err) => warn!(err = %Chain(&err), "Could not list pod cgroups"),
    }
    match survey.part("pod log directories", node.ports.log_cleaner.list()).await {
        Ok(pods) => survey.on_disk.extend(pods.into_iter().flatten().map(|pod| (pod.uid.clone(), Some(pod)))),
        Err(err) => warn!(err = %Chain(&err), "Could not list pod log directories"),
    }
    match node.ports.runtime.list().await {
        Ok(pods) => survey.runtime = pods.into_iter().map(|pod| (pod.pod.uid.clone(), pod)).collect(),
        Err(err) => debug!(%err, "Could not list pods"),
    }
    if let Err(err) = survey.part("links to logs", node.ports.log_cleaner.prune_links()).await {
        debug!(err = %Chain(&err), "Could not prune links to logs");
    }
    survey
}

/// Removes dead containers with their logs, and dead sandboxes (GC-07). What could not be removed is an event of the node
/// (GC-06); the next survey finds it again.
#[doc(alias = "containerGC")]
async fn collect(node: &Node, garbage: GcPlan) {
    let mut failures = Vec::new();
    for dead in garbage.containers {
        if let Err(err) = collect_container(node, &dead).await {
            let err = Chain(&err).to_string();
            warn!(pod = %dead.pod, container = %dead.name, err, "Could not remove a dead container and its log");
            failures.push(format!("failed to remove container {}: {err}", dead.id));
        }
    }
    for sandbox in garbage.sandboxes {
        if let Err(err) = crate::runtime::remove_sandbox(node, &sandbox).await {
            warn!(%err, "Could not remove a dead sandbox");
            failures.push(format!("failed to remove sandbox {sandbox}: {err}"));
        }
    }
    if !failures.is_empty() {
        let message = cut(&failures.join(", "), MAX_MESSAGE_BYTES).to_owned();
        let reason = "ContainerGCFailed".into();
        node.ports.events.record_node(NodeEvent { kind: EventKind::Warning, reason, message });
    }
}

async fn collect_container(node: &Node, dead: &GcContainer) -> Result<(), RemoveError> {
    debug!(pod = %dead.pod, container = %dead.name, container_id = %dead.id, "Removing a dead container");
    if dead.stop_first {
        node.ports.runtime.stop_container(&dead.id, Duration::ZERO).await?;
    }
    let (pod, name, id) = (&dead.pod, dead.name.as_str(), &dead.id);
    remove_container(node, DeadContainer { pod, name, id, restart_count: dead.restart_count }).await
}
