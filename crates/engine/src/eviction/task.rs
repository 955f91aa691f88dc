//! The evictor's task.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as ApiNode;
use rubelet_core::eviction::{
    Candidate, Decision, EvictionState, MemoryMark, Observations, Recalled, Reclaim, Starved, Threshold, Victim,
    has_local_limit, marks, over_limit, pause, pod_stats, rank, victim_of_limit, victim_of_threshold,
};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::node::Pressure;
use rubelet_core::time::Instant;
use rubelet_core::usage::NodeUsage;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::EvictionParts;
use super::handle::{EvictionView, Trend};
use super::look::{Looks, Purpose};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::ports::{EventKind, Events, NodeEvent, PodEvent, PressureEvents, Reclaimer, UsageReader};
use crate::sync_loop::SyncLoopHandle;

/// How long a pod has to stop and to be cleaned up before the next look. upstream: eviction_manager.go podCleanupTimeout (v1.36)
const CLEAN_UP: Duration = Duration::from_secs(30);
/// The shortest time between two looks, however often the kernel wakes us.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How often the disks of pods with limits of their own are measured. upstream: `volumeStatsAggPeriod`, a minute (v1.36)
const LIMITS_PERIOD: Duration = Duration::from_secs(60);
/// How long the first look waits for the node's object, which shows the conditions from before a restart.
const RECALL: Duration = Duration::from_secs(1);
/// How long freeing disk space may take before pods end instead.
const RECLAIM: Duration = Duration::from_secs(30);

/// The rest of the node, as this task sees it.
pub(crate) struct World {
    pub(crate) sync_loop: SyncLoopHandle,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// The node's object, on a node in a cluster.
    pub(crate) object: Option<watch::Receiver<Option<Arc<ApiNode>>>>,
    /// What the node is short of.
    pub(crate) pressure: watch::Sender<Option<Pressure>>,
    /// What people see.
    pub(crate) view: watch::Sender<Option<Arc<EvictionView>>>,
    /// Memory of the machine in bytes.
    pub(crate) memory: u64,
}

/// The task.
#[doc(alias = "managerImpl")]
pub(crate) struct Evictor {
    state: EvictionState,
    looks: Looks,
    wakes: Arc<dyn PressureEvents>,
    reclaim: Arc<dyn Reclaimer>,
    world: World,
    before: Observations,
    trend: Trend,
    marks: Vec<MemoryMark>,
    /// Pods that were asked to end and had not ended in time: the next round takes another.
    stuck: BTreeSet<PodUid>,
    /// When limits on local storage are checked next.
    limits_due: Instant,
    problem: Option<String>,
}

/// How long a runtime may take to free what a removed container had: containerd collects layers in the background. It is the
/// time after which upstream's kubelet looks again.
const FREED_WITHIN: Duration = Duration::from_secs(10);
/// How often the disk is looked at meanwhile.
const FREED_YET: Duration = Duration::from_millis(500);

/// What a round led to.
enum Round {
    /// Look again after this.
    Rest(Duration),
    /// Something was freed: look again at once.
    Again,
}

/// What came of a threshold that is met.
enum Relief {
    /// A pod has ended, or was asked to.
    PodEnded,
    /// The threshold is no longer met, though no pod has ended.
    Enough,
    /// Nothing can be done now.
    None,
}

impl Evictor {
    pub(crate) fn new(
        parts: EvictionParts,
        (usage, reclaim): (Arc<dyn UsageReader>, Arc<dyn Reclaimer>),
        world: World,
    ) -> Self {
        let EvictionParts { policy, page_cache, wakes, .. } = parts;
        Self {
            state: EvictionState::new(policy),
            looks: Looks::new(usage, world.clock.clone(), world.memory, page_cache),
            wakes,
            reclaim,
            world,
            before: Observations::default(),
            trend: Trend::default(),
            marks: Vec::new(),
            stuck: BTreeSet::new(),
            limits_due: Instant::START,
            problem: None,
        }
    }

