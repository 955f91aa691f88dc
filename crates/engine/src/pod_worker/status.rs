//! The status of a pod. It is decided and set here and nowhere else, from what the loop knows and what jobs have
//! published, and then written through the port.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::{FullName, PodRef, PodUid};
use rubelet_core::lifecycle::{Ending, Event, Stage};
use rubelet_core::pod::PodExt;
use rubelet_core::status::{adopt, foreign_conditions, is_settled, is_terminal, pod_status};
use rubelet_core::time::Instant;
use tokio::sync::oneshot;
use tracing::debug;

use super::workers::{PodWorker, PodWorkers};
use crate::job::PodSnapshot;
use crate::mirror::Mirrors;
use crate::node::Node;
use crate::ports::{EndProgress, StatusReport};

impl PodWorkers {
    /// Decides the status of the pod from all that is known of it now, and writes it if it has changed.
    pub(super) fn write_status(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if worker.decide_status(&self.node) {
            self.report(uid);
        }
    }

    /// Writes the status that was decided, unless that was done.
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

    /// The API server shows another status of the pod than before. Ours is written again, should it not be ours (SRC-08);
    /// only a readiness gate that others moved is a reason to look at the pod.
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

    /// The status of a pod that is new here, as it was written before we started: to the pod itself, or to its mirror.
    pub(super) fn status_before(&self, pod: &Pod) -> PodStatus {
        let own = pod.status.clone().unwrap_or_default();
        match self.mirrors.mirror_of(pod).and_then(|mirror| mirror.status.as_ref()) {
            Some(shown) => adopt(&own, shown),
            None => own,
        }
    }

    /// Takes in which mirrors there are. One that was not known before shows the status from before we started.
    pub(crate) fn set_mirrors(&mut self, mirrors: &Arc<Mirrors>) {
        let before = std::mem::replace(&mut self.mirrors, Arc::clone(mirrors));
        let mut taken = Vec::new();
        for (uid, worker) in &mut self.workers {
            let Some(pod) = worker.life.subject().pod().filter(|pod| pod.is_static()) else { continue };
            let Some(mirror) = mirrors.mirror_of(pod).filter(|_| before.mirror_of(pod).is_none()) else { continue };
            worker.take_over(&self.node, mirror);
            taken.extend(worker.reported.is_some().then(|| uid.clone()));
        }
        // Before others learn of the mirror: a status that was decided without it must not reach it.
        for uid in taken {
            self.report(&uid);
        }
    }

    /// A static pod of this name has a life here.
    pub(crate) fn has_static_named(&self, name: &FullName) -> bool {
        self.workers.values().any(|worker| {
            let subject = worker.life.subject();
            subject.pod().is_none_or(|pod| pod.is_static()) && subject.reference().full_name() == *name
        })
    }

    /// Ends a pod for the node's own reasons, which its status tells from now on.
    #[doc(alias = "killPodNow")]
    pub(crate) fn terminate(&mut self, uid: &PodUid, ending: Ending, grace: Option<Duration>) {
        self.event(uid, Event::Kill { ending, grace });
        self.write_status(uid);
    }

    /// Sends when no container of the pod runs: at once if that is so, or if there is no such pod.
    pub(crate) fn when_stopped(&mut self, uid: &PodUid, waiter: oneshot::Sender<()>) {
        match self.workers.get_mut(uid) {
            Some(worker) if worker.end_progress() == EndProgress::MayRun => worker.waiting_for_stop.push(waiter),
            Some(_) | None => _ = waiter.send(()),
        }
    }
}

impl PodWorker {
    /// What the loop knows of the pod now.
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

    fn end_progress(&self) -> EndProgress {
        match self.life.stage() {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => EndProgress::MayRun,
            Stage::Terminated { .. } if self.released => EndProgress::Finished,
            Stage::Terminated { .. } => EndProgress::Stopped,
            Stage::Finished => EndProgress::Finished,
        }
    }

    /// Answers whether the status has changed. Before the first look it stays as it was found.
    fn decide_status(&mut self, node: &Node) -> bool {
        let snapshot = self.snapshot(node.clock.mono());
        let (Some(pod), Some(seen)) = (snapshot.subject.pod(), &self.memory.seen) else { return false };
        let is_final = self.reported.as_ref().is_some_and(|written| written.progress == EndProgress::Finished);
        if is_final && snapshot.end == EndProgress::Finished {
            return false;
        }
        let new = if is_settled(pod) {
            // A status that others were shown as final is not decided anew.
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
        self.status = Arc::new(new);
        true
    }

    /// Takes over what the mirror shows of the instances that run: a restart of ours turns nobody unready.
    fn take_over(&mut self, node: &Node, mirror: &Pod) {
        let Some(shown) = &mirror.status else { return };
        // A probe has answered since: that counts.
        if !self.probes.readiness.is_empty() || !self.probes.startup.is_empty() {
            return;
        }
        self.status = Arc::new(adopt(&self.status, shown));
        if let Stage::Syncing { .. } = self.life.stage() {
            self.decide_status(node);
        }
    }
}
