//! HTTP/1 for few, short requests: one request per connection, and nobody can hold one for long.
//!
//! A peer that is slow, silent or sends without end costs one slot for a few seconds, and no memory. When every slot is
//! taken, the oldest connection whose request has not come yet is closed for the next peer: silent peers keep no request
//! from being answered, however many they are.

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

/// A request's head has to come within this. Upstream has no such limit, and any peer can hold a connection for ever.
/// Its clients are on this machine and send a request at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
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
    let mut silent = VecDeque::new();
    // Dropped, and with it every connection, when this returns.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (slot, stream) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(listener, &slots, &mut silent) => next,
        };
        let greeting = greet(&stream);
        let (handler, peer) = (Arc::clone(&handler), Arc::new(Peer::default()));
        silent.push_back(Arc::clone(&peer));
        let serve = async move {
            let asking = Arc::clone(&peer);
            let service = service_fn(move |request| {
                asking.has_asked.store(true, Ordering::Relaxed);
                let answer = handler(greeting.clone(), request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = builder().serve_connection(TokioIo::new(stream), service);
            let served = async {
                tokio::select! {
                    biased;
                    // First, so that a request that has come is answered.
                    outcome = connection => match outcome {
                        Ok(()) => {}
                        Err(err) => debug!(%err, "A peer went away or sent no request"),
                    },
                    () = peer.gives_way.cancelled() => debug!("A connection without a request gave way to another"),
                }
            };
            if tokio::time::timeout(WHOLE_TIMEOUT, served).await.is_err() {
                debug!("A peer took too long");
            }
            drop(slot);
        };
        connections.spawn(timed("local-connection", serve));
    }
}

/// A connection, as far as it matters to others.
#[derive(Default)]
struct Peer {
    /// Its request has come.
    has_asked: AtomicBool,
    /// It is to be closed for another peer.
    gives_way: CancellationToken,
}

/// The next peer, with a slot for it. A peer not accepted yet stays queued if this is dropped; one that is accepted and
/// waits for a slot is closed.
async fn next<L: Listener>(
    listener: &L,
    slots: &Arc<Semaphore>,
    silent: &mut VecDeque<Arc<Peer>>,
) -> (OwnedSemaphorePermit, L::Stream) {
    let stream = accepted(listener).await;
    // Those that have ended hold their last reference here.
    silent.retain(|peer| Arc::strong_count(peer) > 1 && !peer.has_asked.load(Ordering::Relaxed));
    if slots.available_permits() == 0 {
        // Requests that are in the sockets' buffers already are read before anybody is judged silent.
        tokio::task::yield_now().await;
        silent.retain(|peer| !peer.has_asked.load(Ordering::Relaxed));
        if slots.available_permits() == 0
            && let Some(oldest) = silent.pop_front()
        {
            oldest.gives_way.cancel();
        }
    }
    match Arc::clone(slots).acquire_owned().await {
        Ok(slot) => (slot, stream),
        // The semaphore is never closed.
        Err(_closed) => std::future::pending().await,
    }
}

async fn accepted<L: Listener>(listener: &L) -> L::Stream {
    let mut told = false;
    loop {
        match listener.accept().await {
            Ok(stream) => return stream,
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
