//! Connections: accepted, shaken hands with, served by HTTP/1.1 or HTTP/2, and held to limits.
//!
//! Until a request of it was let in, a connection has little time and one of few places, which it may have to give to
//! another (`table`). It ends with its first 401: every further try costs a new handshake.

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
use super::patient::Patient;
use super::side::Side;
use super::table::{Origin, Place, Table};
use super::tls::{Shown, Tls};
use crate::rarely::Rarely;

/// A peer has to complete the handshake within this. As Go's clients have it.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// … and then to send a request within this; …
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// … and one of its requests has to be let in within this. The API server may be slow to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(30);
/// How long a peer that is dismissed may take to read its last answer.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a connection may lie idle between two requests. upstream: server.go ListenAndServeKubeletServer (v1.36)
const IDLE: Duration = Duration::from_secs(90);
/// Heads of requests that wait on one connection until it is known who sent the first, in bytes together.
const MOST_WAITING_HEADS: usize = 256 * 1024;
/// Headers of a request, in number and in bytes, the request line among them. Upstream takes 1 MiB; no client needs a tenth
/// of it, and everybody who reaches the port may send it.
const MOST_HEADERS: usize = 128;
const LARGEST_HEAD: usize = 64 * 1024;
/// Requests at a time on one connection of HTTP/2. As Go has it.
const MOST_STREAMS: u32 = 250;
/// What a peer on HTTP/2 may send of bodies, which nobody reads, and what is kept for it of each answer.
const WINDOW: u32 = 64 * 1024;
const MOST_UNSENT: usize = 64 * 1024;
/// How often a peer on HTTP/2 is asked whether it is there, and how soon it must say so.
const PING_EVERY: Duration = Duration::from_secs(60);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// When the kernel asks a silent peer whether it is there. As Go has it.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// After a failure to accept (no file descriptor left), how long before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Port {
    handler: Arc<Handler>,
    tls: Option<Arc<Tls>>,
    table: Arc<Table>,
    /// How long a peer may read nothing of what it asked for.
    stall: Duration,
    accept_failures: Arc<Rarely>,
}

impl Port {
    pub(super) fn new(handler: Arc<Handler>, tls: Option<Arc<Tls>>, stall: Duration, clock: Clock) -> Self {
        Self { handler, tls, table: Arc::default(), stall, accept_failures: Arc::new(Rarely::new(clock)) }
    }
}

/// Who is at the other end, as far as the connection shows.
pub(super) struct Peer {
    /// What it showed in the handshake: it has the key, and nothing else is known.
    pub(super) shown: Shown,
    /// What it asked for and the connection does beside itself.
    pub(super) side: Side,
    place: Place,
    /// It has sent a whole head.
    asked: AtomicBool,
    /// Requests that are not over.
    busy: Arc<AtomicUsize>,
    /// Requests so far.
    requests: AtomicUsize,
    /// Until one request was let in they are looked at one by one, so that a refusal of the first spares the others.
    turn: Semaphore,
    /// Bytes of the heads that wait for their turn.
    waiting: AtomicUsize,
    /// It was refused something: the connection ends.
    dismissed: CancellationToken,
}

/// A request is being answered, until dropped.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a request is not even looked at.
pub(super) enum NoTurn {
    /// An earlier request of the connection was refused.
    Dismissed,
    /// Too many requests wait until the first was looked at.
    TooMany,
}

impl Peer {
    pub(super) fn new(shown: Shown, place: Place) -> Arc<Self> {
        Arc::new(Self {
            shown,
            side: Side::default(),
            place,
            asked: AtomicBool::new(false),
            busy: Arc::default(),
            requests: AtomicUsize::new(0),
            turn: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            dismissed: CancellationToken::new(),
        })
    }

    pub(super) fn origin(&self) -> Origin {
        self.place.origin
    }

    /// A request has come.
    pub(super) fn begin(&self) -> Busy {
        self.asked.store(true, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.busy))
    }

    /// Waits until a request with a head of `size` bytes may be looked at. Nothing has to wait once one was let in.
    pub(super) async fn turn(&self, size: usize) -> Result<Option<SemaphorePermit<'_>>, NoTurn> {
        if self.place.is_admitted() {
            return Ok(None);
        }
        let waiting = Waiting { bytes: &self.waiting, size };
        if self.waiting.fetch_add(size, Ordering::Relaxed).saturating_add(size) > MOST_WAITING_HEADS {
            return Err(NoTurn::TooMany);
        }
        let turn = self.turn.acquire().await.map_err(|_closed| NoTurn::Dismissed)?;
        drop(waiting);
        if self.dismissed.is_cancelled() { Err(NoTurn::Dismissed) } else { Ok(Some(turn)) }
    }

    /// A request of it was let in. `false` if there is no room for it.
    pub(super) fn admit(&self) -> bool {
        self.place.admit()
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.place.is_admitted()
    }

    /// The connection ends once the answers that have begun were sent.
    pub(super) fn dismiss(&self) {
        self.dismissed.cancel();
    }

    /// Returns when the peer has not shown in time who it is.
    async fn late(&self) {
        tokio::time::sleep(FIRST_REQUEST).await;
        if !self.asked.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(INTRODUCTION.saturating_sub(FIRST_REQUEST)).await;
        if self.is_admitted() {
            std::future::pending().await
        }
    }

    /// Returns when nothing was asked for [`IDLE`], and nothing is being answered.
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

