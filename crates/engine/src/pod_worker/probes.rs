//! What pods and the prober tell each other.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::{Event, Stage};
use rubelet_core::status::Ending;

use super::sync_pod::decide;
use super::workers::{PodWorker, PodWorkers};
use crate::prober::{ProbeNews, ProbeTargets};
use crate::timeline::Waiting;

impl PodWorkers {
    /// Tells the prober how the pod is: with each look, and when it is told to end (TERM-02, HK-04).
    pub(super) fn tell_prober(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get(uid) else { return };
        let ending = match worker.life.stage() {
            Stage::Waiting => return,
            Stage::Syncing { .. } => false,
            Stage::Terminating { .. } => true,
            Stage::Terminated { .. } | Stage::Finished => {
                self.prober.gone(uid);
                return;
            }
        };
        let Some(pod) = worker.life.subject().pod() else { return };
        let targets = ProbeTargets {
            pod: Arc::clone(pod),
            seen: worker.memory.seen.clone(),
            status: Arc::clone(&worker.memory.status),
            ending,
        };
        self.prober.targets(uid, targets);
    }

    /// Takes in what the probes of a pod say.
    pub(crate) fn probed(&mut self, news: ProbeNews) {
        let ProbeNews { uid, view, happened, waits_for, troubles } = news;
        for what in happened {
            self.happened(&uid, what, true);
        }
        let now = self.node.clock.mono();
        let Some(worker) = self.workers.get_mut(&uid) else { return };
        let since = worker.probe_wait.as_ref().map_or(now, |w| w.since);
        worker.probe_wait = waits_for.map(|what| Waiting { what, since, until: None });
        worker.probe_troubles = troubles;
        if worker.memory.probes == view {
            return;
        }
        worker.memory.probes = view;
        let busy = worker.life.job().is_some();
        self.event(&uid, Event::Hint);
        if busy && self.refresh_status(&uid) {
            self.report(&uid);
        }
    }

    /// While a job is at work, which may take as long as a pull or a grace period, `ready` and `started` are told
    /// without waiting for it (PRB-10). Answers whether they changed.
    #[doc(alias = "SetContainerReadiness")]
    fn refresh_status(&mut self, uid: &PodUid) -> bool {
        let Some(worker) = self.workers.get_mut(uid) else { return false };
        let (Some(pod), Some(seen)) = (worker.life.subject().pod(), &worker.memory.seen) else { return false };
        let ending = match worker.life.stage() {
            Stage::Syncing { .. } => Ending::No,
            Stage::Terminating { .. } => Ending::Terminating,
            Stage::Waiting | Stage::Terminated { .. } | Stage::Finished => return false,
        };
        let new = decide(&self.node, pod, &worker.memory, seen, ending);
        // The job may know more of the containers than the last look that it handed back.
        if new == *worker.memory.status || !same_but_for_probes(&new, &worker.memory.status) {
            return false;
        }
        worker.memory.status = Arc::new(new);
        true
    }
}

/// The containers are in the same states, of the same instances.
fn same_but_for_probes(a: &PodStatus, b: &PodStatus) -> bool {
    let list = |status: &PodStatus| -> Vec<ContainerStatus> {
        let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        all.map(|c| ContainerStatus { ready: false, started: None, ..c.clone() }).collect()
    };
    list(a) == list(b)
}

impl PodWorker {
    /// The probe that the pod waits for before it is ready.
    pub(super) fn open_probe(&self) -> Option<Waiting> {
        let ready = self.memory.status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        self.probe_wait.clone().filter(|_| !ready)
    }
}
