//! Checks the beginning of a connection: an HTTP/2 server sends a SETTINGS frame first, and no other server does.
//!
//! The transport may notice too, but if that happens before it has sent our call it only reports a closed connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::kept::KeptStream;

/// Offset of the type in a frame's header.
const KIND_AT: usize = 3;
/// The type of the first frame.
const SETTINGS: u8 = 4;

/// Whether the last server connected to does not speak HTTP/2.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefaceCheck {
    not_http2: Arc<AtomicBool>,
}

impl PrefaceCheck {
    /// The last server connected to does not speak HTTP/2.
    pub(crate) fn is_not_http2(&self) -> bool {
        self.not_http2.load(Ordering::Relaxed)
    }

    /// Called before a new connection is made.
    pub(crate) fn forget(&self) {
        self.not_http2.store(false, Ordering::Relaxed);
    }

    /// Checks a connection that has just been made.
    pub(crate) fn of(&self, stream: KeptStream) -> CheckedStream {
        CheckedStream { stream, received: 0, check: self.clone() }
    }
}

/// A connection whose first frame is checked.
#[derive(Debug)]
pub(crate) struct CheckedStream {
    stream: KeptStream,
    /// Bytes received so far, up to the frame's type.
    received: usize,
    check: PrefaceCheck,
}

impl CheckedStream {
    fn check(&mut self, data: &[u8]) {
        if self.received > KIND_AT {
            return;
        }
        if data.get(KIND_AT - self.received).is_some_and(|kind| *kind != SETTINGS) {
            self.check.not_http2.store(true, Ordering::Relaxed);
        }
        self.received = self.received.saturating_add(data.len());
    }
}

impl AsyncRead for CheckedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.check(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CheckedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
