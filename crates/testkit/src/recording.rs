//! Sinks that record events and statuses.

use std::sync::{Arc, Mutex, PoisonError};

use rubelet_core::id::PodRef;
use rubelet_engine::ports::{EventKind, Events, NodeEvent, PodEvent, StatusObserver, StatusReport};
use tokio::sync::watch;

/// Records every event. Clones share the record.
#[derive(Clone, Default)]
pub struct RecordingEvents(Arc<Mutex<Vec<PodEvent>>>, Arc<Mutex<Vec<NodeEvent>>>);

impl RecordingEvents {
    /// Every event, in order.
    pub fn all(&self) -> Vec<PodEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Events about the node, in order, as lines: `Normal NodeReady: Node web status is now: NodeReady`.
    pub fn node_lines(&self) -> Vec<String> {
        let events = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().map(|event| format!("{:?} {}: {}", event.kind, event.reason, event.message)).collect()
    }

    /// Events of the pod called `pod` as lines: `Warning BackOff spec.containers{app}: Back-off restarting …`.
    pub fn lines(&self, pod: &str) -> Vec<String> {
        let all = self.all().into_iter().filter(|event| event.pod.metadata.name.as_deref() == Some(pod));
        let line = |event: PodEvent| {
            let kind = match event.kind {
                EventKind::Normal => "Normal",
                EventKind::Warning => "Warning",
            };
            let place = event.field_path.map(|path| format!(" {path}")).unwrap_or_default();
            format!("{kind} {}{place}: {}", event.reason, event.message)
        };
        all.map(line).collect()
    }
}

impl Events for RecordingEvents {
    fn record(&self, event: PodEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn record_node(&self, event: NodeEvent) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Records every status report. Clones share the record.
#[derive(Clone)]
pub struct RecordingStatus(Arc<watch::Sender<Vec<StatusReport>>>);

impl Default for RecordingStatus {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }
}

impl RecordingStatus {
    /// Every report, in order.
    pub fn all(&self) -> Vec<StatusReport> {
        self.0.borrow().clone()
    }

    /// Reports from the `n`th on, in order.
    pub fn since(&self, n: usize) -> Vec<StatusReport> {
        self.0.borrow().iter().skip(n).cloned().collect()
    }

    /// Reports of the pod called `pod`, in order.
    pub fn of(&self, pod: &str) -> Vec<StatusReport> {
        self.0.borrow().iter().filter(|report| is_of(report, pod)).cloned().collect()
    }

    /// The newest report of the pod called `pod`.
    pub fn latest(&self, pod: &str) -> Option<StatusReport> {
        self.0.borrow().iter().rfind(|report| is_of(report, pod)).cloned()
    }

    /// Phases of the pod called `pod`, without repetitions.
    pub fn phases(&self, pod: &str) -> Vec<String> {
        let mut phases: Vec<String> =
            self.of(pod).iter().map(|report| report.status.phase.clone().unwrap_or_default()).collect();
        phases.dedup();
        phases
    }

    /// Waits until the newest report of the pod called `pod` is as wanted. Bound it with a timeout.
    pub async fn wait_for(&self, pod: &str, wanted: impl Fn(&StatusReport) -> bool) -> Option<StatusReport> {
        let mut reports = self.0.subscribe();
        let newest = |all: &Vec<StatusReport>| all.iter().rfind(|report| is_of(report, pod)).cloned();
        let found = reports.wait_for(|all| newest(all).is_some_and(|report| wanted(&report))).await;
        found.ok().and_then(|all| newest(&all))
    }
}

fn is_of(report: &StatusReport, pod: &str) -> bool {
    *PodRef::of(&report.pod).name == *pod
}

impl StatusObserver for RecordingStatus {
    fn observe(&self, report: &StatusReport) {
        self.0.send_modify(|all| all.push(report.clone()));
    }
}
