//! Connections: accepted, TLS handshake, served by HTTP/1.1 or HTTP/2, and limited.
//!
//! Until one of its requests is authorized, a connection has little time and one of few places, and may be closed in
//! favour of another (`table`). It is closed after its first 401: every further attempt costs a new handshake.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rubelet_engine::clock::Clock;
use rubelet_engine::task::timed;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::answers::Answer;
use super::handler::Handler;
use super::side_tasks::SideTasks;
use super::table::{Origin, Place, Table};
use super::tls::{PresentedChain, Tls};
use super::write_timeout::WriteTimeout;
use crate::log_limiter::LogLimiter;

/// Deadline of the TLS handshake, as in Go's clients.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Deadline of the first request after the handshake.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Deadline of the first authorized request. The API server may be slow to answer reviews.
const AUTHORIZED_WITHIN: Duration = Duration::from_secs(30);
/// Time for a rejected peer to read its last response.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Idle time between two requests. upstream: server.go ListenAndServeKubeletServer (v1.36)
const IDLE: Duration = Duration::from_secs(90);
/// Bytes of request heads that may wait on one connection until its first request is authenticated.
const MOST_WAITING_HEADS: usize = 256 * 1024;
/// Most headers of a request, and largest head in bytes including the request line. Upstream accepts 1 MiB; no client needs a
/// tenth of it, and any client that reaches the port may send it.
const MOST_HEADERS: usize = 128;
const LARGEST_HEAD: usize = 64 * 1024;
/// Concurrent requests on an HTTP/2 connection, as in Go.
const MOST_STREAMS: u32 = 250;
/// HTTP/2 window for request bodies, which are never read, and buffer for each response.
const WINDOW: u32 = 64 * 1024;
const MOST_UNSENT: usize = 64 * 1024;
/// Interval and timeout of HTTP/2 pings.
const PING_EVERY: Duration = Duration::from_secs(60);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// TCP keepalive time, as in Go.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Pause after a failed accept, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What every connection of a port needs.
#[derive(Clone)]
pub(super) struct Port {
    handler: Arc<Handler>,
    tls: Option<Arc<Tls>>,
    table: Arc<Table>,
    /// Write timeout.
    stall: Duration,
    accept_failures: Arc<LogLimiter>,
}

impl Port {
    pub(super) fn new(handler: Arc<Handler>, tls: Option<Arc<Tls>>, stall: Duration, clock: Clock) -> Self {
        Self { handler, tls, table: Arc::default(), stall, accept_failures: Arc::new(LogLimiter::new(clock)) }
    }
}

/// The client of a connection.
pub(super) struct Peer {
    /// Its certificate chain. The handshake has proved possession of the key and nothing else.
    pub(super) presented: PresentedChain,
    /// Work that runs beside the connection.
    pub(super) side: SideTasks,
    place: Place,
    /// A complete request head was received.
    head_received: AtomicBool,
    /// Number of requests being served.
    busy: Arc<AtomicUsize>,
    /// Number of requests so far.
    requests: AtomicUsize,
    /// Serializes requests until one is authorized, so that a rejected first request spares the others' reviews.
    turn: Semaphore,
    /// Bytes of the request heads that wait for their turn.
    waiting: AtomicUsize,
    /// The connection is being closed because a request was rejected.
    closing: CancellationToken,
}

/// A request being served, until dropped.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a request is rejected without authentication.
pub(super) enum TurnRefused {
    /// An earlier request of the connection was rejected.
    Closing,
    /// Too many requests wait for the first one.
    TooMany,
}

impl Peer {
    pub(super) fn new(presented: PresentedChain, place: Place) -> Arc<Self> {
        Arc::new(Self {
            presented,
            side: SideTasks::default(),
            place,
            head_received: AtomicBool::new(false),
            busy: Arc::default(),
            requests: AtomicUsize::new(0),
            turn: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            closing: CancellationToken::new(),
        })
    }

    pub(super) fn origin(&self) -> Origin {
        self.place.origin
    }

    /// Counts a request.
    pub(super) fn begin(&self) -> Busy {
        self.head_received.store(true, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.busy))
    }

    /// Waits for the turn of a request with a head of `size` bytes. Once a request was authorized, there is no wait.
    pub(super) async fn turn(&self, size: usize) -> Result<Option<SemaphorePermit<'_>>, TurnRefused> {
        if self.place.is_admitted() {
            return Ok(None);
        }
        let waiting = Waiting { bytes: &self.waiting, size };
        if self.waiting.fetch_add(size, Ordering::Relaxed).saturating_add(size) > MOST_WAITING_HEADS {
            return Err(TurnRefused::TooMany);
        }
        let turn = self.turn.acquire().await.map_err(|_closed| TurnRefused::Closing)?;
        drop(waiting);
        if self.closing.is_cancelled() { Err(TurnRefused::Closing) } else { Ok(Some(turn)) }
    }

    /// Marks the connection as admitted, after an authorized request. `false` if there is no room.
    pub(super) fn admit(&self) -> bool {
        self.place.admit()
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.place.is_admitted()
    }

    /// Closes the connection once the responses in progress are sent.
    pub(super) fn close_after_responses(&self) {
        self.closing.cancel();
    }

    /// Returns when the deadline for an authorized request has passed.
    async fn authentication_timeout(&self) {
        tokio::time::sleep(FIRST_REQUEST).await;
        if !self.head_received.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(AUTHORIZED_WITHIN.saturating_sub(FIRST_REQUEST)).await;
        if self.is_admitted() {
            std::future::pending().await
        }
    }

    /// Returns when there was no request for [`IDLE`] and none is being served.
    async fn idle(&self) {
        let mut before = usize::MAX;
        loop {
            let requests = self.requests.load(Ordering::Relaxed);
            if requests == before && self.busy.load(Ordering::Relaxed) == 0 {
                return;
            }
            before = requests;
            tokio::time::sleep(IDLE).await;
        }
    }
}

