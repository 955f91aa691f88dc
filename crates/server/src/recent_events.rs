//! The recent events of this node, for `rubelet events`: a bounded ring in front of the recorder that sends them on.
//!
//! An event that repeats is kept once, at its last time, with a count: a crash loop does not push out all others. Recording
//! takes a lock for a moment and never waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rubelet_core::id::PodRef;
use rubelet_core::timeline::brief;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{EventKind, Events, NodeEvent, PodEvent};
use tokio::sync::watch;

use crate::documents::{EventDocument, EventsDocument};

/// How many different events are kept.
const KEEP: usize = 256;

/// Keeps the recent events, and hands each on.
pub struct RecentEvents {
    next: Arc<dyn Events>,
    clock: Clock,
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<EventDocument>,
    newest: u64,
    dropped: u64,
}

impl RecentEvents {
    /// No events yet; each is handed on to `next`.
    pub fn new(next: Arc<dyn Events>, clock: Clock) -> Self {
        Self { next, clock, ring: Mutex::default(), newest: watch::channel(0).0 }
    }

    /// The events whose number is higher than `after`.
    pub fn since(&self, after: u64) -> EventsDocument {
        let ring = self.ring();
        EventsDocument {
            newest: ring.newest,
            dropped: ring.dropped,
            events: ring.events.iter().filter(|event| event.number > after).cloned().collect(),
        }
    }

    /// Changes with each event.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, subject: Option<(&PodRef, Option<&str>)>, kind: EventKind, (reason, message): (&str, &str)) {
        let at = self.clock.wall();
        let newest = self.ring().add(subject, kind, (reason, message), at);
        self.newest.send_replace(newest);
    }
}

impl Events for RecentEvents {
    fn record(&self, event: PodEvent) {
        let pod = PodRef::of(&event.pod);
        self.keep(Some((&pod, event.field_path.as_deref())), event.kind, (&event.reason, &event.message));
        self.next.record(event);
    }

    fn record_node(&self, event: NodeEvent) {
        self.keep(None, event.kind, (&event.reason, &event.message));
        self.next.record_node(event);
    }
}

impl Ring {
    fn add(
        &mut self,
        subject: Option<(&PodRef, Option<&str>)>,
        kind: EventKind,
        (reason, message): (&str, &str),
        at: Timestamp,
    ) -> u64 {
        self.newest += 1;
        let (pod, part) = subject.map_or((None, None), |(pod, part)| (Some(pod), part));
        let message = brief(message);
        let same = |old: &EventDocument| {
            old.reason == reason
                && old.message == message
                && old.uid.as_deref() == pod.map(|pod| pod.uid.as_str())
                && old.part.as_deref() == part
        };
        let before = self.events.iter().position(same).and_then(|index| self.events.remove(index));
        let (first, times) = before.map_or((at, 1), |old| (old.first, old.times.saturating_add(1)));
        if self.events.len() >= KEEP {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(EventDocument {
            number: self.newest,
            at,
            first,
            times,
            warning: kind == EventKind::Warning,
            reason: reason.to_owned(),
            message,
            namespace: pod.map(|pod| pod.namespace.to_string()),
            pod: pod.map(|pod| pod.name.to_string()),
            uid: pod.map(|pod| pod.uid.to_string()),
            part: part.map(str::to_owned),
        });
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use rubelet_testkit::{RecordingEvents, pod};

    use super::*;

    fn event(name: &str, message: &str) -> PodEvent {
        PodEvent {
            pod: pod(name).build(),
            field_path: None,
            kind: EventKind::Warning,
            reason: "BackOff".into(),
            message: message.into(),
            annotations: BTreeMap::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_counted_the_ring_is_bounded_and_every_event_is_handed_on() {
        let next = Arc::new(RecordingEvents::default());
        let events = RecentEvents::new(Arc::clone(&next) as _, Clock::real());
        events.record(event("web", "again"));
        events.record(event("db", "again"));
        events.record(event("web", "again"));
        events.record_node(NodeEvent { kind: EventKind::Normal, reason: "NodeReady".into(), message: "ready".into() });
        let seen = events.since(0);
        let short: Vec<_> =
            seen.events.iter().map(|e| (e.number, e.pod.as_deref(), e.reason.as_str(), e.times)).collect();
        assert_eq!(short, [(2, Some("db"), "BackOff", 1), (3, Some("web"), "BackOff", 2), (4, None, "NodeReady", 1)]);
        assert_eq!(events.since(3).events.len(), 1);
        for number in 0..2 * KEEP {
            events.record(event("web", &number.to_string()));
        }
        let seen = events.since(0);
        assert_eq!((seen.events.len(), seen.dropped), (KEEP, KEEP as u64 + 3));
        assert_eq!(*events.news().borrow(), seen.newest);
    }

    #[test]
    fn a_message_of_pages_is_cut() {
        let mut ring = Ring::default();
        ring.add(None, EventKind::Normal, ("R", &"x".repeat(100_000)), Timestamp::UNIX_EPOCH);
        assert!(ring.events.iter().all(|event| event.message.len() < 2000));
    }
}