/// A head waits, until dropped.
struct Waiting<'a> {
    bytes: &'a AtomicUsize,
    size: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// Serves every client that connects, until cancelled.
pub(super) async fn serve(listener: TcpListener, port: Port, cancel: &CancellationToken) {
    // Dropped, and with it every connection, when this returns.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, address) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(&listener, &port) => next,
        };
        let place = port.table.enter(Origin::of(address));
        let (gives_way, port) = (place.gives_way(), port.clone());
        let connection = async move {
            tokio::select! {
                biased;
                () = gives_way.cancelled() => debug!(%address, "A connection that showed nothing gave way to another"),
                () = greet(stream, place, port) => {}
            }
        };
        connections.spawn(timed("server-connection", connection));
    }
}

/// The next peer. Cancel-safe: a peer not accepted yet stays queued.
async fn next(listener: &TcpListener, port: &Port) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address.ip()),
            Err(err) => {
                if let Some(left_out) = port.accept_failures.turn() {
                    warn!(%err, left_out, "Cannot accept a connection: trying again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn greet(stream: TcpStream, place: Place, port: Port) {
    let _best_effort = stream.set_nodelay(true);
    let _best_effort = sockopt::set_socket_keepalive(&stream, true);
    let _best_effort = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
    let _best_effort = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
    let Port { handler, stall, .. } = &port;
    let Some(tls) = &port.tls else {
        return talk(stream, Protocol::Http1, Peer::new(Shown::default(), place), handler, *stall).await;
    };
    let handshake = async { TlsAcceptor::from(tls.config().await).accept(stream).await };
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => {
            let session = stream.get_ref().1;
            let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
            let chain = session.peer_certificates().unwrap_or_default();
            let shown = Shown::new(chain.iter().map(|der| der.clone().into_owned()).collect());
            talk(stream, protocol, Peer::new(shown, place), handler, *stall).await;
        }
        Ok(Err(err)) => debug!(%err, "A peer did not complete the handshake"),
        Err(_elapsed) => debug!("A peer took too long over the handshake"),
    }
}

pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Serves one connection to its end. A peer that reads nothing for `stall` is cut off.
pub(super) async fn talk<S>(stream: S, protocol: Protocol, peer: Arc<Peer>, handler: &Arc<Handler>, stall: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let known = Arc::clone(&peer);
    let side = peer.side.clone();
    let handler = Arc::clone(handler);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, peer) = (Arc::clone(&handler), Arc::clone(&peer));
        async move { Ok::<Answer, Infallible>(handler.answer(&peer, request).await) }
    });
    let stream = TokioIo::new(Patient::new(stream, stall));
    let dismissed = &known.dismissed;
    let conversation = async {
        match protocol {
            Protocol::Http1 => {
                let connection = http1_builder().serve_connection(stream, service).with_upgrades();
                let (outcome, mut sessions) =
                    side.drive(connection, dismissed.cancelled(), |connection| connection.graceful_shutdown()).await;
                // A session goes on where the request that asked for it ended.
                while sessions.next().await.is_some() {}
                outcome
            }
            Protocol::Http2 => {
                let connection = http2_builder(side.clone()).serve_connection(stream, service);
                let over = async {
                    tokio::select! {
                        biased;
                        () = dismissed.cancelled() => {}
                        () = known.idle() => {}
                    }
                };
                side.drive(connection, over, |connection| connection.graceful_shutdown()).await.0
            }
        }
    };
    let farewell = async {
        dismissed.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        biased;
        outcome = conversation => match outcome {
            Ok(()) => {}
            Err(err) => debug!(%err, "A peer went away or sent no request"),
        },
        () = known.late() => debug!("A peer did not show who it is in time"),
        () = farewell => debug!("A peer that was dismissed did not read its answer"),
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

fn http2_builder(side: Side) -> http2::Builder<Side> {
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
