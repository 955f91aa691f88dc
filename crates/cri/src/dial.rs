//! Dials the runtime's socket, with a growing pause between attempts.
//!
//! A call during the pause fails at once with the last error, as it does upstream: the caller decides whether to wait.
//! upstream: cri-client remote_runtime.go NewRemoteRuntimeService (v1.36), CRI-01

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rubelet_core::time::Instant;
use tokio::net::UnixStream;

use crate::connection::Monotonic;
use crate::kept::{KeptCalls, KeptStream};
use crate::preface::{CheckedStream, PrefaceCheck};

/// Pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A socket whose queue is full makes `connect` wait; a runtime that slow counts as unavailable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The socket could not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {}{}", path.display(), advice(source.kind()))]
pub(crate) struct DialError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// What to do about an error of the kernel.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => ": no such socket, is the container runtime running?",
        ErrorKind::ConnectionRefused => ": nothing listens on it, is the container runtime running?",
        ErrorKind::PermissionDenied => ": permission denied",
        ErrorKind::TimedOut => ": the container runtime accepts no connection",
        _ => "",
    }
}

pub(crate) struct Dialler {
    path: PathBuf,
    preface: PrefaceCheck,
    now: Monotonic,
    /// Keeps the connection open when this process dies, if its calls are to outlive the process.
    kept: Option<Arc<KeptCalls>>,
    pause: Mutex<Pause>,
}

impl Dialler {
    pub(crate) fn new(path: PathBuf, preface: PrefaceCheck, now: Monotonic, kept: Option<Arc<KeptCalls>>) -> Self {
        Self { path, preface, now, kept, pause: Mutex::new(Pause::default()) }
    }

    pub(crate) async fn dial(&self) -> Result<TokioIo<CheckedStream>, DialError> {
        self.preface.forget();
        if let Some(kind) = self.pause().refuses((self.now)()) {
            return Err(self.error(kind.into()));
        }
        let outcome = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(&self.path))
            .await
            .unwrap_or_else(|_elapsed| Err(ErrorKind::TimedOut.into()));
        match outcome {
            Ok(stream) => {
                *self.pause() = Pause::default();
                let stream = match &self.kept {
                    Some(kept) => kept.keep(stream),
                    None => KeptStream::plain(stream),
                };
                Ok(TokioIo::new(self.preface.of(stream)))
            }
            Err(source) => {
                self.pause().extend(source.kind(), (self.now)());
                Err(self.error(source))
            }
        }
    }

    fn error(&self, source: io::Error) -> DialError {
        DialError { path: self.path.clone(), source }
    }

    fn pause(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until when not to dial, and the last error.
#[derive(Debug, Default)]
struct Pause {
    after: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    length: Duration,
    until: Instant,
}

impl Pause {
    fn refuses(&self, now: Instant) -> Option<ErrorKind> {
        self.after.as_ref().filter(|failure| now < failure.until).map(|failure| failure.kind)
    }

    fn extend(&mut self, kind: ErrorKind, now: Instant) {
        // gRPC's own factor of 1.6, in whole numbers.
        let length = self.after.as_ref().map_or(FIRST_PAUSE, |last| (last.length * 8 / 5).min(LONGEST_PAUSE));
        self.after = Some(Failure { kind, length, until: now + length });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn pauses_grow_from_100_ms_to_3_s_cri_01() {
        let mut pause = Pause::default();
        let mut now = Instant::START;
        let mut lengths = Vec::new();
        for _ in 0..10 {
            pause.extend(ErrorKind::NotFound, now);
            let length = pause.after.as_ref().expect("just extended").length;
            assert_eq!(pause.refuses(now + (length - Duration::from_nanos(1))), Some(ErrorKind::NotFound));
            assert_eq!(pause.refuses(now + length), None);
            now = now + length;
            lengths.push(length.as_millis());
        }
        assert_eq!(lengths, [100, 160, 256, 409, 655, 1048, 1677, 2684, 3000, 3000]);
    }

    #[tokio::test]
    async fn during_a_pause_the_socket_is_not_dialled_and_the_last_error_repeated() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("r.sock");
        let millis = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&millis);
        let now = Arc::new(move || Instant::from_millis(clock.load(Ordering::Relaxed)));
        let dialler = Dialler::new(path.clone(), PrefaceCheck::default(), now, None);

        let missing = dialler.dial().await.expect_err("no socket yet").to_string();
        assert_eq!(
            missing,
            format!("cannot connect to {}: no such socket, is the container runtime running?", path.display())
        );

        let _listener = tokio::net::UnixListener::bind(&path).expect("bind");
        millis.store(99, Ordering::Relaxed);
        assert_eq!(dialler.dial().await.expect_err("too early").to_string(), missing);
        millis.store(100, Ordering::Relaxed);
        dialler.dial().await.expect("the pause is over");
    }
}
