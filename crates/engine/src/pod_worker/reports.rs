//! What pods report of themselves, and what they take over from what was reported before.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::admit::preempted;
use rubelet_core::id::{FullName, PodRef, PodUid};
use rubelet_core::lifecycle::{Cause, Event, Stage};
use rubelet_core::pod::PodExt;
use rubelet_core::status::{Ending, adopt, finish, foreign_conditions, is_settled};

use super::sync_pod::decide;
use super::workers::{PodWorker, PodWorkers};
use crate::mirror::Mirrors;
use crate::node::Node;
use crate::ports::{EndProgress, StatusReport};

impl PodWorkers {
    pub(super) fn report(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let Some(pod) = worker.life.subject().pod() else { return };
        let progress = match worker.life.stage() {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => EndProgress::MayRun,
            Stage::Terminated { .. } if worker.released => EndProgress::Finished,
            Stage::Terminated { .. } => EndProgress::Stopped,
            Stage::Finished => EndProgress::Finished,
        };
        let status = Arc::clone(&worker.memory.status);
        let report = StatusReport { pod: Arc::clone(pod), status, progress };
        if worker.reported.as_ref().is_some_and(|before| before.says_the_same_as(&report)) {
            return;
        }
        worker.reported = Some(report.clone());
        self.node.status.report(report);
    }

    /// The API server shows another status of the pod than before. Ours is told again, should it not be ours (SRC-08);
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

    /// The status of a pod that is new here, as it was told before we started: by the pod itself, or by its mirror.
    pub(super) fn status_before(&self, pod: &Pod) -> PodStatus {
        let own = pod.status.clone().unwrap_or_default();
        match self.mirrors.mirror_of(pod).and_then(|mirror| mirror.status.as_ref()) {
            Some(shown) => adopt(&own, shown),
            None => own,
        }
    }

    /// Takes in which mirrors there are. One that was not known before says what was told of its pod before we started.
    pub(crate) fn set_mirrors(&mut self, mirrors: &Arc<Mirrors>) {
        let before = std::mem::replace(&mut self.mirrors, Arc::clone(mirrors));
        let mut taken = Vec::new();
        for (uid, worker) in &mut self.workers {
            let Some(pod) = worker.life.subject().pod().filter(|pod| pod.is_static()) else { continue };
            let Some(mirror) = mirrors.mirror_of(pod).filter(|_| before.mirror_of(pod).is_none()) else { continue };
            worker.shown_before = Some(Arc::clone(mirror));
            worker.take_over(&self.node);
            // What a job in flight decides, it decides without this.
            if worker.life.job().is_none() {
                worker.shown_before = None;
            }
            taken.extend(worker.reported.is_some().then(|| uid.clone()));
        }
        // Before the mirror is told of to others: what was said without it must not reach it.
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

    /// Ends a pod to make room for a critical one (ADM-31).
    pub(crate) fn preempt(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        worker.preempted = true;
        worker.apply_preemption();
        self.event(uid, Event::Kill { cause: Cause::Evicted, grace: None });
        self.report(uid);
    }

    /// Nothing is left of the pod: what is still open in its status is closed (STAT-10).
    pub(super) fn last_word(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let Some(pod) = worker.life.subject().pod().filter(|pod| !is_settled(pod)) else { return };
        let mut status = (*worker.memory.status).clone();
        finish(pod, &mut status);
        if status != *worker.memory.status {
            worker.memory.status = Arc::new(status);
        }
    }
}

impl PodWorker {
    /// Takes over what the mirror says of the instances that run: a restart of ours turns nobody unready.
    pub(super) fn take_over(&mut self, node: &Node) {
        let Some(shown) = self.shown_before.as_ref().and_then(|mirror| mirror.status.as_ref()) else { return };
        let Some(pod) = self.life.subject().pod() else { return };
        // A probe has spoken since: that counts.
        let probes = &self.memory.probes;
        if !probes.readiness.is_empty() || !probes.startup.is_empty() {
            return;
        }
        self.memory.status = Arc::new(adopt(&self.memory.status, shown));
        if let (Some(seen), Stage::Syncing { .. }) = (&self.memory.seen, self.life.stage()) {
            self.memory.status = Arc::new(decide(node, pod, &self.memory, seen, Ending::No));
        }
    }

    pub(super) fn apply_preemption(&mut self) {
        let Some(pod) = self.life.subject().pod().filter(|_| self.preempted) else { return };
        let mut status = (*self.memory.status).clone();
        preempted(pod, &mut status);
        self.memory.status = Arc::new(status);
    }
}