    /// Runs until cancelled. A pod that was asked to end ends all the same: the sync loop has it.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let _cancelled = cancel.run_until_cancelled(self.work()).await;
        cancel.cancelled().await;
    }

    async fn work(&mut self) {
        self.recall().await;
        loop {
            let pause = match self.round().await {
                Round::Again => continue,
                Round::Rest(pause) => pause,
            };
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let due = self.world.clock.mono() + pause.saturating_sub(BETWEEN_LOOKS);
            tokio::select! {
                biased;
                () = self.wakes.filled(&self.marks) => debug!("Woken: memory fills up"),
                () = self.world.clock.sleep_until(Some(due)) => {}
            }
        }
    }

    /// Takes over the conditions of the node's object, so that a restart does not end them early.
    async fn recall(&mut self) {
        let Some(object) = &mut self.world.object else { return };
        let Ok(Ok(node)) = tokio::time::timeout(RECALL, object.wait_for(Option::is_some)).await else { return };
        let now = self.world.clock.now();
        let conditions = node.as_deref().map(|node| Recalled::of(node, now)).unwrap_or_default();
        self.state.recall(&conditions, now.mono);
    }

    #[doc(alias = "synchronize")]
    async fn round(&mut self) -> Round {
        let used = self.wakes.used().await;
        let look = match self.looks.look(Purpose::Watch).await {
            Ok(look) => look,
            Err(err) => {
                self.complain(format!("the node cannot be measured: {err}"));
                return Round::Rest(pause(std::iter::empty(), &Observations::default()));
            }
        };
        let now = self.world.clock.mono();
        let decision = self.state.step(&look.seen, now);
        self.marks = marks(self.state.thresholds(), &look.seen, used);
        self.publish(&look.seen, decision.pressure);
        if self.end_those_over_limits(now).await {
            return Round::Again;
        }
        match decision.starved.first() {
            Some(threshold) => match self.relieve(threshold, &decision).await {
                Relief::PodEnded => return Round::Again,
                // A threshold that is met has no mark that would wake us: the next look makes one, or acts.
                Relief::Enough => return Round::Rest(BETWEEN_LOOKS),
                Relief::None => {}
            },
            None => self.problem = None,
        }
        let rest = pause(self.state.thresholds(), &self.before);
        Round::Rest(decision.due.map_or(rest, |due| rest.min(due.since(now))))
    }

    fn publish(&mut self, seen: &Observations, pressure: Pressure) {
        let thresholds = self.state.thresholds().cloned();
        let now = self.world.clock.now();
        let view = EvictionView::new(now, pressure, thresholds, seen, &self.trend);
        self.trend.note(seen, now.mono);
        self.before = seen.clone();
        self.world.view.send_replace(Some(Arc::new(view)));
        self.world.pressure.send_if_modified(|known| {
            let changed = *known != Some(pressure);
            *known = Some(pressure);
            changed
        });
    }

    /// Frees what can be freed, then ends one pod if that was not enough.
    async fn relieve(&mut self, threshold: &Threshold, decision: &Decision) -> Relief {
        let resource = threshold.signal.resource();
        info!(signal = %threshold.signal, %resource, "The node is short of a resource: attempting to reclaim it");
        self.world.events.record_node(NodeEvent {
            kind: EventKind::Warning,
            reason: "EvictionThresholdMet".into(),
            message: format!("Attempting to reclaim {resource}"),
        });
        let reclaimed = self.reclaim(threshold).await;
        // Weighing pods takes another look, which also shows what was freed meanwhile.
        let purpose = match resource {
            Starved::Memory => Purpose::WeighMemory,
            Starved::EphemeralStorage | Starved::Inodes => Purpose::WeighDisks,
            Starved::Pids => Purpose::WeighProcesses,
        };
        let look = match self.looks.look(purpose).await {
            Ok(look) => look,
            Err(err) => {
                self.complain(format!("the usage of pods cannot be measured: {err}"));
                return Relief::None;
            }
        };
        if EvictionState::is_relieved(threshold, &look.seen) {
            info!(signal = %threshold.signal, reclaimed, "Enough was freed without ending a pod");
            return Relief::Enough;
        }
        let Some(mut candidates) = self.candidates(&look.usage).await else { return Relief::None };
        rank(threshold.signal, self.state.layout(), &mut candidates);
        let observed = look.seen.get(threshold.signal);
        for starved in &decision.starved {
            if let Some(seen) = look.seen.get(starved.signal) {
                self.world
                    .metrics
                    .decisions()
                    .eviction_stats_age(starved.signal.as_str(), self.world.clock.mono().since(seen.at));
            }
        }
        match victim_of_threshold(&candidates, threshold, observed, self.state.policy().max_pod_grace) {
            Some(victim) => {
                self.problem = None;
                self.end(vec![victim], resource).await;
                if matches!(resource, Starved::EphemeralStorage | Starved::Inodes) {
                    self.until_freed(threshold).await;
                }
                Relief::PodEnded
            }
            None => {
                self.complain(format!("the node is short of {resource}, and no pod can be evicted"));
                Relief::None
            }
        }
    }

    /// Waits until the disk has enough room, or for as long as what the last pod had may still be on its way out.
    async fn until_freed(&mut self, threshold: &Threshold) {
        let until = self.world.clock.mono() + FREED_WITHIN;
        while self.world.clock.mono() < until {
            let look = self.looks.look(Purpose::Watch).await;
            if look.is_ok_and(|look| EvictionState::is_relieved(threshold, &look.seen)) {
                return;
            }
            tokio::time::sleep(FREED_YET).await;
        }
    }

    /// Whether anything was asked to free disk space.
    async fn reclaim(&self, threshold: &Threshold) -> bool {
        let ways = self.state.reclaims(threshold.signal);
        for way in ways {
            let freeing = async {
                match way {
                    Reclaim::DeadContainers => self.reclaim.dead_containers().await,
                    Reclaim::UnusedImages => self.reclaim.unused_images().await,
                }
            };
            match tokio::time::timeout(RECLAIM, freeing).await {
                Ok(Ok(())) => {}
                Ok(Err(err)) => warn!(%err, ?way, "Could not free everything"),
                Err(_) => warn!(?way, "Freeing disk space takes too long"),
            }
        }
        !ways.is_empty()
    }

    /// The pods that may end, with what they use. Pods of which nothing runs are left out: their end frees nothing.
    async fn candidates(&mut self, usage: &NodeUsage) -> Option<Vec<Candidate>> {
        let active = self.world.sync_loop.active().await?;
        let weighed = active.pods.into_iter().filter_map(|pod| {
            let stats = pod_stats(&pod, usage)?;
            Some(Candidate { pod, stats: Some(stats) })
        });
        let all: Vec<Candidate> = weighed.collect();
        let here = |uid: &PodUid| all.iter().any(|one| PodRef::of(&one.pod).uid == *uid);
        self.stuck.retain(here);
        Some(all.into_iter().filter(|one| !self.stuck.contains(&PodRef::of(&one.pod).uid)).collect())
    }

    /// Ends pods above a limit of their own; whether there were any. Disks of pods are measured only if such a limit is set.
    #[doc(alias = "localStorageEviction")]
    async fn end_those_over_limits(&mut self, now: Instant) -> bool {
        if !self.state.policy().local_limits || now < self.limits_due {
            return false;
        }
        self.limits_due = now + LIMITS_PERIOD;
        let Some(active) = self.world.sync_loop.active().await else { return false };
        if !active.pods.iter().any(|pod| has_local_limit(pod)) {
            return false;
        }
        let look = match self.looks.look(Purpose::WeighDisks).await {
            Ok(look) => look,
            Err(err) => {
                self.complain(format!("the disks of pods cannot be measured: {err}"));
                return false;
            }
        };
        let Some(candidates) = self.candidates(&look.usage).await else { return false };
        let layout = self.state.layout();
        let over = candidates.into_iter().filter_map(|Candidate { pod, stats }| {
            let limit = over_limit(&pod, &stats?, layout)?;
            victim_of_limit(&pod, limit)
        });
        let over: Vec<Victim> = over.collect();
        let any = !over.is_empty();
        self.end(over, Starved::EphemeralStorage).await;
        any
    }

    /// Ends pods, and waits until nothing of them is left of what the node is short of, but not for ever: of a disk writable
    /// layers and logs as well, or the next look would take another pod for bytes that are about to be freed.
    #[doc(alias = "evictPod")]
    async fn end(&mut self, victims: Vec<Victim>, short_of: Starved) {
        let mut ends = tokio::task::JoinSet::new();
        let mut asked = BTreeSet::new();
        for victim in victims {
            let name = PodRef::of(&victim.pod);
            warn!(pod = %name, uid = %name.uid, signal = victim.signal, grace = ?victim.grace, "Evicting a pod: {}", victim.message);
            self.world.metrics.decisions().evicted(victim.signal);
            let (ending, grace) = (victim.ending(), victim.grace);
            self.world.events.record(PodEvent {
                pod: victim.pod,
                field_path: None,
                kind: EventKind::Warning,
                reason: rubelet_core::eviction::EVICTED.into(),
                message: victim.message,
                annotations: victim.annotations,
            });
            asked.insert(name.uid.clone());
            let (sync_loop, uid) = (self.world.sync_loop.clone(), name.uid);
            ends.spawn(crate::task::timed("eviction-end", async move {
                // `None` if the loop has ended: then nobody is left to wait for.
                let _ended = match short_of {
                    Starved::EphemeralStorage | Starved::Inodes => {
                        sync_loop.terminate_and_remove(uid.clone(), ending, Some(grace)).await
                    }
                    Starved::Memory | Starved::Pids => {
                        sync_loop.terminate_and_unmount(uid.clone(), ending, Some(grace)).await
                    }
                };
                uid
            }));
        }
        let all = async {
            while let Some(ended) = ends.join_next().await {
                if let Ok(uid) = ended {
                    debug!(%uid, "The evicted pod has ended");
                    asked.remove(&uid);
                }
            }
        };
        if tokio::time::timeout(CLEAN_UP, all).await.is_err() {
            warn!(pods = asked.len(), "Evicted pods have not ended within {CLEAN_UP:?}");
        }
        self.stuck.append(&mut asked);
    }

    /// Logs a problem once, until it has passed or is another one.
    fn complain(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            warn!("Eviction: {problem}");
            self.problem = Some(problem);
        }
    }
}
