//! What others may know of each pod.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Stage;
use rubelet_core::time::{Instant, Now};

use super::workers::{PodWorker, PodWorkers};
use crate::timeline::{Timeline, Waiting};

/// What others may know of a pod.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Names.
    pub pod: PodRef,
    /// The pod, unless it is an orphan.
    pub spec: Option<Arc<Pod>>,
    /// Where it is.
    pub stage: Stage,
    /// Its status.
    pub status: Arc<PodStatus>,
    /// When it came.
    pub arrived: Now,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// With no job in flight, when it is looked at next with no event: a back-off ends then at the latest.
    pub next_look: Option<Instant>,
    /// What went wrong last, until it goes right.
    pub problem: Option<String>,
    /// What happened.
    pub timeline: Timeline,
    /// Jobs in a row that failed.
    pub failures: u32,
}

impl PodWorkers {
    /// Whether this pod has a life here, or had one and is still wanted.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.workers.contains_key(uid)
    }

    /// Where this pod is.
    pub fn stage(&self, uid: &PodUid) -> Option<&Stage> {
        self.workers.get(uid).map(|w| w.life.stage())
    }

    /// Every UID that has a life here.
    pub fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.workers.keys()
    }

    /// Pods that are not on their way out: what admission and QoS count.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.workers.values().filter(|w| !w.life.stage().is_past_syncing()).filter_map(|w| w.life.subject().pod())
    }

    /// Pods that use the node's resources: all but those that have stopped.
    pub fn using_resources(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let uses = |stage: &Stage| match stage {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => true,
            Stage::Terminated { .. } | Stage::Finished => false,
        };
        self.workers.values().filter(move |w| uses(w.life.stage())).filter_map(|w| w.life.subject().pod())
    }

    /// What others may know of each pod.
    pub fn views(&self) -> impl Iterator<Item = WorkerView> {
        self.workers.values().map(PodWorker::view)
    }
}

impl PodWorker {
    pub(super) fn view(&self) -> WorkerView {
        WorkerView {
            pod: self.life.subject().reference(),
            spec: self.life.subject().pod().cloned(),
            stage: self.life.stage().clone(),
            status: Arc::clone(&self.memory.status),
            arrived: self.arrived,
            waiting: self.waiting.clone().or_else(|| self.planned_wait()).or_else(|| self.open_probe()),
            next_look: self.life.next_deadline().filter(|_| self.life.job().is_none()),
            problem: self.problem.as_ref().map(|(text, _)| text.clone()),
            timeline: self.timeline.clone(),
            failures: self.life.failures(),
        }
    }

    /// With no job in flight and something wrong, what is waited for is the next try.
    fn planned_wait(&self) -> Option<Waiting> {
        let until = self.life.next_deadline();
        let (problem, since) = self.problem.as_ref()?;
        let since = *since;
        (self.life.job().is_none()).then(|| Waiting { what: format!("the next try, after: {problem}"), since, until })
    }
}
