//! Events, told to the API server (section 29).
//!
//! Whoever records one never waits: it goes into a bounded queue, and what does not fit is dropped and counted. One task
//! sends them in order. While the API server is away it holds the line and tries again; what piles up meanwhile is
//! dropped from the end of the queue on.

mod send;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use rubelet_core::events::{Words, new_event, node_reference, pod_reference};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{EventKind, Events, NodeEvent, PodEvent, Rng};
use tokio::sync::mpsc;
use tracing::{debug, warn};

pub use send::EventSender;
use send::Recorded;

use crate::requests::Requests;

/// How many events may wait.
#[doc(alias = "maxQueuedEvents")]
const QUEUE: usize = 1000;
/// The first event that is dropped is told of, then every so many.
const TELL_EVERY: u64 = 1000;

/// Takes events.
#[doc(alias = "EventRecorder")]
pub struct ApiEvents {
    node: String,
    clock: Clock,
    rng: Arc<dyn Rng>,
    queue: mpsc::Sender<Recorded>,
    dropped: AtomicU64,
}

impl ApiEvents {
    /// The place to record events, and the task that sends them through `api`, whose rate is the one of events
    /// (`eventRecordQPS`, `eventBurst`).
    #[doc(alias = "makeEventRecorder")]
    pub fn new<R: Requests>(api: R, node: &str, clock: Clock, rng: Arc<dyn Rng>) -> (Self, EventSender<R>) {
        let (queue, events) = mpsc::channel(QUEUE);
        let sender = EventSender::new(api, clock.clone(), Arc::clone(&rng), events);
        (Self { node: node.to_owned(), clock, rng, queue, dropped: AtomicU64::new(0) }, sender)
    }

    /// How many were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn tell(&self, subject: ObjectReference, kind: EventKind, reason: &str, message: &str) {
        let kind = match kind {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        let (namespace, name) = (subject.namespace.as_deref(), subject.name.as_deref());
        debug!(namespace, name, part = subject.field_path.as_deref(), kind, reason, "{message}");
        let random = [self.rng.next(), self.rng.next()];
        let event = new_event(&self.node, subject, &Words { kind, reason, message }, self.clock.wall(), random);
        if self.queue.try_send((self.clock.mono(), Box::new(event))).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed);
            if dropped.is_multiple_of(TELL_EVERY) {
                warn!(dropped = dropped + 1, reason, "Too many events wait to be sent: dropping new ones");
            }
        }
    }
}

impl Events for ApiEvents {
    fn record(&self, event: PodEvent) {
        let subject = pod_reference(&event.pod, event.field_path);
        self.tell(subject, event.kind, &event.reason, &event.message);
    }

    fn record_node(&self, event: NodeEvent) {
        self.tell(node_reference(&self.node), event.kind, &event.reason, &event.message);
    }
}
