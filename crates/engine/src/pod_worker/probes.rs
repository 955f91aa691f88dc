//! Sends the pods to the prober, and handles the probe results.

use std::sync::Arc;

use rubelet_core::id::PodUid;
use rubelet_core::lifecycle::{Event, Stage};
use rubelet_core::timeline::Waiting;

use super::workers::{PodWorker, PodWorkers};
use crate::prober::{ProbeNews, ProbeTargets};

impl PodWorkers {
    /// Sends the pod's newest observation and stage to the prober (TERM-02, HK-04).
    pub(super) fn update_prober(&mut self, uid: &PodUid) {
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
            status: Arc::clone(&worker.status),
            ending,
        };
        self.prober.targets(uid, targets);
    }

    /// Handles new probe results of a pod.
    #[doc(alias = "SetContainerReadiness")]
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
        if worker.probes == view {
            return;
        }
        worker.probes = view;
        // A job may take as long as a pull or a grace period: `ready` and `started` are written without it (PRB-10).
        if worker.life.stage().may_have_running_containers() {
            self.write_status(&uid);
        }
        self.event(&uid, Event::Hint);
    }
}

impl PodWorker {
    /// The probe that has to succeed before the pod is ready.
    pub(super) fn open_probe(&self) -> Option<Waiting> {
        let ready = self.status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        self.probe_wait.clone().filter(|_| !ready)
    }
}
