//! The status of a pod. It is decided and set here and nowhere else, from the loop's state and the jobs' memory, and then
//! handed to the status writer.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::eviction::EVICTED;
use rubelet_core::id::{FullName, PodRef, PodUid};
use rubelet_core::lifecycle::{Cause, Ending, Event, Stage};
use rubelet_core::pod::PodExt;
use rubelet_core::status::{EndReason, adopt, foreign_conditions, is_settled, is_terminal, pod_status};
use rubelet_core::time::Instant;
use tokio::sync::oneshot;
use tracing::debug;

use super::workers::{PodWorker, PodWorkers};
use crate::job::PodSnapshot;
use crate::metrics::Terminations;
use crate::mirror::Mirrors;
use crate::node::Node;
use crate::ports::{EndProgress, StatusReport};

/// How far a pod's end has to come before those are answered who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndStep {
    /// No container runs, nor will one.
    Stopped,
    /// Its volumes are unmounted, and the files of its own ones removed.
    Unmounted,
    /// The life cycle has finished: dead containers and logs are removed too, unless the pod keeps them.
    Removed,
}

impl PodWorkers {
    /// Decides the status of the pod, and writes it if it has changed.
    pub(super) fn write_status(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if worker.decide_status(&self.node, &mut self.terminations) {
            self.report(uid);
        }
    }

    /// Hands the decided status to the status writer, unless the last report says the same.
    pub(super) fn report(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let Some(pod) = worker.life.subject().pod() else { return };
        let (status, progress) = (Arc::clone(&worker.status), worker.end_progress());
        let report = StatusReport { pod: Arc::clone(pod), status, progress };
        if worker.reported.as_ref().is_some_and(|before| before.says_the_same_as(&report)) {
            return;
        }
        worker.reported = Some(report.clone());
        self.node.status.report(report);
    }

    /// The status in the API changed. If it differs from ours, ours is written again (SRC-08). The pod is looked at only if
    /// another client changed the condition of a readiness gate.
    #[doc(alias = "NeedToReconcilePodReadiness")]
    pub fn reconcile(&mut self, pod: Arc<Pod>) {
        let uid = PodRef::of(&pod).uid;
        let Some(worker) = self.workers.get_mut(&uid) else { return };
        worker.reported = None;
        worker.count_shown(&self.node, &pod);
        let gated =
            pod.pod_spec().and_then(|spec| spec.readiness_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
        let held = worker.life.subject().pod();
        let moved = gated && held.is_some_and(|held| !foreign_conditions(held).eq(foreign_conditions(&pod)));
        self.event(&uid, Event::Refreshed { pod });
        if moved {
            self.event(&uid, Event::Hint);
        }
        self.report(&uid);
    }

    /// The status from before a restart: that of the pod itself, or, for a static pod, that of its mirror pod.
    pub(super) fn status_before(&self, pod: &Pod) -> PodStatus {
        let own = pod.status.clone().unwrap_or_default();
        match self.mirrors.mirror_of(pod).and_then(|mirror| mirror.status.as_ref()) {
            Some(shown) => adopt(&own, shown),
            None => own,
        }
    }

    /// Sets the mirror pods. A mirror pod that is new here shows the status of its static pod from before a restart.
    pub(crate) fn set_mirrors(&mut self, mirrors: &Arc<Mirrors>) {
        let before = std::mem::replace(&mut self.mirrors, Arc::clone(mirrors));
        let mut taken = Vec::new();
        for (uid, worker) in &mut self.workers {
            let Some(pod) = worker.life.subject().pod().filter(|pod| pod.is_static()) else { continue };
            let Some(mirror) = mirrors.mirror_of(pod).filter(|_| before.mirror_of(pod).is_none()) else { continue };
            worker.take_over(&self.node, mirror, &mut self.terminations);
            taken.extend(worker.reported.is_some().then(|| uid.clone()));
        }
        // Before the mirrors are published: a status that was decided without the mirror pod must not be written to it.
        for uid in taken {
            self.report(&uid);
        }
    }

    /// A static pod of this name has a worker, or an orphan of this name, which may have been a static pod.
    pub(crate) fn has_static_named(&self, name: &FullName) -> bool {
        self.workers.values().any(|worker| {
            let subject = worker.life.subject();
            subject.pod().is_none_or(|pod| pod.is_static()) && subject.reference().full_name() == *name
        })
    }

    /// The static pod that has this name. Another version of it waits until this one has ended (WORK-08).
    pub(crate) fn static_pod_named(&self, name: &FullName) -> Option<&Arc<Pod>> {
        let worker = self.workers.get(self.names.holder(name)?)?;
        worker.life.subject().pod().filter(|pod| pod.is_static())
    }

    /// Ends a pod for a reason of the node, such as preemption, and writes that reason to its status.
    #[doc(alias = "killPodNow")]
    pub(crate) fn terminate(&mut self, uid: &PodUid, ending: Ending, grace: Option<Duration>) {
        self.event(uid, Event::Kill { ending, grace });
        self.write_status(uid);
    }

    /// Sends `reply` when the end of the pod has come as far as `until`: at once if it has, or if there is no such pod.
    pub(crate) fn when_at(&mut self, until: EndStep, uid: &PodUid, reply: oneshot::Sender<()>) {
        match self.workers.get_mut(uid) {
            Some(worker) if worker.end_step() < Some(until) => worker.waiting_for_end.push((until, reply)),
            Some(_) | None => _ = reply.send(()),
        }
    }

    /// Whether the node needed the resources of this pod, which has ended: nothing of it is kept (GC-02, LOOP-08).
    pub(crate) fn was_evicted(&self, uid: &PodUid) -> bool {
        let reason = self.workers.get(uid).and_then(|worker| worker.status.reason.as_deref());
        reason.is_some_and(|reason| reason == EVICTED || reason == EndReason::preempted().reason)
    }

    /// Whether a shutdown of the machine ends this pod, or has ended it.
    pub(crate) fn ended_by_shutdown(&self, uid: &PodUid) -> bool {
        let Some(worker) = self.workers.get(uid) else { return false };
        match worker.life.stage() {
            Stage::Terminating { ending, .. } | Stage::Terminated { ending, .. } => ending.cause == Cause::NodeShutdown,
            Stage::Finished => worker.status.reason.as_deref() == Some(&EndReason::node_shutdown().reason),
            Stage::Waiting | Stage::Syncing { .. } => false,
        }
    }
}

impl PodWorker {
    /// Answers those who wait for what the pod's end has come to.
    pub(super) fn answer_waiting(&mut self) {
        let reached = self.end_step();
        let (over, rest) =
            std::mem::take(&mut self.waiting_for_end).into_iter().partition(|(until, _)| Some(*until) <= reached);
        self.waiting_for_end = rest;
        let over: Vec<(EndStep, oneshot::Sender<()>)> = over;
        over.into_iter().for_each(|(_, reply)| _ = reply.send(()));
    }

