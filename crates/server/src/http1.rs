//! HTTP/1 for few, short requests: one request per connection, and nobody can hold one for long.
//!
//! A peer that is slow, silent or sends without end costs one slot for a few seconds, never memory and never another
//! peer's answer for longer than that.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rubelet_engine::task::timed;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// A request's head has to come within this. Upstream has no such limit, and any peer can hold a connection for ever.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection, with its answer, has to be over within this.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Headers of a request, in number and in bytes. A health checker sends three.
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 8 * 1024;
/// After a failure to accept (no file descriptor left), how long before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

pub(crate) type Answer = Response<Full<Bytes>>;

/// A socket that peers connect to.
pub(crate) trait Listener: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Answers every request on `listener` with `handler`, at most `slots` at a time, until cancelled. The handler also gets
/// what `greet` made of the connection.
pub(crate) async fn serve<L, G, H, F>(
    listener: &L,
    slots: usize,
    greet: fn(&L::Stream) -> G,
    handler: Arc<H>,
    cancel: &CancellationToken,
) where
    L: Listener,
    G: Clone + Send + Sync + 'static,
    H: Fn(G, Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(slots));
    // Dropped, and with it every connection, when this returns.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (slot, stream) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(listener, &slots) => next,
        };
        let greeting = greet(&stream);
        let handler = Arc::clone(&handler);
        let serve = async move {
            let service = service_fn(move |request| {
                let answer = handler(greeting.clone(), request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = builder().serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(WHOLE_TIMEOUT, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(err)) => debug!(%err, "A peer went away or sent no request"),
                Err(_elapsed) => debug!("A peer took too long"),
            }
            drop(slot);
        };
        connections.spawn(timed("local-connection", serve));
    }
}

/// The next peer, once there is a slot for it. Cancel-safe: a slot is given back, a peer not accepted yet stays queued.
async fn next<L: Listener>(listener: &L, slots: &Arc<Semaphore>) -> (OwnedSemaphorePermit, L::Stream) {
    let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
        // It is never closed.
        return std::future::pending().await;
    };
    let mut told = false;
    loop {
        match listener.accept().await {
            Ok(stream) => return (slot, stream),
            Err(err) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(%err, "Cannot accept a connection: trying again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MOST_HEADERS)
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(2 * LARGEST_HEAD);
    builder
}

/// A text, marked as nothing else.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.into())
}

pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
