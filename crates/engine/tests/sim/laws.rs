//! Laws about more than the runtime's log: the engine's stages, compared with the calls that followed.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::Stage;
use rubelet_core::status::is_terminal;
use rubelet_engine::pod_worker::WorkerView;
use rubelet_engine::ports::EndProgress;
use rubelet_engine::sync_loop::NodeView;
use rubelet_testkit::{Call, RecordingStatus};

/// Observations of each life cycle, which is identified by UID and time of arrival.
#[derive(Default)]
pub(crate) struct Laws {
    /// When the engine was started.
    engine_at: Duration,
    /// Lives that are past syncing.
    ending: BTreeMap<PodUid, Ending>,
    /// Pods whose phase is terminal.
    terminal: BTreeMap<PodUid, String>,
    reports: usize,
    calls: usize,
}

/// A life that was seen to end.
struct Ending {
    arrived: Duration,
    /// When that was seen.
    since: Duration,
    /// The last grace of each container.
    graces: BTreeMap<String, Duration>,
}

impl Laws {
    /// A new engine begins every life anew.
    pub(crate) fn new_engine(&mut self, now: Duration) {
        self.engine_at = now;
        self.ending.clear();
        self.terminal.clear();
        self.reports = usize::MAX;
    }

    /// Checks all that happened since the last look, and returns the violations.
    pub(crate) fn look(
        &mut self,
        view: &NodeView,
        calls: &[Call],
        statuses: &RecordingStatus,
        now: Duration,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        let engine_at = self.engine_at;
        let arrived = |pod: &WorkerView| engine_at + pod.arrived.mono.since_start();
        for (uid, ending) in &mut self.ending {
            let here = view.pods.iter().find(|p| p.pod.uid == *uid).map(arrived);
            let next_life = here.filter(|at| *at != ending.arrived);
            for call in calls.iter().skip(self.calls).filter(|call| call.uid == *uid) {
                // From here on it is the life after this one. If none is to be seen, one may have come and gone.
                if next_life.is_some_and(|at| call.at >= at) || (here.is_none() && call.line.starts_with("run_sandbox"))
                {
                    break;
                }
                broken.extend(ending.check(uid, call));
            }
        }
        self.calls = calls.len();
        let past: Vec<_> =
            view.pods.iter().filter(|p| p.stage.is_past_syncing() && p.stage != Stage::Finished).collect();
        self.ending.retain(|uid, old| past.iter().any(|p| p.pod.uid == *uid && arrived(p) == old.arrived));
        for pod in past {
            let new = Ending { arrived: arrived(pod), since: now, graces: BTreeMap::new() };
            self.ending.entry(pod.pod.uid.clone()).or_insert(new);
        }
        broken.extend(self.phases(statuses));
        broken
    }

    /// A terminal phase never reverts within one life.
    fn phases(&mut self, statuses: &RecordingStatus) -> Vec<String> {
        let mut broken = Vec::new();
        let new = if self.reports == usize::MAX { Vec::new() } else { statuses.since(self.reports) };
        for report in new {
            let uid = PodRef::of(&report.pod).uid;
            let phase = report.status.phase.clone().unwrap_or_default();
            if let Some(before) = self.terminal.get(&uid).filter(|before| **before != phase) {
                broken.push(format!("{uid}: {before} and then {phase}"));
            }
            if report.progress == EndProgress::Finished {
                self.terminal.remove(&uid);
            } else if is_terminal(&report.status) {
                self.terminal.insert(uid, phase);
            }
        }
        self.reports = statuses.all().len();
        broken
    }
}

impl Ending {
    /// Nothing is asked to start once a pod terminates, and grace never grows.
    fn check(&mut self, uid: &PodUid, call: &Call) -> Option<String> {
        if let Some(name) = call.line.strip_prefix("start ") {
            if call.asked < self.since {
                // It was under way, and is awaited.
                return None;
            }
            return Some(format!("{uid}: {name} was started after the pod began to terminate"));
        }
        let (name, grace) = call.line.strip_prefix("stop ")?.split_once(" grace=")?;
        let grace = seconds(grace)?;
        let before = self.graces.insert(name.to_owned(), grace);
        before.filter(|before| *before < grace).map(|before| format!("{uid}: {name} got {before:?}, then {grace:?}"))
    }
}

/// Reads `30s`, `1.5s` or `20ms`.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s')?, 1.0),
    };
    number.parse().ok().map(|n: f64| Duration::from_secs_f64(n * unit))
}