    /// A copy of the loop's state of the pod.
    pub(super) fn snapshot(&self, now: Instant) -> PodSnapshot {
        let stage = self.life.stage();
        PodSnapshot {
            subject: self.life.subject().clone(),
            probes: Arc::clone(&self.probes),
            resize: self.resize.clone(),
            end: self.end_progress(),
            ending: stage.ending().cloned(),
            grace: stage.grace_left(now),
            status: Arc::clone(&self.status),
        }
    }

    /// `None` while containers may run.
    fn end_step(&self) -> Option<EndStep> {
        match self.life.stage() {
            Stage::Finished => Some(EndStep::Removed),
            Stage::Terminated { .. } if self.released => Some(EndStep::Unmounted),
            Stage::Terminated { .. } => Some(EndStep::Stopped),
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => None,
        }
    }

    fn end_progress(&self) -> EndProgress {
        match self.life.stage() {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => EndProgress::MayRun,
            Stage::Terminated { .. } if self.released => EndProgress::Finished,
            Stage::Terminated { .. } => EndProgress::Stopped,
            Stage::Finished => EndProgress::Finished,
        }
    }

    /// Decides the status, and returns whether it has changed. Before the first look it stays as it was in the API.
    fn decide_status(&mut self, node: &Node, terminations: &mut Terminations) -> bool {
        let snapshot = self.snapshot(node.clock.mono());
        let (Some(pod), Some(seen)) = (snapshot.subject.pod(), &self.memory.seen) else { return false };
        let is_final = self.reported.as_ref().is_some_and(|written| written.progress == EndProgress::Finished);
        if is_final && snapshot.end == EndProgress::Finished {
            return false;
        }
        let new = if is_settled(pod) {
            // The API shows a final status: it is not decided again.
            if is_terminal(&self.status) {
                return false;
            }
            pod.status.clone().unwrap_or_default()
        } else {
            let progress = self.memory.resize.shown(&snapshot.resize);
            let now = node.now();
            let inputs = snapshot.inputs(node, &now, pod, &self.memory, progress.as_deref());
            pod_status(&inputs, seen, &self.status, node.clock.wall())
        };
        if new == *self.status {
            return false;
        }
        let phase = new.phase.as_deref().unwrap_or_default();
        debug!(pod = %snapshot.subject.reference(), phase, "The status changed");
        self.count_running(node, &new);
        terminations.count(&self.status, &new);
        self.status = Arc::new(new);
        true
    }

    /// Adopts the status that the mirror pod shows, so that a restart of the agent makes no running container unready.
    fn take_over(&mut self, node: &Node, mirror: &Pod, terminations: &mut Terminations) {
        let Some(shown) = &mirror.status else { return };
        // A probe result since the restart is newer than the mirror pod's status.
        if !self.probes.readiness.is_empty() || !self.probes.startup.is_empty() {
            return;
        }
        self.status = Arc::new(adopt(&self.status, shown));
        if let Stage::Syncing { .. } = self.life.stage() {
            self.decide_status(node, terminations);
        }
    }
}
