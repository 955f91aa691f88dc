//! The workers of all pods on this node: routes events to the pods' life cycles, starts jobs, and keeps one timer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{Arrival, Cause, Command, Event, Names, PodLifecycle, Stage};
use rubelet_core::plan::ProbeView;
use rubelet_core::pod::{OrphanPod, PodExt};
use rubelet_core::resize::{PodAllocation, ResizeDecision, ResizeProgress};
use rubelet_core::spec_change::spec_changes;
use rubelet_core::time::{Instant, Now};
use rubelet_core::timeline::{Entry, Timeline, Waiting, brief};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use super::counts::StartupTracker;
use super::status::EndStep;
use crate::job::{JobResult, Note, PodMemory};
use crate::metrics::Terminations;
use crate::mirror::Mirrors;
use crate::node::Node;
use crate::ports::StatusReport;
use crate::prober::{ProbeSender, ProbeTrouble};

/// The workers of all pods on this node. Owned by the sync loop; no method but `next_end` and `stop` waits.
#[doc(alias = "podWorkers")]
pub struct PodWorkers {
    pub(super) node: Arc<Node>,
    pub(super) notes: mpsc::Sender<(PodUid, Note)>,
    pub(super) workers: BTreeMap<PodUid, PodWorker>,
    pub(super) names: Names,
    /// The next deadline of each life cycle.
    due: BTreeSet<(Instant, PodUid)>,
    pub(super) jobs: JoinSet<JobResult>,
    pub(super) prober: ProbeSender,
    /// Mirror pods. After a restart, a static pod starts with the status that its mirror pod shows.
    pub(super) mirrors: Arc<Mirrors>,
    /// Actuated resources from before a restart, of pods that have no worker yet.
    pub(super) actuated_before: BTreeMap<PodUid, Arc<PodAllocation>>,
    pub(super) panics: u64,
    /// Containers that have terminated, for metrics.
    pub(super) terminations: Terminations,
}

/// One pod on this node: its life cycle and all the state about it that the sync loop owns.
#[doc(alias = "podWorkerLoop")]
#[doc(alias = "managePodLoop")]
pub(super) struct PodWorker {
    pub(super) life: PodLifecycle,
    /// The memory of the jobs, as last published or returned. Only jobs change it.
    pub(super) memory: PodMemory,
    /// The pod's probe results.
    pub(super) probes: Arc<ProbeView>,
    /// The decision about the pod's resize.
    pub(super) resize: ResizeDecision,
    /// The actuated resources that are recorded on disk.
    pub(super) recorded: Option<Arc<PodAllocation>>,
    /// The status last decided; only [`super::status`] sets it.
    pub(super) status: Arc<PodStatus>,
    /// Cancels the job in flight.
    pub(super) cancel: CancellationToken,
    pub(super) arrived: Now,
    /// What the job in flight waits for, or why the life cycle has not begun.
    pub(super) waiting: Option<Waiting>,
    /// The probe that has to succeed before the pod is ready.
    pub(super) probe_wait: Option<Waiting>,
    /// The probes that fail.
    pub(super) probe_troubles: Vec<ProbeTrouble>,
    pub(super) timeline: Timeline,
    /// Why the last job failed, and since when jobs fail for this reason.
    pub(super) problem: Option<(String, Instant)>,
    /// Volumes are unmounted and the cgroup is removed: the pod may be deleted from the API before its dead containers,
    /// directory and logs are removed.
    pub(super) released: bool,
    /// Callers of `terminate`, and how far the pod's end has to come before they are answered.
    pub(super) waiting_for_end: Vec<(EndStep, oneshot::Sender<()>)>,
    /// The last status report; an equal one is not sent again.
    pub(super) reported: Option<StatusReport>,
    /// When the life cycle finished, if it has.
    over_since: Option<Instant>,
    /// Times the pod's start and its jobs, for metrics.
    pub(super) tracker: StartupTracker,
}

/// Whether a pod's life cycle goes on after an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The life cycle goes on.
    GoesOn,
    /// The life cycle is finished, and a source still wants the pod: its worker stays until the source removes the pod.
    Over(PodUid),
    /// The life cycle is finished and the worker is removed.
    Forgotten(PodUid),
}

