//! What the sync loop's handle shows of each pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use rubelet_core::ended::EndedPod;
use rubelet_core::hash::backoff_key;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Stage;
use rubelet_core::observe::PodObservation;
use rubelet_core::pod::PodExt;
use rubelet_core::reason::WaitingReason;
use rubelet_core::time::{Instant, Now};
use rubelet_core::timeline::{Timeline, Waiting};

use super::workers::{PodWorker, PodWorkers};
use crate::prober::ProbeTrouble;
use crate::sync_loop::KnownPod;

/// A copy of a worker's state, for `rubelet explain` and the server's pages.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Namespace, name and UID.
    pub pod: PodRef,
    /// The pod, unless it is an orphan.
    pub spec: Option<Arc<Pod>>,
    /// The stage of its life cycle.
    pub stage: Stage,
    /// The status last decided.
    pub status: Arc<PodStatus>,
    /// When a source first wanted it.
    pub arrived: Now,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// With no job in flight, when the next job starts even without an event.
    pub next_look: Option<Instant>,
    /// Why the last job failed, if it did.
    pub problem: Option<String>,
    /// The last steps.
    pub timeline: Timeline,
    /// How many jobs in a row failed.
    pub failures: u32,
    /// The probes that fail.
    pub probe_troubles: Vec<ProbeTrouble>,
    /// How long the crash loop back-off of each container still lasts, by name.
    pub next_starts: BTreeMap<String, Duration>,
    /// The last look at the runtime.
    pub seen: Option<Arc<PodObservation>>,
}

impl PodWorkers {
    /// Whether this pod has a worker.
    pub fn knows(&self, uid: &PodUid) -> bool {
        self.workers.contains_key(uid)
    }

    /// The stage of this pod.
    pub fn stage(&self, uid: &PodUid) -> Option<&Stage> {
        self.workers.get(uid).map(|w| w.life.stage())
    }

    /// The UIDs of all workers.
    pub fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.workers.keys()
    }

    /// Pods that are neither terminating nor ended: these count for the QoS cgroups.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.workers.values().filter(|w| !w.life.stage().is_past_syncing()).filter_map(|w| w.life.subject().pod())
    }

    /// Pods that use the node's resources: all but those that have stopped.
    pub fn using_resources(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        let uses = |stage: &Stage| match stage {
            Stage::Waiting | Stage::Syncing { .. } | Stage::Terminating { .. } => true,
            Stage::Terminated { .. } | Stage::Finished => false,
        };
        let using = self.workers.iter().filter(move |(_, worker)| uses(worker.life.stage()));
        using.filter_map(|(uid, worker)| Some((uid, worker.life.subject().pod()?)))
    }

    /// Views of all pods.
    pub fn views(&self) -> impl Iterator<Item = WorkerView> {
        let now = self.node.clock.wall();
        self.workers.values().map(move |worker| worker.view(now))
    }

    /// The pod of this UID, unless it is an orphan.
    pub fn known(&self, uid: &PodUid) -> Option<KnownPod> {
        self.workers.get(uid).and_then(PodWorker::known)
    }

    /// Every pod but for orphans.
    pub fn all_known(&self) -> impl Iterator<Item = KnownPod> {
        self.workers.values().filter_map(PodWorker::known)
    }

    /// The pod of this name, unless it is an orphan; of several, the one that arrived last. Compares names without
    /// allocating, so that the search stays cheap on a node with many pods.
    pub fn known_by_name(&self, namespace: &str, name: &str) -> Option<KnownPod> {
        let named = |pod: &Arc<Pod>| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        };
        let found = self.workers.values().filter(|worker| worker.life.subject().pod().is_some_and(named));
        found.max_by_key(|worker| worker.arrived.mono).and_then(PodWorker::known)
    }
}

impl PodWorker {
    fn known(&self) -> Option<KnownPod> {
        let subject = self.life.subject();
        let pod = Arc::clone(subject.pod()?);
        Some(KnownPod { reference: subject.reference(), pod, status: Arc::clone(&self.status) })
    }

    pub(super) fn view(&self, now: Timestamp) -> WorkerView {
        WorkerView {
            pod: self.life.subject().reference(),
            spec: self.life.subject().pod().cloned(),
            stage: self.life.stage().clone(),
            status: Arc::clone(&self.status),
            arrived: self.arrived,
            waiting: self.waiting.clone().or_else(|| self.planned_wait()).or_else(|| self.open_probe()),
            next_look: self.life.next_deadline().filter(|_| self.life.job().is_none()),
            problem: self.problem.as_ref().map(|(text, _)| text.clone()),
            timeline: self.timeline.clone(),
            failures: self.life.failures(),
            probe_troubles: self.probe_troubles.clone(),
            next_starts: self.next_starts(now),
            seen: self.memory.seen.clone(),
        }
    }

    /// What is remembered of the pod once it has ended.
    pub(super) fn ended(&self, now: Timestamp) -> EndedPod {
        let pod = self.life.subject().reference();
        EndedPod {
            ended: now,
            arrived: self.arrived.wall,
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            status: (*self.status).clone(),
            timeline: self.timeline.entries().cloned().collect(),
        }
    }

    fn next_starts(&self, now: Timestamp) -> BTreeMap<String, Duration> {
        let (Some(pod), Some(seen)) = (self.life.subject().pod(), &self.memory.seen) else { return BTreeMap::new() };
        let reference = self.life.subject().reference();
        let left = |container: &Container| {
            let image = container.image.as_deref().unwrap_or_default();
            let key = backoff_key(&reference, &container.name, image, container.resources.as_ref());
            let ended = seen.instances(&container.name).find_map(|c| c.state.exit())?;
            self.memory.crashes.wait_left(&key, ended.finished_at, now)
        };
        let waits = |c: &&Container| {
            let reason = self.memory.failures.get(&c.name).map(|failure| failure.reason);
            reason == Some(WaitingReason::CrashLoopBackOff)
        };
        let all = pod.init().iter().chain(pod.regular()).filter(waits);
        all.filter_map(|c| Some((c.name.clone(), left(c)?))).collect()
    }

    /// After a failed job, the wait for the next one.
    fn planned_wait(&self) -> Option<Waiting> {
        let until = self.life.next_deadline();
        let (problem, since) = self.problem.as_ref()?;
        let since = *since;
        (self.life.job().is_none()).then(|| Waiting { what: format!("the next try, after: {problem}"), since, until })
    }
}
