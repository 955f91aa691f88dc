//! Listens to how a connection begins: a server of HTTP/2 first sends a frame of settings, and nothing else does.
//!
//! The transport may notice too, but if it does before it has sent our call it only says that the connection was closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::kept::KeptStream;

/// Where a frame says what kind it is.
const KIND_AT: usize = 3;
/// The kind of the first frame.
const SETTINGS: u8 = 4;

/// Whether whoever was spoken to last speaks another language.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstWords {
    foreign: Arc<AtomicBool>,
}

impl FirstWords {
    /// Whoever was spoken to last speaks another language.
    pub(crate) fn were_foreign(&self) -> bool {
        self.foreign.load(Ordering::Relaxed)
    }

    /// Somebody else is spoken to from now on.
    pub(crate) fn forget(&self) {
        self.foreign.store(false, Ordering::Relaxed);
    }

    /// Listens to a connection that has just been made.
    pub(crate) fn of(&self, stream: KeptStream) -> Heard {
        Heard { stream, heard: 0, first: self.clone() }
    }
}

/// A connection whose first words are listened to.
#[derive(Debug)]
pub(crate) struct Heard {
    stream: KeptStream,
    /// How many bytes have come, up to the one that tells.
    heard: usize,
    first: FirstWords,
}

impl Heard {
    fn hear(&mut self, words: &[u8]) {
        if self.heard > KIND_AT {
            return;
        }
        if words.get(KIND_AT - self.heard).is_some_and(|kind| *kind != SETTINGS) {
            self.first.foreign.store(true, Ordering::Relaxed);
        }
        self.heard = self.heard.saturating_add(words.len());
    }
}

impl AsyncRead for Heard {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.hear(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Heard {
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
