//! Metrics of pods and of their jobs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus, Volume};
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::{Cause, Job, Stage, Subject};
use rubelet_core::pod::PodExt;
use rubelet_core::resize::{DEFERRED, INFEASIBLE};
use rubelet_core::time::Instant;
use rubelet_core::volumes::used;

use super::workers::{PodWorker, PodWorkers};
use crate::metrics::{Census, Operation};
use crate::node::Node;
use crate::volumes::plugin_of;

/// Times a pod's start and its jobs.
#[doc(alias = "podStartupLatencyTracker")]
#[derive(Debug)]
pub(super) struct StartupTracker {
    /// The operation label of the next job.
    next: Operation,
    /// The job in flight, and when it began.
    job: Option<(Operation, Instant)>,
    /// The start of the pod was reported, or it started before this process.
    start_counted: bool,
}

impl Default for StartupTracker {
    fn default() -> Self {
        Self { next: Operation::Sync, job: None, start_counted: true }
    }
}

impl StartupTracker {
    /// The tracker of a pod that is new on this node.
    pub(super) fn of(pod: &Pod) -> Self {
        let began = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        Self { next: Operation::Create, job: None, start_counted: began }
    }
}

impl PodWorkers {
    /// A source has another version of the pod.
    pub(super) fn updated(&mut self, uid: &PodUid, pod: &Pod) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if worker.tracker.next == Operation::Sync {
            worker.tracker.next = Operation::Update;
        }
        worker.count_shown(&self.node, pod);
    }

    /// How many unknown pods are ending, and of how many of them the last job failed.
    pub(crate) fn orphans(&self) -> (usize, usize) {
        let orphans = self.workers.values().filter(|worker| worker.life.subject().pod().is_none());
        orphans.fold((0, 0), |(all, failing), worker| (all + 1, failing + usize::from(worker.problem.is_some())))
    }

    /// Counts the workers into `census`; `wanted` says whether a source wants a pod.
    pub(crate) fn count(&self, census: &mut Census, wanted: impl Fn(&PodUid) -> bool) {
        for (uid, worker) in &self.workers {
            if !worker.life.stage().is_past_syncing() {
                let runs = worker.status.phase.as_deref() == Some("Running");
                *(if runs { &mut census.running } else { &mut census.waiting }) += 1;
            }
            let stage = match worker.life.stage() {
                Stage::Waiting | Stage::Syncing { .. } => 0,
                Stage::Terminating { .. } => 1,
                Stage::Terminated { .. } | Stage::Finished => 2,
            };
            if let Some(working) = census.working.get_mut(stage) {
                match worker.life.subject() {
                    Subject::Orphan(_) => working.runtime_only += 1,
                    Subject::Pod(pod) if wanted(uid) => working.desired.add(pod.is_static()),
                    Subject::Pod(pod) => working.orphan.add(pod.is_static()),
                }
            }
            worker.count_volumes(&self.node, census);
            let pending = worker.resize.pending.as_ref().map(|pending| pending.reason.as_str());
            census.deferred += u64::from(pending == Some(DEFERRED));
            census.infeasible += u64::from(pending == Some(INFEASIBLE));
            census.in_progress += u64::from(worker.memory.resize.shown(&worker.resize).is_some());
        }
        for pod in self.active() {
            census.active.add(pod.is_static());
        }
        census.terminations.clone_from(&self.terminations);
    }
}

impl PodWorker {
    /// Counts the pod's volumes, by plugin.
    fn count_volumes(&self, node: &Node, census: &mut Census) {
        let Some(pod) = self.life.subject().pod().filter(|_| !self.released) else { return };
        let wanted = !self.life.stage().is_past_syncing();
        for volume in used(pod) {
            let Some(plugin) = plugin_of(node, volume) else { continue };
            let counts = census.volumes.entry(plugin.name()).or_default();
            counts.desired += u64::from(wanted);
            counts.actual += u64::from(self.memory.set_up.as_ref().is_some_and(|up| up.contains_key(&volume.name)));
        }
    }

    pub(super) fn job_begins(&mut self, node: &Node, job: &Job) {
        let now = node.clock.mono();
        let next = std::mem::replace(&mut self.tracker.next, Operation::Sync);
        let operation = match job {
            Job::Sync => next,
            Job::Terminate { .. } if self.life.stage().cause() == Some(Cause::Deleted) => Operation::Update,
            Job::Terminate { .. } => Operation::Kill,
            Job::CleanUp => Operation::Terminated,
        };
        if operation == Operation::Create {
            let containers = self.life.subject().pod().map_or(0, |pod| pod.regular().len());
            node.metrics.first_job(containers, now.since(self.arrived.mono));
        }
        self.tracker.job = Some((operation, now));
    }

    pub(super) fn job_is_over(&mut self, node: &Node) {
        if let Some((operation, began)) = self.tracker.job.take() {
            node.metrics.job_ended(operation, node.clock.mono().since(began));
        }
    }

    /// Reports how long the pod took to run, if `new` is its first status with phase `Running`.
    pub(super) fn count_running(&self, node: &Node, new: &PodStatus) {
        let is = |status: &PodStatus, phase: &str| status.phase.as_deref() == Some(phase);
        if is(&self.status, "Pending") && is(new, "Running") {
            node.metrics.pod_running(node.clock.mono().since(self.arrived.mono));
        }
    }

    /// Reports how long the start took, once the status in the API shows every container as started: clients see the pod
    /// as started from then on. upstream: util/pod_startup_latency_tracker.go ObservedPodOnWatch (v1.36)
    pub(super) fn count_shown(&mut self, node: &Node, pod: &Pod) {
        let Some(status) = pod.status.as_ref().filter(|_| !self.tracker.start_counted) else { return };
        let containers = status.container_statuses.as_deref().unwrap_or_default();
        if containers.is_empty() || !containers.iter().all(runs) {
            return;
        }
        self.tracker.start_counted = true;
        let Some(made) = pod.metadata.creation_timestamp.as_ref() else { return };
        let took = Duration::try_from(node.clock.wall().duration_since(made.0)).unwrap_or_default();
        let others = self.memory.pulling.saturating_add(in_init(status));
        let volumes = pod.pod_spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let own = (!volumes.iter().any(takes_its_own_time)).then(|| took.saturating_sub(others));
        node.metrics.pod_shown_started(took, own);
        let host_network = pod.pod_spec().and_then(|spec| spec.host_network).unwrap_or_default();
        if let Some(own) = own.filter(|_| !host_network) {
            node.metrics.first_network_pod(own);
        }
    }
}

fn runs(container: &ContainerStatus) -> bool {
    container.state.as_ref().and_then(|state| state.running.as_ref()).is_some_and(|run| run.started_at.is_some())
}

/// How long the init containers ran.
fn in_init(status: &PodStatus) -> Duration {
    let ran = |state: &ContainerState| {
        let ended = state.terminated.as_ref()?;
        let (from, to) = (ended.started_at.as_ref()?, ended.finished_at.as_ref()?);
        Duration::try_from(to.0.duration_since(from.0)).ok()
    };
    status.init_container_statuses.iter().flatten().filter_map(|c| ran(c.state.as_ref()?)).sum()
}

/// Whether mounting the volume may take long. Upstream counts a pod with such a volume as stateful, and leaves it out of
/// its startup SLI.
fn takes_its_own_time(volume: &Volume) -> bool {
    let plain = [
        volume.secret.is_some(),
        volume.config_map.is_some(),
        volume.downward_api.is_some(),
        volume.empty_dir.is_some(),
        volume.projected.is_some(),
    ];
    !plain.contains(&true)
}
