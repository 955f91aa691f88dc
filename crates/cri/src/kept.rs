//! Calls that the runtime finishes when this process dies.
//!
//! A runtime cancels a call when its connection is closed, and a connection is closed with its last descriptor.
//! Mutating calls therefore go over a connection of which the port [`SocketHolder`] has a duplicate. The holder also
//! learns how long the calls in flight may last, so that it knows how long to keep the duplicates after our end (ADR
//! 13).

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rubelet_engine::ports::SocketHolder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// The longest that a call outlives this process. Only a pull (no deadline) and a stop with a long grace period last
/// longer; the next agent has repeated both long before, and cancelling them then does no harm.
const LONGEST_HOLD: Duration = Duration::from_secs(600);

/// Whether this process is about to exit in good order. From then on nothing is written to a kept connection, so that
/// dropping the future of a call does not cancel the call in the runtime.
#[derive(Clone, Debug, Default)]
pub struct HandOver {
    begun: Arc<AtomicBool>,
}

impl HandOver {
    /// Leaves the calls in flight to the runtime and to the holder. Must be called before any task is cancelled.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

/// The calls in flight that outlive this process. One value serves the runtime and its images.
pub struct KeptCalls {
    holder: Arc<dyn SocketHolder>,
    hand_over: HandOver,
    in_flight: Mutex<InFlight>,
}

#[derive(Default)]
struct InFlight {
    /// Number of calls by their deadline.
    lasting: BTreeMap<Duration, usize>,
    /// The time last sent to the holder.
    sent: Duration,
}

impl KeptCalls {
    /// Calls whose connections `holder` keeps open.
    pub fn new(holder: Arc<dyn SocketHolder>, hand_over: HandOver) -> Self {
        Self { holder, hand_over, in_flight: Mutex::default() }
    }

    /// Counts a call with this deadline until the returned value is dropped. The holder is informed before the call is
    /// sent.
    pub(crate) fn begin(self: &Arc<Self>, deadline: Option<Duration>) -> KeptCall {
        let lasts = deadline.unwrap_or(LONGEST_HOLD).min(LONGEST_HOLD);
        self.change(|lasting| *lasting.entry(lasts).or_default() += 1);
        KeptCall { calls: Arc::clone(self), lasts }
    }

    /// Sends the holder a duplicate of a new connection.
    pub(crate) fn keep(self: &Arc<Self>, stream: UnixStream) -> KeptStream {
        self.holder.hold(stream.as_fd());
        KeptStream { stream, hand_over: Some(self.hand_over.clone()) }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Duration, usize>)) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut in_flight.lasting);
        let longest = in_flight.lasting.last_key_value().map(|(lasts, _)| *lasts).unwrap_or_default();
        if longest != in_flight.sent {
            in_flight.sent = longest;
            self.holder.keep_after_end(longest);
        }
    }
}

/// One call in flight.
pub(crate) struct KeptCall {
    calls: Arc<KeptCalls>,
    lasts: Duration,
}

impl Drop for KeptCall {
    fn drop(&mut self) {
        // A call dropped during the hand-over continues in the runtime.
        if self.calls.hand_over.has_begun() {
            return;
        }
        self.calls.change(|lasting| {
            if let Some(count) = lasting.get_mut(&self.lasts) {
                *count -= 1;
                if *count == 0 {
                    lasting.remove(&self.lasts);
                }
            }
        });
    }
}

/// A connection to the runtime, of which the holder may have a duplicate.
#[derive(Debug)]
pub(crate) struct KeptStream {
    stream: UnixStream,
    /// `None`: there is no duplicate.
    hand_over: Option<HandOver>,
}

impl KeptStream {
    /// A connection that ends with this process.
    pub(crate) fn plain(stream: UnixStream) -> Self {
        Self { stream, hand_over: None }
    }

    fn is_handed_over(&self) -> bool {
        self.hand_over.as_ref().is_some_and(HandOver::has_begun)
    }
}

impl Drop for KeptStream {
    /// Closing our descriptor would not end the connection: the holder's duplicate keeps it open.
    fn drop(&mut self) {
        if self.hand_over.is_none() || self.is_handed_over() {
            return;
        }
        if let Ok(duplicate) = self.stream.as_fd().try_clone_to_owned() {
            // Fails only if the runtime has closed the connection, which is as good.
            let _closed = StdStream::from(duplicate).shutdown(Shutdown::Both);
        }
    }
}

impl AsyncRead for KeptStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for KeptStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_handed_over() {
            // Never woken again: this process is exiting.
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_handed_over() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_handed_over() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
