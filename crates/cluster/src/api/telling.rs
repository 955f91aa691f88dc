//! A connection that tells why it was closed.
//!
//! In TLS 1.3 the server looks at our certificate when we already think that all is well. If it does not like it, it says so
//! and hangs up, and what we see first is that nothing can be written any more. The reason is still there to be read.

use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls;

use super::pulse::Heard;

/// Large enough for an alert; what else is read is lost with the connection.
const ALERT: usize = 256;

/// What TLS said when it was over.
pub(super) type Told = Arc<OnceLock<rustls::Error>>;

/// Keeps what TLS says, and looks for it when a write fails. Counts what is read: a server that sends is alive.
pub(super) struct Telling<S> {
    wire: S,
    told: Told,
    heard: Heard,
    /// A write failed; its reason is being looked for.
    failed: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Telling<S> {
    pub(super) fn new(wire: S) -> (Self, Told, Heard) {
        let (told, heard) = (Told::default(), Heard::default());
        (Self { wire, told: Arc::clone(&told), heard: heard.clone(), failed: None }, told, heard)
    }

    fn keep(&self, error: &io::Error) {
        if let Some(said) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            // The first word counts.
            let _ = self.told.set(said.clone());
        }
    }

    /// Passes on what a write came to; a failure only after everything has been read.
    fn explained<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(Err(failure)) if matches!(failure.kind(), BrokenPipe | ConnectionReset) => {
                self.failed = Some(failure);
                self.read_out(context).map(Err)
            }
            other => other,
        }
    }

    /// Reads to the end, which is near: the other side is gone.
    fn read_out(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let mut buffer = [0; ALERT];
        loop {
            let mut buffer = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.wire).poll_read(context, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(end) => {
                    if let Err(error) = &end {
                        self.keep(error);
                    }
                    return Poll::Ready(self.failed.take().unwrap_or(BrokenPipe.into()));
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Telling<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let result = Pin::new(&mut self.wire).poll_read(context, out);
        match &result {
            Poll::Ready(Err(error)) => self.keep(error),
            Poll::Ready(Ok(())) if out.filled().len() > before => self.heard.something(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Telling<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return self.read_out(context).map(Err);
        }
        let result = Pin::new(&mut self.wire).poll_write(context, data);
        self.explained(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return self.read_out(context).map(Err);
        }
        let result = Pin::new(&mut self.wire).poll_write_vectored(context, data);
        self.explained(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return self.read_out(context).map(Err);
        }
        let result = Pin::new(&mut self.wire).poll_flush(context);
        self.explained(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}