impl PodWorkers {
    /// No pods yet.
    pub(crate) fn new(node: Arc<Node>, notes: mpsc::Sender<(PodUid, Note)>, prober: ProbeSender) -> Self {
        Self {
            node,
            notes,
            workers: BTreeMap::new(),
            names: Names::default(),
            due: BTreeSet::new(),
            jobs: JoinSet::new(),
            prober,
            mirrors: Arc::default(),
            actuated_before: BTreeMap::new(),
            panics: 0,
            terminations: Terminations::default(),
        }
    }

    /// A source wants this pod, for the first time or in a newer version.
    #[doc(alias = "UpdatePod")]
    pub fn desired(&mut self, pod: Arc<Pod>, how: Arrival) {
        let reference = PodRef::of(&pod);
        let Some(worker) = self.workers.get(&reference.uid) else {
            self.begin(pod, reference);
            return;
        };
        let uid = &reference.uid;
        // Another pod with the same UID, under another name or from another source: the old pod ends first.
        let another =
            worker.life.subject().pod().is_some_and(|held| {
                PodRef::of(held).full_name() != reference.full_name() || held.source() != pod.source()
            });
        let over = *worker.life.stage() == Stage::Finished;
        if over && (another || how == Arrival::Added) {
            self.forget(uid);
            self.begin(pod, reference);
            return;
        }
        if another {
            self.event(uid, Event::Removed);
            self.event(uid, Event::Desired { pod, how: Arrival::Added });
            return;
        }
        let changes = worker.life.subject().pod().map(|held| spec_changes(held, &pod)).unwrap_or_default();
        if !changes.is_empty() {
            self.happened(uid, format!("The spec changed: {}", changes.join(", ")), false);
        }
        self.updated(uid, &pod);
        self.event(uid, Event::Desired { pod, how });
        // The API object changed, and with no job in flight nothing else would report it: the object may now be deleted.
        if self.workers.get(uid).is_some_and(|worker| worker.reported.is_some()) {
            self.report(uid);
        }
    }

    /// Makes a worker for a pod that has none. Its life cycle begins when its name is free.
    fn begin(&mut self, pod: Arc<Pod>, reference: PodRef) {
        let uid = reference.uid.clone();
        let name = reference.full_name();
        if let Some(other) = self.names.other_pod(&name, &uid).cloned() {
            self.orphan(OrphanPod { pod: other });
            self.event(&uid, Event::Desired { pod, how: Arrival::Added });
            return;
        }
        let life = PodLifecycle::new(Arc::clone(&pod), self.node.settings.pace);
        let actuated = self.actuated_before.remove(&uid);
        let mut worker = self.worker(life, self.status_before(&pod), actuated);
        worker.tracker = StartupTracker::of(&pod);
        self.workers.insert(uid.clone(), worker);
        self.happened(
            &uid,
            format!("Accepted from {}", pod.source().map_or("an unknown source", |s| s.as_str())),
            false,
        );
        if pod.is_static() {
            self.names.join(&name, &uid);
        }
        if pod.is_deleted() || pod.is_terminal() {
            self.event(&uid, Event::Desired { pod, how: Arrival::Updated });
            return;
        }
        self.offer_name(&uid);
    }

    fn worker(&self, life: PodLifecycle, before: PodStatus, actuated: Option<Arc<PodAllocation>>) -> PodWorker {
        PodWorker {
            life,
            memory: PodMemory::new(ResizeProgress::of(&before), actuated.clone(), self.node.settings.crash_backoff),
            probes: Arc::default(),
            resize: ResizeDecision::of(&before),
            recorded: actuated,
            status: Arc::new(before),
            cancel: CancellationToken::new(),
            arrived: self.node.clock.now(),
            waiting: None,
            probe_wait: None,
            probe_troubles: Vec::new(),
            timeline: Timeline::default(),
            problem: None,
            released: false,
            waiting_for_end: Vec::new(),
            reported: None,
            over_since: None,
            tracker: StartupTracker::default(),
        }
    }

    /// Ends an unknown pod, and removes everything that it has on the node.
    pub fn orphan(&mut self, orphan: OrphanPod) {
        let (uid, name) = (orphan.pod.uid.clone(), orphan.pod.full_name());
        if self.workers.contains_key(&uid) {
            return;
        }
        info!(pod = %orphan.pod, "Found a pod that no source asks for: ending it");
        self.node.metrics.orphan_found();
        let now = self.node.clock.mono();
        let (life, commands) = PodLifecycle::orphan(orphan, self.node.settings.pace, now);
        let worker = self.worker(life, PodStatus::default(), None);
        self.workers.insert(uid.clone(), worker);
        // The orphan holds its name until it has ended: another pod of that name waits.
        self.names.hold(&name, &uid);
        self.happened(&uid, "Found here, though no source asks for it", false);
        self.carry_out(&uid, commands);
    }

