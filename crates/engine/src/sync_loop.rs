//! The sync loop: one task that handles deliveries of pod sources, hints of the runtime, notes and results of jobs, probe
//! results, deadlines and requests.
//!
//! The loop owns the desired pods and the pod workers, so its decisions need no lock and no copy. It never waits for a
//! pod: long work is a job, and the job's result is an event. While the runtime is down the loop dispatches nothing
//! (LOOP-02), but it still answers requests and handles the results of jobs.

mod admission;
mod enforcement;
mod handle;
mod housekeeping;
mod mirrors;
mod resizes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::desired::{Delta, DeltaOp, DesiredPods};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle;
use rubelet_core::pod::{PodExt, Source};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use handle::{ActivePods, KnownPod, NodeView, SyncLoopHandle};

use crate::allocations::Allocations;
use crate::job::{JobResult, Note};
use crate::metrics::{Census, Trigger};
use crate::mirror::Mirrors;
use crate::node::Node;
use crate::node_now::NodeNow;
use crate::pleg::{Listing, PlegNews};
use crate::pod_worker::{Outcome, PodWorkers};
use crate::ports::{BadPod, Delivery, EventKind};
use crate::prober::{ProbeNews, ProberLine};
use crate::task::TaskGroup;
use admission::AdmissionBatch;
use handle::{PodKey, Request};
use housekeeping::{Chore, ChoreEnd, Housekeeping, Survey};

/// How many deliveries of pod sources may queue (SRC-09).
pub const DELIVERIES: usize = 50;
/// How many hints may queue (LOOP-01).
pub const HINTS: usize = 1000;
/// How many notes of jobs may queue; a job waits while the queue is full.
const NOTES: usize = 256;
/// How many requests may queue.
const REQUESTS: usize = 32;
/// Requests come after the loop's own events, but a request waits for at most this many of them: a node that is busy for
/// long still answers, and `/healthz` can distinguish a busy loop from one that hangs.
const EVENTS_BEFORE_A_REQUEST: u32 = 8;
/// How long the shutdown waits for jobs in flight.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The task, with all the state that it owns.
#[doc(alias = "Kubelet")]
pub struct SyncLoop {
    node: Arc<Node>,
    desired: DesiredPods,
    workers: PodWorkers,
    rejected: BTreeMap<PodUid, Rejected>,
    /// The allocation of each pod, and the pending admissions and resizes.
    allocations: Allocations,
    /// Publishes which static pods and mirror pods there are; `None` without an API server.
    mirrors: Option<watch::Sender<Arc<Mirrors>>>,
    /// The invalid pods in the last delivery of each source.
    bad: BTreeMap<Source, Vec<BadPod>>,
    housekeeping: Housekeeping,
    /// The last list of the runtime's pods; `None` before the first relist.
    listing: Option<Arc<Listing>>,
    inputs: Inputs,
    /// When the loop last handled an event; `/healthz` reads it.
    beat: watch::Sender<Instant>,
    /// Whether the runtime was well at the last change of the node.
    well: bool,
    /// The node's addresses at its last change.
    ips: Arc<[IpAddr]>,
    /// Events since the last request was answered.
    since_request: u32,
}

/// The arguments of [`SyncLoop::new`].
pub(crate) struct SyncLoopParts {
    pub(crate) node: Arc<Node>,
    /// All pod sources. Before each of them has delivered, the loop removes nothing.
    pub(crate) sources: Vec<Source>,
    pub(crate) deliveries: mpsc::Receiver<Delivery>,
    pub(crate) pleg: mpsc::Receiver<PlegNews>,
    pub(crate) prober: ProberLine,
    /// Publishes which static pods and mirror pods there are; `None` without an API server.
    pub(crate) mirrors: Option<watch::Sender<Arc<Mirrors>>>,
    /// Pods that use an object that has changed; `None` without an API server.
    pub(crate) object_changes: Option<mpsc::Receiver<PodUid>>,
}

struct Inputs {
    deliveries: mpsc::Receiver<Delivery>,
    pleg: mpsc::Receiver<PlegNews>,
    probes: mpsc::Receiver<ProbeNews>,
    /// Pods that use an object that has changed.
    objects: Option<mpsc::Receiver<PodUid>>,
    notes: mpsc::Receiver<(PodUid, Note)>,
    requests: mpsc::Receiver<Request>,
    now: watch::Receiver<Arc<NodeNow>>,
}

