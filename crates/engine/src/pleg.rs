//! The pod lifecycle event generator: notices changes in the runtime and hints at the pods to look at.
//!
//! Hints come from two origins. If the runtime streams events, each event is a hint at once, and a slow list of all pods
//! catches events that were lost. If it does not, all pods are listed every second and compared with the previous list.
//! In both cases a hint carries no state: the pod's job inspects the pod before it acts, so an event that comes late,
//! twice or out of order starts nothing twice. Since the pod's own job inspects it, a call that hangs on one sandbox
//! delays that pod alone; this task only makes calls that span all pods.

mod diff;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use rubelet_core::backoff::Doubling;
use rubelet_core::id::PodUid;
use rubelet_core::observe::{Hint, PodSummary};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::ports::{RpcError, RpcErrorKind, RuntimeView};
use diff::hints_between;

/// Without events, how often all pods are listed (PLEG-01).
const RELIST_PERIOD: Duration = Duration::from_secs(1);
/// With events, how often all pods are still listed. Upstream: 300 s (PLEG-10); ours is shorter because a list
/// of all pods is cheap and bounds how long a lost event can hurt.
const SAFETY_PERIOD: Duration = Duration::from_secs(60);
/// Pauses before a stream that broke is opened again.
const REOPEN: Doubling = Doubling::new(Duration::from_millis(100), Duration::from_secs(5));

/// All pods that the runtime knows.
pub type Listing = BTreeMap<PodUid, PodSummary>;

/// The last list that differed from the one before, for those who need no hints.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// When the list began; `None` before the first.
    pub began: Option<Instant>,
    /// What it shows.
    pub pods: Arc<Listing>,
}

/// What the generator sends to the sync loop.
#[derive(Clone, Debug)]
#[doc(alias = "PodLifecycleEvent")]
pub enum PlegNews {
    /// Look at this pod.
    Hint(Hint),
    /// The first list of all pods, or one that differs from the one before. Hints for the differences follow.
    Listed(Arc<Listing>),
}

/// The state of the generator. Node health depends on it (PLEG-01).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlegHealth {
    /// When the last successful list began; `None` before the first.
    pub last_list: Option<Instant>,
    /// The runtime streams events.
    pub streaming: bool,
    /// How many events came by the stream.
    pub events: u64,
    /// How many lists were made.
    pub lists: u64,
}

/// The task. It owns the last list and the stream.
#[doc(alias = "GenericPLEG")]
#[doc(alias = "EventedPLEG")]
pub struct Pleg {
    runtime: Arc<dyn RuntimeView>,
    clock: Clock,
    out: mpsc::Sender<PlegNews>,
    health: watch::Sender<PlegHealth>,
    listed: watch::Sender<Listed>,
    seen: Option<Arc<Listing>>,
    stream: Stream,
    /// Streams in a row that could not be opened or did not last.
    failures: u32,
}

enum Stream {
    /// The runtime has none: list every second.
    None,
    /// To be opened at this time.
    Closed {
        open_at: Instant,
    },
    Open {
        hints: BoxStream<'static, Result<Hint, RpcError>>,
        since: Instant,
    },
}

enum Event {
    Relist,
    Reopen,
    Hint(Option<Result<Hint, RpcError>>),
}

impl Pleg {
    /// A generator that sends to `out`, and a receiver of its health.
    pub fn new(
        runtime: Arc<dyn RuntimeView>,
        clock: Clock,
        out: mpsc::Sender<PlegNews>,
    ) -> (Self, watch::Receiver<PlegHealth>) {
        let (health, fares) = watch::channel(PlegHealth::default());
        let stream = Stream::Closed { open_at: Instant::START };
        let listed = watch::Sender::default();
        (Self { runtime, clock, out, health, listed, seen: None, stream, failures: 0 }, fares)
    }

