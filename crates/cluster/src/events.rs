//! Events, sent to the API server (section 29).
//!
//! Recording an event never waits: the event goes into a bounded queue, and is dropped and counted if the queue is full.
//! One task sends the events in order. While the API server does not respond, the task retries the first event, and new
//! events fill the queue.

mod send;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
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

/// Capacity of the queue.
#[doc(alias = "maxQueuedEvents")]
const QUEUE: usize = 1000;
/// The first dropped event is logged, then every so many.
const LOG_EVERY: u64 = 1000;

/// Records events.
#[doc(alias = "EventRecorder")]
pub struct ApiEvents {
    node: String,
    clock: Clock,
    rng: Arc<dyn Rng>,
    queue: mpsc::Sender<Recorded>,
    dropped: AtomicU64,
}

impl ApiEvents {
    /// The recorder, and the task that sends events through `api`, whose rate limit is that of events (`eventRecordQPS`,
    /// `eventBurst`).
    #[doc(alias = "makeEventRecorder")]
    pub fn new<R: Requests>(api: R, node: &str, clock: Clock, rng: Arc<dyn Rng>) -> (Self, EventSender<R>) {
        let (queue, events) = mpsc::channel(QUEUE);
        let sender = EventSender::new(api, clock.clone(), Arc::clone(&rng), events);
        (Self { node: node.to_owned(), clock, rng, queue, dropped: AtomicU64::new(0) }, sender)
    }

    /// Number of events that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn emit(
        &self,
        subject: ObjectReference,
        kind: EventKind,
        (reason, message): (&str, &str),
        annotations: BTreeMap<String, String>,
    ) {
        let kind = match kind {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        let (namespace, name) = (subject.namespace.as_deref(), subject.name.as_deref());
        debug!(namespace, name, part = subject.field_path.as_deref(), kind, reason, "{message}");
        let random = [self.rng.next(), self.rng.next()];
        let mut event = new_event(&self.node, subject, &Words { kind, reason, message }, self.clock.wall(), random);
        event.metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
        if self.queue.try_send((self.clock.mono(), Box::new(event))).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed);
            if dropped.is_multiple_of(LOG_EVERY) {
                warn!(dropped = dropped + 1, reason, "Unable to record event: too many queued events, dropped event");
            }
        }
    }
}

impl Events for ApiEvents {
    fn record(&self, event: PodEvent) {
        let subject = pod_reference(&event.pod, event.field_path);
        self.emit(subject, event.kind, (&event.reason, &event.message), event.annotations);
    }

    fn record_node(&self, event: NodeEvent) {
        self.emit(node_reference(&self.node), event.kind, (&event.reason, &event.message), BTreeMap::new());
    }
}