/// A pod that admission rejected.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its status: `Failed`, with the reason.
    pub status: Arc<PodStatus>,
}

enum Event {
    Shutdown,
    Delivery(Delivery),
    Pleg(PlegNews),
    Probed(ProbeNews),
    ObjectChanged(PodUid),
    Note(PodUid, Note),
    JobEnded(Box<JobResult>),
    ChoreEnded(ChoreEnd),
    Request(Request),
    NodeChanged,
    Due,
}

/// The next pod whose objects changed; waits for ever without an API server. Cancel-safe, as `recv` is.
async fn next_change(objects: &mut Option<mpsc::Receiver<PodUid>>) -> Option<PodUid> {
    match objects {
        Some(objects) => objects.recv().await,
        None => std::future::pending().await,
    }
}

impl SyncLoop {
    /// Makes the loop and its handle.
    pub(crate) fn new(parts: SyncLoopParts) -> (Self, SyncLoopHandle) {
        let SyncLoopParts { node, sources, deliveries, pleg, prober, mirrors, object_changes } = parts;
        let (note, notes) = mpsc::channel(NOTES);
        let (ask, requests) = mpsc::channel(REQUESTS);
        let (beat, beats) = watch::channel(node.clock.mono());
        let now = node.now.clone();
        let ips = Arc::clone(&now.borrow().ips);
        let this = Self {
            desired: DesiredPods::sources(sources),
            workers: PodWorkers::new(Arc::clone(&node), note, prober.sender),
            rejected: BTreeMap::new(),
            allocations: Allocations::default(),
            mirrors,
            bad: BTreeMap::new(),
            housekeeping: Housekeeping::new(node.clock.mono()),
            listing: None,
            inputs: Inputs { deliveries, pleg, probes: prober.news, objects: object_changes, notes, requests, now },
            beat,
            well: false,
            ips,
            since_request: 0,
            node,
        };
        (this, SyncLoopHandle::new(ask, beats))
    }