    /// The lists that it makes.
    pub fn listed(&self) -> watch::Receiver<Listed> {
        self.listed.subscribe()
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            // The future only reads and sends hints: dropping it loses nothing, and a hung runtime does not delay shutdown.
            () = self.watch() => {}
        }
    }

    async fn watch(&mut self) {
        let mut relist_at = self.clock.mono();
        loop {
            let reopen_at = match &self.stream {
                Stream::Closed { open_at } => Some(*open_at),
                Stream::None | Stream::Open { .. } => None,
            };
            let event = tokio::select! {
                biased;
                // `next` of a stream is cancel-safe: an item that was not returned stays in it.
                hint = next_hint(&mut self.stream) => Event::Hint(hint),
                () = self.clock.sleep_until(reopen_at) => Event::Reopen,
                () = self.clock.sleep_until(Some(relist_at)) => Event::Relist,
            };
            let relist_now = match event {
                Event::Relist => true,
                Event::Reopen => self.open_stream().await,
                Event::Hint(Some(Ok(hint))) => {
                    self.health.send_modify(|h| h.events += 1);
                    send(&self.out, PlegNews::Hint(hint)).await;
                    false
                }
                Event::Hint(ended) => {
                    self.stream_ended(ended);
                    true
                }
            };
            if relist_now {
                // A list that failed is made again soon, also while events stream: it catches what they lost.
                let period = if self.relist().await { self.period() } else { RELIST_PERIOD };
                relist_at = self.clock.mono() + period;
            }
        }
    }

    fn period(&self) -> Duration {
        match self.stream {
            Stream::Open { .. } => SAFETY_PERIOD,
            Stream::None | Stream::Closed { .. } => RELIST_PERIOD,
        }
    }

    /// Opens the event stream. Returns whether one was opened: then a list is due, for changes from before the stream.
    async fn open_stream(&mut self) -> bool {
        match self.runtime.hints().await {
            Ok(stream) => {
                if self.failures == 0 {
                    info!("The runtime streams events");
                }
                self.stream = Stream::Open { hints: stream, since: self.clock.mono() };
                self.health.send_modify(|h| h.streaming = true);
                true
            }
            Err(err) if err.kind == RpcErrorKind::Unimplemented => {
                info!("The runtime streams no events: listing every second");
                self.stream = Stream::None;
                false
            }
            Err(err) => {
                debug!(%err, "Could not open the runtime's event stream");
                self.close_stream();
                false
            }
        }
    }

    fn stream_ended(&mut self, end: Option<Result<Hint, RpcError>>) {
        match end {
            // A runtime may accept the call and then answer "unimplemented": it has no events, the stream is not broken.
            Some(Err(err)) if err.kind == RpcErrorKind::Unimplemented => {
                info!("The runtime streams no events: listing every second");
                self.stream = Stream::None;
                self.health.send_modify(|h| h.streaming = false);
            }
            Some(Err(err)) => self.stream_broke(&err),
            Some(Ok(_)) | None => self.stream_broke(&"it ended"),
        }
    }

    /// Logs only the first break: a runtime that always ends its stream at once would fill the log.
    fn stream_broke(&mut self, problem: &dyn std::fmt::Display) {
        if let Stream::Open { since, .. } = self.stream
            && self.clock.mono().since(since) > REOPEN.most
        {
            self.failures = 0;
        }
        if self.failures == 0 {
            warn!(%problem, "The runtime's event stream broke");
        }
        self.close_stream();
    }

    fn close_stream(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.stream = Stream::Closed { open_at: self.clock.mono() + REOPEN.after(self.failures) };
        self.health.send_modify(|h| h.streaming = false);
    }

    /// Lists all pods and sends the differences. Returns whether the list succeeded.
    #[doc(alias = "Relist")]
    async fn relist(&mut self) -> bool {
        let began = self.clock.mono();
        let listed = match self.runtime.list().await {
            Ok(pods) => pods,
            Err(err) => {
                debug!(%err, "Could not list pods");
                return false;
            }
        };
        self.health.send_modify(|h| {
            h.last_list = Some(began);
            h.lists += 1;
        });
        let new: Listing = listed.into_iter().map(|pod| (pod.pod.uid.clone(), pod)).collect();
        if self.seen.as_deref() == Some(&new) {
            return true;
        }
        let new = Arc::new(new);
        let hints = hints_between(self.seen.as_deref(), &new);
        self.seen = Some(Arc::clone(&new));
        self.listed.send_replace(Listed { began: Some(began), pods: Arc::clone(&new) });
        send(&self.out, PlegNews::Listed(new)).await;
        for hint in hints {
            send(&self.out, PlegNews::Hint(hint)).await;
        }
        true
    }
}

/// Waits for room instead of dropping the event as upstream does (PLEG-05): the sync loop never blocks for long.
async fn send(out: &mpsc::Sender<PlegNews>, news: PlegNews) {
    if out.send(news).await.is_err() {
        debug!("The sync loop has ended");
    }
}

async fn next_hint(stream: &mut Stream) -> Option<Result<Hint, RpcError>> {
    match stream {
        Stream::Open { hints, .. } => hints.next().await,
        Stream::None | Stream::Closed { .. } => std::future::pending().await,
    }
}