    /// Ends a finished pod again if a container of it runs: a call whose answer was lost took effect late. `seen` is when
    /// the container was seen; a list from before the end of the pod does not count.
    pub fn end_again(&mut self, uid: &PodUid, seen: Instant) {
        let over = |w: &&mut PodWorker| w.over_since.is_some_and(|since| since < seen);
        let Some(worker) = self.workers.get_mut(uid).filter(over) else { return };
        let now = self.node.clock.mono();
        let (life, commands) = worker.life.clone().end_again(now);
        worker.life = life;
        worker.over_since = None;
        worker.released = false;
        info!(pod = %worker.life.subject().reference(), "Something runs of a pod that has ended: ending it again");
        self.happened(uid, "Something of it runs again, though it has ended", true);
        self.carry_out(uid, commands);
    }

    /// No source wants the pod any more. If its life cycle is finished, its worker is removed.
    pub fn removed(&mut self, uid: &PodUid) -> Outcome {
        let over = self.workers.get(uid).is_some_and(|w| *w.life.stage() == Stage::Finished);
        if over {
            self.forget(uid);
            return Outcome::Forgotten(uid.clone());
        }
        self.event(uid, Event::Removed);
        Outcome::GoesOn
    }

    /// Steps the life cycle of one pod with one event, and carries out the commands that follow.
    pub fn event(&mut self, uid: &PodUid, event: Event) {
        let now = self.node.clock.mono();
        let jitter = self.node.ports.rng.fraction();
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if let Some(due) = worker.life.next_deadline() {
            self.due.remove(&(due, uid.clone()));
        }
        let before = worker.life.stage().word();
        let commands = worker.life.step(event, now, jitter);
        if let Some(due) = worker.life.next_deadline() {
            self.due.insert((due, uid.clone()));
        }
        let after = worker.life.stage().clone();
        if before != after.word() {
            self.stage_changed(uid, &after);
        }
        self.carry_out(uid, commands);
    }

    /// Logs the new stage, updates the prober and the status, and answers those who wait for the pod to stop.
    fn stage_changed(&mut self, uid: &PodUid, stage: &Stage) {
        let what = match stage {
            Stage::Terminating { grace, ending, .. } => {
                format!("Ending ({}), with {} s of grace", cause_word(ending.cause), grace.get().as_secs())
            }
            Stage::Waiting | Stage::Syncing { .. } => return,
            Stage::Terminated { .. } => "All containers have stopped".to_owned(),
            Stage::Finished => "Cleaned up".to_owned(),
        };
        if let Some(worker) = self.workers.get(uid) {
            info!(pod = %worker.life.subject().reference(), stage = stage.word(), "{what}");
        }
        self.happened(uid, what, false);
        self.update_prober(uid);
        let Some(worker) = self.workers.get_mut(uid) else { return };
        match stage {
            Stage::Terminated { .. } => {
                worker.answer_waiting();
                self.write_status(uid);
            }
            Stage::Finished => {
                worker.answer_waiting();
                self.write_status(uid);
            }
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => {}
        }
    }

