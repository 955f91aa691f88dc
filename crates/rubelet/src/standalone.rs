//! Events of a node without an API server: they go to the log.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{EventKind, Events, NodeEvent, PodEvent};
use tracing::{info, warn};

/// How long after its last log line a repeated event is logged again. A crash loop repeats events every few seconds.
const REPEAT_AFTER: Duration = Duration::from_secs(5 * 60);
/// How many different events are remembered; past that the one logged longest ago is forgotten.
const REMEMBERED: usize = 1024;

/// Writes events to the log, repeated ones seldom.
#[derive(Debug)]
pub(crate) struct LogEvents {
    clock: Clock,
    logged: Mutex<Memory>,
}

impl LogEvents {
    /// Nothing logged yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, logged: Mutex::default() }
    }
}

impl Events for LogEvents {
    fn record(&self, event: PodEvent) {
        let pod = PodRef::of(&event.pod);
        let key = Key { pod: pod.uid.clone(), reason: event.reason.to_string(), message: event.message.clone() };
        let now = self.clock.mono();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = logged.happened(key, now) else { return };
        drop(logged);
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
struct Logged {
    at: Instant,
    /// How often it happened since.
    more: u32,
}

/// Which events were logged when.
#[derive(Debug, Default)]
struct Memory {
    events: BTreeMap<Key, Logged>,
}

impl Memory {
    /// How often the event happened since it was last logged, if it is to be logged now.
    fn happened(&mut self, key: Key, now: Instant) -> Option<u32> {
        if let Some(logged) = self.events.get_mut(&key) {
            logged.more = logged.more.saturating_add(1);
            if now.since(logged.at) < REPEAT_AFTER {
                return None;
            }
            let times = logged.more;
            *logged = Logged { at: now, more: 0 };
            return Some(times);
        }
        if self.events.len() >= REMEMBERED {
            self.forget(now);
        }
        self.events.insert(key, Logged { at: now, more: 0 });
        Some(1)
    }

    /// Makes room: an event that would be logged again anyway is forgotten; if there is none, the oldest.
    fn forget(&mut self, now: Instant) {
        self.events.retain(|_, logged| now.since(logged.at) < REPEAT_AFTER);
        if self.events.len() >= REMEMBERED
            && let Some(oldest) = self.events.iter().min_by_key(|(_, logged)| logged.at).map(|(key, _)| key.clone())
        {
            self.events.remove(&oldest);
        }
    }
}
