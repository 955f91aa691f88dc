//! A TLS stream that keeps the reason for which the server closed it.
//!
//! In TLS 1.3 the server verifies the client certificate after the client has finished its handshake. A server that rejects
//! the certificate sends an alert and closes, and the client first sees a failed write. The alert can still be read then.

use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls;

use super::heartbeat::ReadCount;

/// Large enough for an alert; other data that is read here is lost with the connection.
const ALERT: usize = 256;

/// The TLS error that ended a connection.
pub(super) type TlsFailure = Arc<OnceLock<rustls::Error>>;

/// Keeps the TLS error, reading it after a failed write. Counts reads: a server that sends is alive.
pub(super) struct AlertStream<S> {
    wire: S,
    tls_failure: TlsFailure,
    reads: ReadCount,
    /// A failed write whose reason is being read.
    failed: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AlertStream<S> {
    pub(super) fn new(wire: S) -> (Self, TlsFailure, ReadCount) {
        let (tls_failure, reads) = (TlsFailure::default(), ReadCount::default());
        (Self { wire, tls_failure: Arc::clone(&tls_failure), reads: reads.clone(), failed: None }, tls_failure, reads)
    }

    fn keep(&self, error: &io::Error) {
        if let Some(said) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            // The first error is the cause; later ones follow from it.
            let _ = self.tls_failure.set(said.clone());
        }
    }

    /// Returns the result of a write; a failure only after the stream has been read to its end.
    fn explained<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(Err(failure)) if matches!(failure.kind(), BrokenPipe | ConnectionReset) => {
                self.failed = Some(failure);
                self.read_out(context).map(Err)
            }
            other => other,
        }
    }

    /// Reads to the end of the stream, which is near because the server has closed it.
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for AlertStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let result = Pin::new(&mut self.wire).poll_read(context, out);
        match &result {
            Poll::Ready(Err(error)) => self.keep(error),
            Poll::Ready(Ok(())) if out.filled().len() > before => self.reads.increment(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for AlertStream<S> {
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
