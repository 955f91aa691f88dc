//! The pulse of a connection: is anybody there?
//!
//! While a request or watch is open, the other side is pinged whenever it has been silent for a while; with none open
//! there is nobody to tell, and nothing is sent. The first request after a silence pings at once, so that a connection
//! which died in its sleep is found soon.
//!
//! A ping that is not answered in time makes a connection suspect: nothing new is put on it, and another one is made, but
//! what runs on it runs on. A server that is only slow answers later, and all is as it was. The connection is given up
//! when another one came about and it is still silent, or when it has been silent for very long: until then there may be
//! nothing better, and to end every watch on it would help nobody.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::sync::Notify;

/// After this many times [`Heartbeat::patience`] without a sign of life a connection is given up if another one works, …
const MISSED: u32 = 2;
/// … and after this many in any case.
const MISSED_ALONE: u32 = 10;

/// How a stalled connection is found: suspected within `every` + `patience`, and given up after as much again of patience
/// if another connection to the server comes about.
///
/// upstream: client-go pings after 30 s of silence and waits 15 s (HTTP2_READ_IDLE_TIMEOUT_SECONDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// How long nothing is asked.
    pub every: Duration,
    /// How long an answer may take before the connection is suspect.
    pub patience: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { every: Duration::from_secs(7), patience: Duration::from_millis(1_500) }
    }
}

/// Counts what was read on a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<AtomicU64>);

impl Heard {
    pub(super) fn something(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is known of a connection's life, by those who use it.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    pub(super) open: Arc<Open>,
    pub(super) heard: Heard,
    suspect: AtomicBool,
    /// Another connection came about since it is suspect.
    replaced: AtomicBool,
}

impl Pulse {
    pub(super) fn of(heard: Heard) -> Self {
        Self { heard, ..Self::default() }
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Another connection to the server came about.
    pub(super) fn replace(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    fn set(&self, standing: Standing) {
        self.suspect.store(standing == Standing::Suspect, Ordering::Relaxed);
        self.replaced.store(false, Ordering::Relaxed);
    }
}

/// What became of a connection that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A ping was not answered in time.
    Suspect,
    /// It was answered after all, or something else came.
    Recovered,
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

/// Returns how long the other side has been silent when it is given up; never otherwise.
pub(super) async fn stalled(
    ping: Option<PingPong>,
    pulse: Arc<Pulse>,
    beat: Heartbeat,
    tell: impl Fn(Standing),
) -> Duration {
    let Some(mut ping) = ping else { return pending().await };
    let change = |standing| {
        pulse.set(standing);
        tell(standing);
    };
    loop {
        pulse.open.any().await;
        let mut heard = pulse.heard.count();
        let mut missed = 0;
        let mut pong = pin!(ping.ping(Ping::opaque()));
        let answered = loop {
            if let Ok(answered) = tokio::time::timeout(beat.patience, &mut pong).await {
                break answered;
            }
            let now = pulse.heard.count();
            if std::mem::replace(&mut heard, now) != now {
                // The answer is behind something large: whoever sends is alive.
                missed = 0;
                if pulse.is_suspect() {
                    change(Standing::Recovered);
                }
                continue;
            }
            missed += 1;
            let replaced = pulse.replaced.load(Ordering::Relaxed);
            if missed >= MISSED_ALONE || (missed >= MISSED && replaced) {
                return beat.every.saturating_add(beat.patience.saturating_mul(missed));
            }
            if !pulse.is_suspect() {
                change(Standing::Suspect);
            }
        };
        if answered.is_err() {
            // The connection is over; its own future tells so.
            return pending().await;
        }
        if pulse.is_suspect() {
            change(Standing::Recovered);
        }
        tokio::time::sleep(beat.every).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::api::telling::Telling;

    const BEAT: Heartbeat = Heartbeat { every: Duration::from_secs(7), patience: Duration::from_secs(1) };
    /// An empty SETTINGS frame, and the acknowledgement of ours.
    const SETTINGS: [u8; 18] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
    /// A ping of the server's own: not the answer to ours.
    const OWN_PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// What became of a connection whose server does `script` and never answers a ping, and how long it was silent when
    /// it was given up, if it was before the script ended.
    async fn watched<F: Future<Output = ()>>(
        script: impl FnOnce(DuplexStream, Arc<Pulse>) -> F,
    ) -> (Vec<Standing>, Option<Duration>) {
        let (near, mut server) = duplex(1 << 16);
        let (wire, _, heard) = Telling::new(near);
        server.write_all(&SETTINGS).await.unwrap();
        let (_send, mut connection) = h2::client::handshake(wire).await.unwrap();
        let ping = connection.ping_pong();
        let pulse = Arc::new(Pulse::of(heard));
        let _open = pulse.open.stream();
        let told = Mutex::new(Vec::new());
        let end = tokio::select! {
            biased;
            _ = connection => panic!("the connection is over"),
            silence = stalled(ping, Arc::clone(&pulse), BEAT, |standing| told.lock().unwrap().push(standing)) => {
                Some(silence)
            }
            () = script(server, Arc::clone(&pulse)) => None,
        };
        (told.into_inner().unwrap(), end)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_suspect_first_and_given_up_when_another_one_works() {
        let silent = watched(|server, pulse| async move {
            let _server = server;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            assert!(pulse.is_suspect());
            pulse.replace();
            pending().await
        });
        assert_eq!(silent.await, (vec![Standing::Suspect], Some(Duration::from_secs(7 + 2))));
    }

    #[tokio::test(start_paused = true)]
    async fn while_there_is_no_other_connection_a_silent_one_is_kept_for_long() {
        let alone = watched(|server, _| async move {
            let _server = server;
            pending().await
        });
        assert_eq!(alone.await, (vec![Standing::Suspect], Some(Duration::from_secs(7 + 10))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_only_pauses_is_suspect_for_as_long() {
        let pauses = watched(|mut server, pulse| async move {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            pulse.replace();
            server.write_all(&OWN_PING).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!pulse.is_suspect());
        });
        assert_eq!(pauses.await, (vec![Standing::Suspect, Standing::Recovered], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_is_alive_though_it_does_not_answer_pings() {
        let sends = watched(|mut server, _| async move {
            for _ in 0..100 {
                server.write_all(&OWN_PING).await.unwrap();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        assert_eq!(sends.await, (Vec::new(), None));
    }
}