/// A waiting request head, until dropped.
struct Waiting<'a> {
    bytes: &'a AtomicUsize,
    size: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// Serves all connections until cancelled.
pub(super) async fn serve(listener: TcpListener, port: Port, cancel: &CancellationToken) {
    // Dropping the set closes every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, address) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(&listener, &port) => next,
        };
        let place = port.table.enter(Origin::of(address));
        let (evicted, port) = (place.evicted(), port.clone());
        let connection = async move {
            tokio::select! {
                biased;
                () = evicted.cancelled() => debug!(%address, "Closed an unauthenticated connection in favour of a new one"),
                () = handshake(stream, place, port) => {}
            }
        };
        connections.spawn(timed("server-connection", connection));
    }
}

/// The next connection. Cancel-safe: a connection that is not accepted stays queued.
async fn next(listener: &TcpListener, port: &Port) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address.ip()),
            Err(err) => {
                if let Some(suppressed) = port.accept_failures.permit() {
                    warn!(%err, suppressed, "Failed to accept a connection; retrying");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn handshake(stream: TcpStream, place: Place, port: Port) {
    let _best_effort = stream.set_nodelay(true);
    let _best_effort = sockopt::set_socket_keepalive(&stream, true);
    let _best_effort = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
    let _best_effort = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
    let Port { handler, stall, .. } = &port;
    let Some(tls) = &port.tls else {
        return serve_connection(stream, Protocol::Http1, Peer::new(PresentedChain::default(), place), handler, *stall)
            .await;
    };
    let handshake = async { TlsAcceptor::from(tls.config().await).accept(stream).await };
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => {
            let session = stream.get_ref().1;
            let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
            let chain = session.peer_certificates().unwrap_or_default();
            let presented = PresentedChain::new(chain.iter().map(|der| der.clone().into_owned()).collect());
            serve_connection(stream, protocol, Peer::new(presented, place), handler, *stall).await;
        }
        Ok(Err(err)) => debug!(%err, "TLS handshake failed"),
        Err(_elapsed) => debug!("TLS handshake timed out"),
    }
}

pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Serves one connection to its end. A write that is blocked for `stall` ends it.
pub(super) async fn serve_connection<S>(
    stream: S,
    protocol: Protocol,
    peer: Arc<Peer>,
    handler: &Arc<Handler>,
    stall: Duration,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let known = Arc::clone(&peer);
    let side = peer.side.clone();
    let handler = Arc::clone(handler);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, peer) = (Arc::clone(&handler), Arc::clone(&peer));
        async move { Ok::<Answer, Infallible>(handler.answer(&peer, request).await) }
    });
    let stream = TokioIo::new(WriteTimeout::new(stream, stall));
    let closing = &known.closing;
    let conversation = async {
        match protocol {
            Protocol::Http1 => {
                let connection = http1_builder().serve_connection(stream, service).with_upgrades();
                let (outcome, mut sessions) =
                    side.drive(connection, closing.cancelled(), |connection| connection.graceful_shutdown()).await;
                // A session continues after the request that started it.
                while sessions.next().await.is_some() {}
                outcome
            }
            Protocol::Http2 => {
                let connection = http2_builder(side.clone()).serve_connection(stream, service);
                let over = async {
                    tokio::select! {
                        biased;
                        () = closing.cancelled() => {}
                        () = known.idle() => {}
                    }
                };
                side.drive(connection, over, |connection| connection.graceful_shutdown()).await.0
            }
        }
    };
    let close_timeout = async {
        closing.cancelled().await;
        tokio::time::sleep(CLOSE_WITHIN).await;
    };
    tokio::select! {
        biased;
        outcome = conversation => match outcome {
            Ok(()) => {}
            Err(err) => debug!(%err, "The connection failed"),
        },
        () = known.authentication_timeout() => debug!("Closed a connection that was not authenticated in time"),
        () = close_timeout => debug!("Closed a rejected connection whose peer did not read the response"),
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(MOST_HEADERS)
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(2 * LARGEST_HEAD);
    builder
}

fn http2_builder(side: SideTasks) -> http2::Builder<SideTasks> {
    let mut builder = http2::Builder::new(side);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW)
        .max_send_buf_size(MOST_UNSENT)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WITHIN);
    builder
}
