//! Connections: accepted, shaken hands with, served by HTTP/1.1 or HTTP/2, and held to limits.
//!
//! There are two kinds of slots. A peer that has not shown who it is has one of few, and loses it soon; once a request of
//! its was let in, it has one of many. So whoever can only reach the port can hold up others like him, and nobody else.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rubelet_engine::task::timed;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::answers::Answer;
use super::handler::Handler;
use super::side::Side;
use super::tls::Tls;

/// Peers that have not shown who they are.
pub(super) const STRANGERS: usize = 256;
/// … have to do so within this, handshake and all.
const INTRODUCTION: Duration = Duration::from_secs(30);
/// Peers that have. Each costs a descriptor, a session two.
const FRIENDS: usize = 4096;
/// How long a connection may lie idle between two requests. upstream: server.go ListenAndServeKubeletServer (v1.36)
const IDLE: Duration = Duration::from_secs(90);
/// Headers of a request, in number and in bytes. Upstream takes 1 MiB; nobody sends a tenth of it, and a stranger may.
const MOST_HEADERS: usize = 128;
const LARGEST_HEAD: usize = 64 * 1024;
/// Requests at a time on one connection of HTTP/2. As Go has it.
const MOST_STREAMS: u32 = 250;
/// How often a peer on HTTP/2 is asked whether it is there, and how soon it must say so.
const PING_EVERY: Duration = Duration::from_secs(60);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// When the kernel asks a silent peer whether it is there. As Go has it.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// After a failure to accept (no file descriptor left), how long before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Doors {
    handler: Arc<Handler>,
    tls: Option<Arc<Tls>>,
    strangers: Arc<Semaphore>,
    friends: Arc<AtomicUsize>,
}

impl Doors {
    pub(super) fn new(handler: Arc<Handler>, tls: Option<Arc<Tls>>) -> Self {
        Self { handler, tls, strangers: Arc::new(Semaphore::new(STRANGERS)), friends: Arc::default() }
    }
}

/// Who is at the other end, as far as the connection tells.
pub(super) struct Peer {
    /// What it showed in the handshake: it has the key, and nothing else is known.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// What it asked for and the connection does beside itself.
    pub(super) side: Side,
    /// The slot of a stranger; none for a friend.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    friends: Arc<AtomicUsize>,
}

impl Peer {
    #[cfg(test)]
    pub(super) fn stranger() -> Arc<Self> {
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().ok();
        Arc::new(Self {
            certificates: Vec::new(),
            side: Side::default(),
            slot: Mutex::new(slot),
            friends: Arc::default(),
        })
    }

    /// It has shown who it is: its slot is another's. `false` if there is no room for it.
    pub(super) fn befriend(&self) -> bool {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            if self.friends.fetch_add(1, Ordering::Relaxed) >= FRIENDS {
                self.friends.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            *slot = None;
        }
        true
    }

    fn is_friend(&self) -> bool {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.is_friend() {
            self.friends.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Serves whoever connects, until cancelled.
pub(super) async fn serve(listener: TcpListener, doors: Doors, cancel: &CancellationToken) {
    // Dropped, and with it every connection, when this returns.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let (slot, stream) = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            next = next(&listener, &doors.strangers) => next,
        };
        connections.spawn(timed("server-connection", greet(stream, slot, doors.clone())));
    }
}

/// The next peer, once there is a slot for it. Cancel-safe: a slot is given back, a peer not accepted yet stays queued.
async fn next(listener: &TcpListener, slots: &Arc<Semaphore>) -> (OwnedSemaphorePermit, TcpStream) {
    let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
        // It is never closed.
        return std::future::pending().await;
    };
    let mut told = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (slot, stream),
            Err(err) => {
                if !std::mem::replace(&mut told, true) {
                    warn!(%err, "Cannot accept a connection: trying again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn greet(stream: TcpStream, slot: OwnedSemaphorePermit, doors: Doors) {
    let _best_effort = stream.set_nodelay(true);
    let _best_effort = sockopt::set_socket_keepalive(&stream, true);
    let _best_effort = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
    let _best_effort = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
    let peer = |certificates| {
        let (slot, friends) = (Mutex::new(Some(slot)), Arc::clone(&doors.friends));
        Arc::new(Peer { certificates, side: Side::default(), slot, friends })
    };
    let Some(tls) = &doors.tls else { return talk(stream, Protocol::Http1, peer(Vec::new()), &doors.handler).await };
    let acceptor = TlsAcceptor::from(tls.config().await);
    match tokio::time::timeout(INTRODUCTION, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let session = stream.get_ref().1;
            let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
            let shown = session.peer_certificates().unwrap_or_default();
            let peer = peer(shown.iter().map(|der| der.clone().into_owned()).collect());
            talk(stream, protocol, peer, &doors.handler).await;
        }
        Ok(Err(err)) => debug!(%err, "A peer did not complete the handshake"),
        Err(_elapsed) => debug!("A peer took too long over the handshake"),
    }
}

pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) async fn talk<S>(stream: S, protocol: Protocol, peer: Arc<Peer>, handler: &Arc<Handler>)
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
    let stream = TokioIo::new(stream);
    let conversation = async {
        match protocol {
            Protocol::Http1 => {
                let (outcome, mut sessions) =
                    side.drive(http1_builder().serve_connection(stream, service).with_upgrades()).await;
                // A session goes on where the request that asked for it ended.
                while sessions.next().await.is_some() {}
                outcome
            }
            Protocol::Http2 => side.drive(http2_builder(side.clone()).serve_connection(stream, service)).await.0,
        }
    };
    let stranger = async {
        tokio::time::sleep(INTRODUCTION).await;
        if known.is_friend() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        outcome = conversation => match outcome {
            Ok(()) => {}
            Err(err) => debug!(%err, "A peer went away or sent no request"),
        },
        () = stranger => debug!("A peer did not show who it is in time"),
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(MOST_HEADERS)
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(4 * LARGEST_HEAD);
    builder
}

fn http2_builder(side: Side) -> http2::Builder<Side> {
    let mut builder = http2::Builder::new(side);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WITHIN);
    builder
}
