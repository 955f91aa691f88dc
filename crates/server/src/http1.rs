//! HTTP/1 for few, short requests: one request per connection, with short timeouts.
//!
//! A client that is slow, silent or sends without end takes one slot for a few seconds, and no memory. When all slots are
//! taken, the oldest connection without a request is closed for the next one: silent clients never keep a request from
//! being served.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Deadline of a request's head. Upstream has none, and any client can hold a connection for ever. Clients of this server
/// are on this machine and send their request at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Deadline of a connection including its response.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Most headers of a request, and largest head in bytes. A health checker sends three headers.
const MOST_HEADERS: usize = 64;
const LARGEST_HEAD: usize = 8 * 1024;
/// Pause after a failed accept, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

pub(crate) type Answer = Response<Full<Bytes>>;

/// A listening socket.
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

/// Serves every request on `listener` with `handler`, at most `slots` at a time, until cancelled. The handler also gets the
/// result of `identify` for its connection.
pub(crate) async fn serve<L, G, H, F>(
    listener: &L,
    slots: usize,
    identify: fn(&L::Stream) -> G,
    handler: Arc<H>,
    cancel: &CancellationToken,
) where
    L: Listener,
    G: Clone + Send + Sync + 'static,
    H: Fn(G, Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(slots));
    let mut silent = VecDeque::new();
    // Dropping the set closes every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (slot, stream) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(listener, &slots, &mut silent) => next,
        };
        let greeting = identify(&stream);
        let (handler, peer) = (Arc::clone(&handler), Arc::new(Peer::default()));
        silent.push_back(Arc::clone(&peer));
        let serve = async move {
            let asking = Arc::clone(&peer);
            let service = service_fn(move |request| {
                asking.has_request.store(true, Ordering::Relaxed);
                let answer = handler(greeting.clone(), request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = builder().serve_connection(TokioIo::new(stream), service);
            let served = async {
                tokio::select! {
                    biased;
                    // First, so that a request that has arrived is served.
                    outcome = connection => match outcome {
                        Ok(()) => {}
                        Err(err) => debug!(%err, "The connection failed"),
                    },
                    () = peer.evicted.cancelled() => debug!("Closed a connection without a request in favour of a new one"),
                }
            };
            if tokio::time::timeout(WHOLE_TIMEOUT, served).await.is_err() {
                debug!("The connection timed out");
            }
            drop(slot);
        };
        connections.spawn(timed("local-connection", serve));
    }
}

/// The state of a connection.
#[derive(Default)]
struct Peer {
    /// Its request has arrived.
    has_request: AtomicBool,
    /// Cancelled when the connection is to be closed in favour of another.
    evicted: CancellationToken,
}

/// The next connection, with a slot. If this is dropped, a connection that is not accepted stays queued; one that is accepted
/// and waits for a slot is closed.
async fn next<L: Listener>(
    listener: &L,
    slots: &Arc<Semaphore>,
    silent: &mut VecDeque<Arc<Peer>>,
) -> (OwnedSemaphorePermit, L::Stream) {
    let stream = accepted(listener).await;
    // The task of a connection that has ended has dropped its reference.
    silent.retain(|peer| Arc::strong_count(peer) > 1 && !peer.has_request.load(Ordering::Relaxed));
    if slots.available_permits() == 0 {
        // Requests in the sockets' buffers are read before a connection counts as silent.
        tokio::task::yield_now().await;
        silent.retain(|peer| !peer.has_request.load(Ordering::Relaxed));
        if slots.available_permits() == 0
            && let Some(oldest) = silent.pop_front()
        {
            oldest.evicted.cancel();
        }
    }
    match Arc::clone(slots).acquire_owned().await {
        Ok(slot) => (slot, stream),
        // The semaphore is never closed.
        Err(_closed) => std::future::pending().await,
    }
}

async fn accepted<L: Listener>(listener: &L) -> L::Stream {
    let mut logged = false;
    loop {
        match listener.accept().await {
            Ok(stream) => return stream,
            Err(err) => {
                if !std::mem::replace(&mut logged, true) {
                    warn!(%err, "Failed to accept a connection; retrying");
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

/// A plain text.
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
