//! Lists and events of the runtime, and looks at single pods. upstream: metrics.go PLEG…, EventedPLEG… (v1.36)

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use super::histogram::{Counter, Histogram, USUAL, counter, distribution, number};

#[derive(Debug)]
pub(crate) struct PlegMetrics {
    lists: Histogram,
    intervals: Histogram,
    looks: Histogram,
    /// Seconds since the epoch.
    last_seen: AtomicI64,
    /// Events are never dropped, and their age is not known: both stay empty, as they do upstream without its evented PLEG.
    dropped: Counter,
    latency: Histogram,
    connected: Counter,
    not_connected: Counter,
}

impl Default for PlegMetrics {
    fn default() -> Self {
        let usual = || Histogram::new(&USUAL);
        Self {
            lists: usual(),
            intervals: usual(),
            looks: usual(),
            last_seen: AtomicI64::new(0),
            dropped: Counter::default(),
            latency: usual(),
            connected: Counter::default(),
            not_connected: Counter::default(),
        }
    }
}

impl PlegMetrics {
    /// All pods were listed, or could not be, `since_last` after the list before.
    pub(crate) fn listed(&self, took: Duration, since_last: Option<Duration>) {
        self.lists.took(took);
        if let Some(interval) = since_last {
            self.intervals.took(interval);
        }
    }

    /// The runtime has answered with a list or an event.
    pub(crate) fn seen(&self, at: Timestamp) {
        self.last_seen.store(at.as_second(), Ordering::Relaxed);
    }

    /// A job has looked at its pod.
    pub(crate) fn looked(&self, took: Duration) {
        self.looks.took(took);
    }

    /// The stream of events was opened, or broke or could not be opened.
    pub(crate) fn stream(&self, opened: bool) {
        if opened { self.connected.add() } else { self.not_connected.add() }
    }

    pub(super) fn write(&self, out: &mut String) {
        let name = "kubelet_evented_pleg_connection_error_count";
        counter(out, name, "Streams of events that broke or could not be opened.", &self.not_connected);
        let name = "kubelet_evented_pleg_connection_latency_seconds";
        distribution(out, name, "The age of events when they come, in seconds; not measured.", &self.latency);
        let name = "kubelet_evented_pleg_connection_success_count";
        counter(out, name, "Streams of events that were opened.", &self.connected);
        counter(out, "kubelet_pleg_discard_events", "Events that were dropped: none.", &self.dropped);
        let seen = self.last_seen.load(Ordering::Relaxed);
        let help = "When the runtime last answered with a list or an event, in seconds since 1970.";
        number(out, ("kubelet_pleg_last_seen_seconds", "gauge"), help, seen);
        let name = "kubelet_pleg_pod_relist_duration_seconds";
        distribution(out, name, "How long looks at one pod took, in seconds.", &self.looks);
        let name = "kubelet_pleg_relist_duration_seconds";
        distribution(out, name, "How long lists of all pods took, in seconds.", &self.lists);
        let name = "kubelet_pleg_relist_interval_seconds";
        distribution(out, name, "From one list of all pods to the next, in seconds.", &self.intervals);
    }
}