    fn carry_out(&mut self, uid: &PodUid, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Start(job) => self.start(uid, job),
                Command::Cancel => {
                    if let Some(worker) = self.workers.get(uid) {
                        worker.cancel.cancel();
                    }
                }
                Command::Finish => {}
            }
        }
    }

    /// Handles the result of a job. `wanted` says whether a source still wants the pod.
    #[doc(alias = "completeWork")]
    pub(crate) fn job_ended(&mut self, result: JobResult, wanted: bool) -> Outcome {
        let JobResult { uid, end, memory, problem } = result;
        let now = self.node.clock.mono();
        let problem = problem.map(|text| brief(&text));
        if let Some(worker) = self.workers.get_mut(&uid) {
            worker.job_is_over(&self.node);
            let pod = worker.life.subject().reference();
            debug!(%pod, ?end, "A job ended");
            if let Some(memory) = memory {
                worker.set_memory(memory);
            } else {
                self.panics += 1;
                error!(%pod, "The job on this pod panicked");
            }
            worker.waiting = None;
            let before = worker.problem.take();
            worker.problem = problem.clone().map(|text| match before {
                Some((old, since)) if old == text => (old, since),
                Some(_) | None => {
                    info!(%pod, problem = %text, "Will try again");
                    (text, now)
                }
            });
        }
        if let Some(problem) = problem {
            self.happened(&uid, problem, true);
        }
        self.event(&uid, Event::Done(end));
        self.update_prober(&uid);
        let over = self.workers.get(&uid).is_some_and(|w| *w.life.stage() == Stage::Finished);
        self.report(&uid);
        if !over {
            return Outcome::GoesOn;
        }
        self.leave_name(&uid);
        if let Some(worker) = self.workers.get_mut(&uid) {
            worker.over_since = Some(now);
            self.node.ended.note(worker.ended(self.node.clock.wall()));
        }
        let recreated = self.workers.get(&uid).and_then(|w| w.life.clone().into_recreated());
        if recreated.is_none() && wanted {
            return Outcome::Over(uid);
        }
        self.forget(&uid);
        if let Some(pod) = recreated {
            self.node.metrics.pod_restarted(pod.is_static());
            let reference = PodRef::of(&pod);
            self.begin(pod, reference);
        }
        Outcome::Forgotten(uid)
    }

    /// Removes the worker.
    fn forget(&mut self, uid: &PodUid) {
        self.leave_name(uid);
        self.prober.gone(uid);
        self.node.status.forget(uid);
        if let Some(worker) = self.workers.remove(uid)
            && let Some(due) = worker.life.next_deadline()
        {
            self.due.remove(&(due, uid.clone()));
        }
    }

    /// Handles a note of a job in flight.
    pub(crate) fn note(&mut self, uid: &PodUid, note: Note) {
        let now = self.node.clock.now();
        let Some(worker) = self.workers.get_mut(uid) else { return };
        match note {
            Note::Step { what } => worker.waiting = Some(Waiting { what, since: now.mono, until: None }),
            Note::Happened { what, took, bad } => {
                worker.timeline.add(Entry { at: now.wall, first: now.wall, what, times: 1, took, bad });
            }
            Note::Released => {
                worker.released = true;
                worker.answer_waiting();
                self.write_status(uid);
                self.report(uid);
            }
            Note::Learned { memory, status } => {
                worker.set_memory(*memory);
                self.write_status(uid);
                self.update_prober(uid);
                if let Some(worker) = self.workers.get(uid) {
                    let _job_is_gone = status.send(Arc::clone(&worker.status));
                }
            }
        }
    }

    /// Adds an entry to the pod's timeline.
    pub(super) fn happened(&mut self, uid: &PodUid, what: impl Into<String>, bad: bool) {
        self.note(uid, Note::Happened { what: what.into(), took: None, bad });
    }

    /// The earliest deadline of all life cycles.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Steps every life cycle whose deadline has come.
    pub fn deadline(&mut self, now: Instant) {
        while let Some((at, uid)) = self.due.first().cloned()
            && at <= now
        {
            self.due.pop_first();
            self.event(&uid, Event::Deadline);
        }
    }

    /// Lets every pod be looked at now.
    pub fn hint_all(&mut self) {
        let uids: Vec<PodUid> = self.workers.keys().cloned().collect();
        for uid in uids {
            self.event(&uid, Event::Hint);
        }
    }

    /// How many jobs panicked since the start.
    pub fn panics(&self) -> u64 {
        self.panics
    }
}

impl PodWorker {
    /// Replaces the memory by that of a job. Equal actuated resources share one allocation with the recorded ones.
    fn set_memory(&mut self, memory: PodMemory) {
        self.memory = memory;
        if let (Some(recorded), Some(actuated)) = (&self.recorded, &mut self.memory.actuated)
            && !Arc::ptr_eq(recorded, actuated)
            && recorded == actuated
        {
            *actuated = Arc::clone(recorded);
        }
    }
}

fn cause_word(cause: Cause) -> &'static str {
    match cause {
        Cause::Deleted => "deleted",
        Cause::Removed => "its source no longer has it",
        Cause::Ended => "its containers have ended for good",
        Cause::Evicted => "evicted",
        Cause::NodeShutdown => "the machine shuts down",
        Cause::Orphaned => "no source asks for it",
    }
}
