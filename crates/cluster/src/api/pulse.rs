//! The pulse of a connection: is anybody there?
//!
//! While a request or watch is open, the other side is pinged whenever it has been silent for a while; with none open
//! there is nobody to tell, and nothing is sent. The first request after a silence pings at once, so that a connection
//! which died in its sleep is found in [`Heartbeat::patience`] and not later.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::sync::Notify;

/// How a stalled connection is found: within `every` + `patience`.
///
/// upstream: client-go pings after 30 s of silence and waits 15 s (HTTP2_READ_IDLE_TIMEOUT_SECONDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// How long nothing is asked.
    pub every: Duration,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { every: Duration::from_secs(7), patience: Duration::from_millis(2_500) }
    }
}

/// How many streams are open on a connection.
#[derive(Debug, Default)]
pub(super) struct Open {
    count: AtomicUsize,
    opened: Notify,
}

/// An open stream, until dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<Open>);

impl Open {
    pub(super) fn stream(self: &Arc<Self>) -> OpenStream {
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.opened.notify_one();
        }
        OpenStream(Arc::clone(self))
    }

    async fn any(&self) {
        while self.count.load(Ordering::Acquire) == 0 {
            self.opened.notified().await;
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns when the other side has not answered a ping in time; never otherwise.
pub(super) async fn stalled(ping: Option<PingPong>, open: Arc<Open>, beat: Heartbeat) {
    let Some(mut ping) = ping else { return pending().await };
    loop {
        open.any().await;
        match tokio::time::timeout(beat.patience, ping.ping(Ping::opaque())).await {
            Err(_) => return,
            // The connection is over; its own future tells so.
            Ok(Err(_)) => return pending().await,
            Ok(Ok(_)) => tokio::time::sleep(beat.every).await,
        }
    }
}