    /// Runs until cancelled. No container is stopped then (RST-18).
    #[doc(alias = "syncLoop")]
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut checkpoints = TaskGroup::new(&cancel);
        let (allocations, actuated, writer) = Allocations::load(Arc::clone(&self.node.ports.checkpoints)).await;
        self.allocations = allocations;
        self.workers.set_actuated_before(actuated);
        checkpoints.start("resources-on-disk", writer.run(self.node.clock.clone(), checkpoints.cancel_token()));
        loop {
            let event = self.next_event(&cancel).await;
            self.beat.send_replace(self.node.clock.mono());
            if matches!(event, Event::Shutdown) {
                break;
            }
            self.handle(event);
        }
        // Closes the queue of notes: otherwise a job that waits for room in it would not end.
        drop(self.inputs);
        self.workers.stop(STOP_PATIENCE).await;
        checkpoints.stop().await;
    }

    /// Waits for the next event. Every arm is cancel-safe: `recv`, `changed`, `join_next`, a clock.
    #[doc(alias = "syncLoopIteration")]
    async fn next_event(&mut self, cancel: &CancellationToken) -> Event {
        let up = self.inputs.now.borrow().runtime.up;
        let due = [
            self.workers.next_deadline().filter(|_| up),
            self.housekeeping.due(up),
            self.admissions_due(),
            self.allocations.resizes_due(),
        ];
        let due = due.into_iter().flatten().min();
        if self.since_request >= EVENTS_BEFORE_A_REQUEST
            && !cancel.is_cancelled()
            && let Ok(request) = self.inputs.requests.try_recv()
        {
            self.since_request = 0;
            return Event::Request(request);
        }
        self.since_request = self.since_request.saturating_add(1);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Event::Shutdown,
            Ok(()) = self.inputs.now.changed() => Event::NodeChanged,
            Some((uid, note)) = self.inputs.notes.recv() => Event::Note(uid, note),
            result = self.workers.next_end() => Event::JobEnded(Box::new(result)),
            end = self.housekeeping.next_end() => Event::ChoreEnded(end),
            Some(news) = self.inputs.probes.recv(), if up => Event::Probed(news),
            Some(delivery) = self.inputs.deliveries.recv(), if up && self.listing.is_some() => Event::Delivery(delivery),
            Some(news) = self.inputs.pleg.recv(), if up => Event::Pleg(news),
            Some(uid) = next_change(&mut self.inputs.objects), if up => Event::ObjectChanged(uid),
            () = self.node.clock.sleep_until(due) => Event::Due,
            // Last: a request of a client never comes before the pods.
            Some(request) = self.inputs.requests.recv() => {
                self.since_request = 0;
                Event::Request(request)
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Shutdown => {}
            Event::Delivery(delivery) => self.deliver(delivery),
            Event::Pleg(PlegNews::Hint(hint)) => self.workers.event(&hint.uid, lifecycle::Event::Hint),
            Event::Pleg(PlegNews::Listed(listing)) => self.listed(listing),
            Event::Probed(news) => self.workers.probed(news),
            Event::ObjectChanged(uid) => self.workers.event(&uid, lifecycle::Event::DependencyChanged),
            Event::Note(uid, note) => self.workers.note(&uid, note),
            Event::JobEnded(result) => self.job_ended(*result),
            Event::ChoreEnded(end) => self.chore_ended(end),
            Event::Request(request) => self.answer(request),
            Event::NodeChanged => {
                let now = Arc::clone(&self.inputs.now.borrow_and_update());
                let was_well = std::mem::replace(&mut self.well, now.runtime.is_well());
                let moved = std::mem::replace(&mut self.ips, Arc::clone(&now.ips)) != now.ips;
                // A runtime that is well again, even after a short failure, and new node addresses concern every pod.
                // Other changes count from the next admission or launch on.
                if self.well && (!was_well || moved) {
                    self.workers.hint_all();
                }
            }
            Event::Due => self.due(),
        }
    }

    /// Handles a delivery: the whole set of pods that a source wants (sections 2 and 3).
    fn deliver(&mut self, delivery: Delivery) {
        self.note_bad(delivery.source, delivery.bad);
        let changes = self.desired.deliver(delivery.source, delivery.pods, self.node.clock.now());
        for duplicate in &changes.duplicates {
            let message = duplicate.message();
            warn!(pod = %PodRef::of(&duplicate.pod), "{message}");
            self.record(&duplicate.pod, EventKind::Warning, "FailedValidation", message);
        }
        if changes.first_delivery {
            info!(source = changes.source.as_str(), pods = changes.deltas.len(), "A source has been read");
            self.housekeeping.soon(self.node.clock.mono());
        }
        // Most deliveries only bring back a status that this node has written. Going through all pods for each of them
        // would make the cost of one pod grow with the number of the others.
        let mirrored = |pod: &Pod| pod.is_mirror() || pod.is_static();
        let mirrors_changed = changes.first_delivery || changes.deltas.iter().any(|delta| mirrored(&delta.pod));
        let static_changed = changes.deltas.iter().any(|delta| delta.pod.is_static());
        let pods_changed = changes.deltas.iter().any(|delta| delta.op != DeltaOp::Reconcile);
        if mirrors_changed {
            // Before the deltas are handled: a static pod starts with the status that its mirror pod shows.
            self.publish_mirrors();
        }
        let mut batch = AdmissionBatch::default();
        let mut changes = changes;
        self.put_admitted_first(&mut changes.deltas);
        let trigger = match changes.deltas.iter().map(|delta| delta.op).min_by_key(|op| match op {
            DeltaOp::Add => 0,
            DeltaOp::Update | DeltaOp::Delete | DeltaOp::Reconcile => 1,
            DeltaOp::Remove => 2,
        }) {
            Some(DeltaOp::Add) => Trigger::PodsAdded,
            Some(DeltaOp::Remove) => Trigger::PodsRemoved,
            Some(DeltaOp::Update | DeltaOp::Delete | DeltaOp::Reconcile) | None => Trigger::PodUpdated,
        };
        for delta in changes.deltas {
            // A mirror pod only shows a static pod in the API: it has no containers of its own.
            if delta.pod.is_mirror() || (delta.op != DeltaOp::Remove && self.is_shadowed(&delta.pod)) {
                continue;
            }
            match delta.op {
                DeltaOp::Add => self.add(delta.pod, &mut batch),
                DeltaOp::Update | DeltaOp::Delete => self.update(delta.pod),
                DeltaOp::Reconcile => self.reconcile(delta.pod),
                DeltaOp::Remove => self.remove(&delta.pod),
            }
        }
        if static_changed {
            // A static pod that had ended before it was removed has left its name to another version.
            self.publish_mirrors();
        }
        self.decide_resizes(trigger);
        if pods_changed {
            self.housekeeping.pods_changed(&self.node, &self.workers);
        }
    }

    /// Moves additions of pods that run here, or that were admitted before, to the front: after a restart their resources
    /// must not be allocated to a pod that does not run yet. Stable, so that priority and age decide among equals.
    fn put_admitted_first(&self, deltas: &mut [Delta]) {
        deltas.sort_by_cached_key(|delta| {
            let uid = PodRef::of(&delta.pod).uid;
            (delta.op, delta.op == DeltaOp::Add && !self.is_here(&uid))
        });
    }

    /// A source of higher rank has another pod of the same UID. The runtime identifies pods by their UID, so only one of
    /// the two can run.
    fn is_shadowed(&self, pod: &Arc<Pod>) -> bool {
        let uid = PodRef::of(pod).uid;
        let Some(owner) = self.desired.get(&uid).filter(|owner| owner.source() != pod.source()) else { return false };
        let message =
            format!("Pod {} of another source has the same UID {:?}, ignoring", PodRef::of(owner), uid.as_str());
        warn!(pod = %PodRef::of(pod), "{message}");
        self.record(pod, EventKind::Warning, "FailedValidation", message);
        true
    }

    /// Logs pods that have become invalid, and pods that are invalid no longer.
    fn note_bad(&mut self, source: Source, bad: Vec<BadPod>) {
        let before = self.bad.insert(source, bad.clone()).unwrap_or_default();
        for one in bad.iter().filter(|one| !before.contains(one)) {
            warn!(origin = %one.origin, problem = %one.problem, "Not a pod that can be run: leaving it out");
        }
        for one in before.iter().filter(|one| !bad.iter().any(|b| b.origin == one.origin)) {
            info!(origin = %one.origin, "No longer a problem");
        }
    }

    /// Handles a new list of the runtime's pods: names that unknown pods hold may have become free, or taken.
    fn listed(&mut self, listing: Arc<Listing>) {
        let running = listing.values().filter(|pod| pod.is_running() && self.is_unknown(&pod.pod.uid));
        let running: Vec<PodRef> = running.map(|pod| pod.pod.clone()).collect();
        let any_unknown = listing.keys().any(|uid| self.is_unknown(uid));
        self.workers.set_unknown(running);
        self.listing = Some(listing);
        if any_unknown {
            self.housekeeping.soon(self.node.clock.mono());
        }
    }

    fn is_unknown(&self, uid: &PodUid) -> bool {
        !self.workers.knows(uid) && !self.is_wanted(uid)
    }

    /// A source wants the pod, and admission has not rejected it.
    fn is_wanted(&self, uid: &PodUid) -> bool {
        self.desired.get(uid).is_some() && !self.rejected.contains_key(uid)
    }

    fn job_ended(&mut self, result: JobResult) {
        let uid = result.uid.clone();
        let wanted = self.is_wanted(&uid);
        match self.workers.job_ended(result, wanted) {
            Outcome::GoesOn => self.record_actuated(&uid),
            Outcome::Over(_) | Outcome::Forgotten(_) => {
                self.release(&uid);
                self.report_rejected(&uid, None);
                self.publish_mirrors();
                self.housekeeping.pods_changed(&self.node, &self.workers);
                self.housekeeping.soon(self.node.clock.mono());
            }
        }
        self.retry_admissions();
        self.housekeeping.job_ended(self.workers.are_resting(), &self.node);
        // The job may have released resources, or completed a resize (RSZ-04).
        let lives = self.workers.stage(&uid).is_some_and(|stage| !stage.is_past_syncing());
        self.retry_resizes(if lives { Trigger::PodResized } else { Trigger::PodTerminated });
    }

    /// Records the actuated resources of a pod on disk, unless they are recorded already.
    fn record_actuated(&mut self, uid: &PodUid) {
        if let Some(mut actuated) = self.workers.unrecorded(uid) {
            self.allocations.actuated(uid, &mut actuated);
            self.workers.recorded(uid, actuated);
        }
    }

    fn due(&mut self) {
        let now = self.node.clock.mono();
        self.workers.deadline(now);
        if self.allocations.resizes_due().is_some_and(|due| due <= now) {
            self.retry_resizes(Trigger::Periodic);
        }
        if self.admissions_due().is_some_and(|due| due <= now) {
            self.retry_admissions();
        }
        // Until every source has been read, a source may yet want a pod that none has delivered (SRC-10, TRAP-03).
        if self.housekeeping.is_due(now) {
            self.housekeeping.look_at_node_cgroups(&self.node);
            if self.desired.all_sources_seen() {
                self.end_unwanted();
                // Both are computed anew from all pods: this repairs what a missed change left behind.
                self.publish_mirrors();
                self.housekeeping.pods_changed(&self.node, &self.workers);
                self.release_leftovers();
                self.housekeeping.start(Chore::Survey, &self.node);
            } else {
                self.housekeeping.postpone(now);
            }
        }
    }

    /// Ends pods that their source removed while another source had not been read (HK-02).
    #[doc(alias = "SyncKnownPods")]
    fn end_unwanted(&mut self) {
        let unwanted: Vec<PodUid> = self.workers.uids().filter(|uid| !self.is_wanted(uid)).cloned().collect();
        for uid in unwanted {
            self.workers.removed(&uid);
        }
    }

    #[doc(alias = "HandlePodCleanups")]
    fn chore_ended(&mut self, end: ChoreEnd) {
        match end {
            ChoreEnd::Surveyed(survey) => self.surveyed(&survey),
            ChoreEnd::LevelsSet(values) => self.housekeeping.levels_set(values, &self.node),
            ChoreEnd::LookedAtNode(look) => self.housekeeping.looked_at_node(&look, &self.node),
            ChoreEnd::Collected => self.housekeeping.collected(),
            ChoreEnd::Done => {}
        }
    }

    fn surveyed(&mut self, survey: &Survey) {
        for orphan in survey.unknown_pods(|uid| self.is_unknown(uid)) {
            self.workers.orphan(orphan);
        }
        for uid in survey.running() {
            self.workers.end_again(uid, survey.began);
        }
        let garbage = survey.garbage(&self.node, &self.workers);
        self.housekeeping.surveyed(survey, &self.node);
        if !garbage.is_empty() {
            self.housekeeping.start(Chore::Collect(garbage), &self.node);
        }
    }

    fn census(&self) -> Census {
        let mut census = Census::default();
        for pod in self.desired.pods() {
            census.desired.add(pod.is_static());
            census.ephemeral += u64::try_from(pod.ephemeral().len()).unwrap_or_default();
        }
        census.mirrors = u64::try_from(self.desired.mirrors().count()).unwrap_or_default();
        self.workers.count(&mut census, |uid| self.is_wanted(uid));
        census
    }

    fn known_pod(&self, key: &PodKey) -> Option<KnownPod> {
        let rejected = |found: &Rejected| KnownPod {
            reference: PodRef::of(&found.pod),
            pod: Arc::clone(&found.pod),
            status: Arc::clone(&found.status),
        };
        match key {
            PodKey::Uid(uid) => self.workers.known(uid).or_else(|| self.rejected.get(uid).map(rejected)),
            PodKey::Name { namespace, name } => self.workers.known_by_name(namespace, name).or_else(|| {
                let named = |found: &&Rejected| {
                    let metadata = &found.pod.metadata;
                    metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
                };
                self.rejected.values().find(named).map(rejected)
            }),
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::View(reply) => {
                let mut pods: Vec<_> = self.workers.views().collect();
                pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
                let view = NodeView {
                    pods,
                    rejected: self.rejected.values().cloned().collect(),
                    bad: self.bad.values().flatten().cloned().collect(),
                    runtime: self.node.now().runtime.clone(),
                    unread_sources: self.desired.sources_missing().collect(),
                    now: self.node.clock.now(),
                    job_panics: self.workers.panics(),
                    longest_hold_up: self.node.metrics.polls().longest(),
                };
                let _gone = reply.send(view);
            }
            Request::Pod(key, reply) => {
                let _gone = reply.send(self.known_pod(&key));
            }
            Request::Census(reply) => {
                let _gone = reply.send(self.census());
            }
            Request::Terminate { uid, ending, grace, until, reply } => {
                self.workers.terminate(&uid, ending, grace);
                self.workers.when_at(until, &uid, reply);
            }
            Request::Active(reply) => {
                let active = self.workers.using_resources().filter(|(uid, _)| self.is_wanted(uid));
                let pods = active.map(|(_, pod)| Arc::clone(pod)).collect();
                let _gone = reply.send(ActivePods { pods, all_sources_seen: self.desired.all_sources_seen() });
            }
            Request::Resume(reply) => {
                self.resume_static_pods();
                let _gone = reply.send(());
            }
        }
    }
}
