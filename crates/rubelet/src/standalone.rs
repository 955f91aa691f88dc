//! A node without an API server: events go to the log, statuses are only kept here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{EventKind, Events, NodeEvent, PodEvent, StatusReport, StatusSink};
use tracing::{info, warn};

/// An event that only repeats is told again after this. A crash loop repeats every few seconds.
const REPEAT_AFTER: Duration = Duration::from_secs(5 * 60);
/// How many different events are remembered; past that the one told longest ago goes.
const REMEMBERED: usize = 1024;

/// Writes events to the log, repeated ones seldom.
#[derive(Debug)]
pub(crate) struct LogEvents {
    clock: Clock,
    told: Mutex<Memory>,
}

impl LogEvents {
    /// Nothing told yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, told: Mutex::default() }
    }
}

impl Events for LogEvents {
    fn record(&self, event: PodEvent) {
        let pod = PodRef::of(&event.pod);
        let key = Key { pod: pod.uid.clone(), reason: event.reason.to_string(), message: event.message.clone() };
        let now = self.clock.mono();
        let Some(times) = self.told.lock().unwrap_or_else(PoisonError::into_inner).tell(key, now) else { return };
        let (reason, message) = (event.reason.as_ref(), event.message.as_str());
        let part = event.field_path.as_deref();
        match event.kind {
            EventKind::Normal => info!(%pod, reason, part, times, "{message}"),
            EventKind::Warning => warn!(%pod, reason, part, times, "{message}"),
        }
    }

    fn record_node(&self, event: NodeEvent) {
        let (reason, message) = (event.reason.as_ref(), event.message.as_str());
        match event.kind {
            EventKind::Normal => info!(reason, "{message}"),
            EventKind::Warning => warn!(reason, "{message}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pod: PodUid,
    reason: String,
    message: String,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    /// Since then.
    more: u32,
}

/// Which events were told when.
#[derive(Debug, Default)]
struct Memory {
    events: BTreeMap<Key, Told>,
}

impl Memory {
    /// How often the event happened since it was told last, if it is to be told now.
    fn tell(&mut self, key: Key, now: Instant) -> Option<u32> {
        if let Some(told) = self.events.get_mut(&key) {
            told.more = told.more.saturating_add(1);
            if now.since(told.at) < REPEAT_AFTER {
                return None;
            }
            let times = told.more;
            *told = Told { at: now, more: 0 };
            return Some(times);
        }
        if self.events.len() >= REMEMBERED {
            self.forget(now);
        }
        self.events.insert(key, Told { at: now, more: 0 });
        Some(1)
    }

    /// Makes room: what would be told again anyway goes; if nothing would, the oldest.
    fn forget(&mut self, now: Instant) {
        self.events.retain(|_, told| now.since(told.at) < REPEAT_AFTER);
        if self.events.len() >= REMEMBERED
            && let Some(oldest) = self.events.iter().min_by_key(|(_, told)| told.at).map(|(key, _)| key.clone())
        {
            self.events.remove(&oldest);
        }
    }
}

/// Drops statuses: with no API server, the sync loop's own view is where they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoStatus;

impl StatusSink for NoStatus {
    fn report(&self, _report: StatusReport) {}
}
