//! Liveness of a connection, by HTTP/2 pings.
//!
//! While a request or watch is open, the server is pinged whenever it has been silent for a while. Without open streams no
//! ping is sent. The first request after a silence pings at once, so that a connection that died while idle is found soon.
//!
//! A ping that is not answered in time makes the connection suspect: it gets no new streams and another connection is made,
//! but its open streams stay. If the server was only slow, it answers later and the connection is used again. The
//! connection is given up when a replacement works and it is still silent, or when it has been silent for very long. Until
//! then ending its watches would gain nothing, because there may be no other way to the server.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::sync::Notify;

/// After this many times [`Heartbeat::patience`] of silence a connection is given up if a replacement works, …
const MISSED: u32 = 2;
/// … and after this many in any case.
const MISSED_ALONE: u32 = 10;

/// How a stalled connection is detected: it is suspect after `every` + `patience`, and given up after another `patience`
/// if a replacement works.
///
/// upstream: client-go pings after 30 s of silence and waits 15 s (HTTP2_READ_IDLE_TIMEOUT_SECONDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Silence after which a ping is sent.
    pub every: Duration,
    /// Time to answer a ping before the connection is suspect.
    pub patience: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { every: Duration::from_secs(7), patience: Duration::from_millis(1_500) }
    }
}

/// Counts reads on a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadCount(Arc<AtomicU64>);

impl ReadCount {
    pub(super) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Liveness of a connection, shared by its users and its driver.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) open: Arc<Open>,
    pub(super) reads: ReadCount,
    suspect: AtomicBool,
    /// A replacement was made since the connection is suspect.
    replaced: AtomicBool,
}

impl Liveness {
    pub(super) fn of(reads: ReadCount) -> Self {
        Self { reads, ..Self::default() }
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// A replacement connection was made.
    pub(super) fn replace(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    fn set(&self, change: LivenessChange) {
        self.suspect.store(change == LivenessChange::Suspect, Ordering::Relaxed);
        self.replaced.store(false, Ordering::Relaxed);
    }
}

/// A change in a connection's liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LivenessChange {
    /// A ping was not answered in time.
    Suspect,
    /// The ping was answered late, or other data arrived.
    Recovered,
}

/// The number of open streams on a connection.
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

/// Returns, when the connection is given up, how long it was silent. Does not return otherwise.
pub(super) async fn stalled(
    ping: Option<PingPong>,
    liveness: Arc<Liveness>,
    beat: Heartbeat,
    tell: impl Fn(LivenessChange),
) -> Duration {
    let Some(mut ping) = ping else { return pending().await };
    let change = |change| {
        liveness.set(change);
        tell(change);
    };
    loop {
        liveness.open.any().await;
        let mut reads = liveness.reads.count();
        let mut missed = 0;
        let mut pong = pin!(ping.ping(Ping::opaque()));
        let answered = loop {
            if let Ok(answered) = tokio::time::timeout(beat.patience, &mut pong).await {
                break answered;
            }
            let now = liveness.reads.count();
            if std::mem::replace(&mut reads, now) != now {
                // The ping's answer may be queued behind a large response: a server that sends is alive.
                missed = 0;
                if liveness.is_suspect() {
                    change(LivenessChange::Recovered);
                }
                continue;
            }
            missed += 1;
            let replaced = liveness.replaced.load(Ordering::Relaxed);
            if missed >= MISSED_ALONE || (missed >= MISSED && replaced) {
                return beat.every.saturating_add(beat.patience.saturating_mul(missed));
            }
            if !liveness.is_suspect() {
                change(LivenessChange::Suspect);
            }
        };
        if answered.is_err() {
            // The connection is closed; its own future returns that.
            return pending().await;
        }
        if liveness.is_suspect() {
            change(LivenessChange::Recovered);
        }
        tokio::time::sleep(beat.every).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::api::tls_alert::AlertStream;

    const BEAT: Heartbeat = Heartbeat { every: Duration::from_secs(7), patience: Duration::from_secs(1) };
    /// An empty SETTINGS frame, and the acknowledgement of ours.
    const SETTINGS: [u8; 18] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
    /// A ping sent by the server: not the answer to ours.
    const OWN_PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// The liveness changes of a connection whose server runs `script` and never answers a ping, and the length of the
    /// silence if the connection was given up before the script ended.
    async fn watched<F: Future<Output = ()>>(
        script: impl FnOnce(DuplexStream, Arc<Liveness>) -> F,
    ) -> (Vec<LivenessChange>, Option<Duration>) {
        let (near, mut server) = duplex(1 << 16);
        let (wire, _, reads) = AlertStream::new(near);
        server.write_all(&SETTINGS).await.unwrap();
        let (_send, mut connection) = h2::client::handshake(wire).await.unwrap();
        let ping = connection.ping_pong();
        let liveness = Arc::new(Liveness::of(reads));
        let _open = liveness.open.stream();
        let tls_failure = Mutex::new(Vec::new());
        let end = tokio::select! {
            biased;
            _ = connection => panic!("the connection was closed"),
            silence = stalled(ping, Arc::clone(&liveness), BEAT, |change| tls_failure.lock().unwrap().push(change)) => {
                Some(silence)
            }
            () = script(server, Arc::clone(&liveness)) => None,
        };
        (tls_failure.into_inner().unwrap(), end)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_suspect_first_and_given_up_when_a_replacement_works() {
        let silent = watched(|server, liveness| async move {
            let _server = server;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert!(liveness.is_suspect());
            liveness.replace();
            pending().await
        });
        assert_eq!(silent.await, (vec![LivenessChange::Suspect], Some(Duration::from_secs(7 + 2))));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_replacement_a_silent_connection_is_kept_longer() {
        let alone = watched(|server, _| async move {
            let _server = server;
            pending().await
        });
        assert_eq!(alone.await, (vec![LivenessChange::Suspect], Some(Duration::from_secs(7 + 10))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_pauses_is_suspect_only_during_the_pause() {
        let pauses = watched(|mut server, liveness| async move {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            liveness.replace();
            server.write_all(&OWN_PING).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!liveness.is_suspect());
        });
        assert_eq!(pauses.await, (vec![LivenessChange::Suspect, LivenessChange::Recovered], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_data_is_alive_without_answering_pings() {
        let sends = watched(|mut server, _| async move {
            for _ in 0..100 {
                server.write_all(&OWN_PING).await.unwrap();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        assert_eq!(sends.await, (Vec::new(), None));
    }
}
