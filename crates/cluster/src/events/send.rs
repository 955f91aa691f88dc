//! The task that sends events one after the other.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use rubelet_core::backoff::Doubling;
use rubelet_core::events::{Correlator, Verdict};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Rng};
use serde::de::IgnoredAny;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::requests::Requests;

/// Delay between recording and sending: a starting pod needs the CPU time more than its events do, and most pods have
/// started by then.
const AFTER: Duration = Duration::from_millis(500);
/// How long one event is retried during an outage. Upstream retries twelve times, ten seconds apart.
#[doc(alias = "maxTriesPerEvent")]
const PATIENCE: Duration = Duration::from_secs(120);
/// Attempts for an event that the API server answers with a server error: the event may be the cause, and others wait
/// behind it.
const TRIES_ON_FAILURE: u32 = 5;
/// Pauses between attempts. The first is a random part of the first pause, so that the nodes of a cluster do not retry all
/// at once.
#[doc(alias = "defaultSleepDuration")]
const PAUSES: Doubling = Doubling::new(Duration::from_secs(1), Duration::from_secs(10));

/// Sends events.
#[doc(alias = "EventBroadcaster")]
pub struct EventSender<R> {
    api: R,
    clock: Clock,
    rng: Arc<dyn Rng>,
    events: mpsc::Receiver<Recorded>,
    correlator: Correlator,
}

/// An event, and when it was recorded.
pub(super) type Recorded = (Instant, Box<Event>);

/// The result of one attempt.
enum Tried {
    Done,
    /// To be retried, after the pause that the server requests, if any.
    Again(Option<Duration>, Fault),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The server cannot be reached.
    Away,
    /// The server responds with an error.
    Failing,
}

impl<R: Requests> EventSender<R> {
    pub(super) fn new(api: R, clock: Clock, rng: Arc<dyn Rng>, events: mpsc::Receiver<Recorded>) -> Self {
        Self { api, clock, rng, events, correlator: Correlator::default() }
    }

    /// Sends until cancelled. Queued events are lost then.
    pub async fn run(mut self, cancel: CancellationToken) {
        // Cancel-safe: an event in flight is either stored or lost.
        cancel.run_until_cancelled(self.send_all()).await;
    }

    async fn send_all(&mut self) {
        while let Some((recorded, event)) = self.events.recv().await {
            self.clock.sleep_until(Some(recorded + AFTER)).await;
            match self.correlator.correlate(*event, self.clock.now()) {
                Verdict::Skip => {}
                Verdict::Create(event) => self.send(&event, None).await,
                Verdict::Count { event, patch } => self.send(&event, Some(&patch)).await,
            }
        }
    }

    #[doc(alias = "recordToSink")]
    async fn send(&self, event: &Event, patch: Option<&str>) {
        let began = self.clock.mono();
        let mut pause = PAUSES.first.mul_f64(self.rng.fraction());
        let (mut tries, mut failures) = (0, 0);
        loop {
            let (wait, fault) = match self.try_once(event, patch).await {
                Tried::Done => return,
                Tried::Again(wait, fault) => (wait, fault),
            };
            failures += u32::from(fault == Fault::Failing);
            if failures >= TRIES_ON_FAILURE || self.clock.mono().since(began) >= PATIENCE {
                warn!(reason = event.reason.as_deref(), "Unable to write event (retry limit exceeded!)");
                return;
            }
            tokio::time::sleep(wait.unwrap_or(pause).min(PAUSES.most)).await;
            tries += 1;
            pause = PAUSES.after(tries);
        }
    }

    #[doc(alias = "recordEvent")]
    async fn try_once(&self, event: &Event, patch: Option<&str>) -> Tried {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let list = format!("/api/v1/namespaces/{namespace}/events");
        let counted = match patch {
            None => None,
            Some(patch) => {
                let name = event.metadata.name.as_deref().unwrap_or_default();
                Some(self.api.patch::<IgnoredAny>(&format!("{list}/{name}"), patch).await)
            }
        };
        let result = match counted {
            // The event has expired meanwhile: the API server keeps events for an hour.
            Some(Err(err)) if err.is_not_found() => self.api.create::<_, IgnoredAny>(&list, event).await,
            Some(result) => result,
            None => self.api.create::<_, IgnoredAny>(&list, event).await,
        };
        match result {
            Ok(_) => Tried::Done,
            Err(err) => verdict(&err, event),
        }
    }
}

/// A rejected event is dropped; after an outage or a server error it is retried.
fn verdict(err: &ApiError, event: &Event) -> Tried {
    let reason = event.reason.as_deref();
    match err.kind {
        ApiErrorKind::Unavailable | ApiErrorKind::Timeout | ApiErrorKind::Garbage => {
            debug!(%err, reason, "Unable to write event (may retry after sleeping)");
            Tried::Again(None, Fault::Away)
        }
        ApiErrorKind::Busy { retry_after } => Tried::Again(retry_after, Fault::Failing),
        ApiErrorKind::Failed => Tried::Again(None, Fault::Failing),
        ApiErrorKind::Unauthorized
        | ApiErrorKind::Forbidden
        | ApiErrorKind::NotFound
        | ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Gone
        | ApiErrorKind::Invalid => {
            debug!(%err, reason, "Server rejected event (will not retry!)");
            Tried::Done
        }
    }
}
