//! Proxies a session to the runtime's streaming server: the request is forwarded, and when the server upgrades the
//! connection to SPDY or WebSocket, bytes are copied both ways without being interpreted.
//!
//! Only the runtime's URL is connected to: a redirect is neither followed nor forwarded, and after a failed upgrade nothing
//! more is forwarded (CVE-2018-1002105).
//! upstream: apimachinery/pkg/util/proxy/upgradeaware.go tryUpgrade (v1.36)

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rubelet_engine::blocking::NAMES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing::debug;

use super::answers::{Answer, text, whole};
use super::connection::Peer;
use super::metrics::InFlight;

/// Deadline for connecting and upgrading: the runtime is on this machine.
const NEGOTIATE_WITHIN: Duration = Duration::from_secs(30);
/// Largest error response of a streaming server.
const LARGEST_REFUSAL: usize = 64 * 1024;
/// Size of the copy buffer.
const PIECE: usize = 32 * 1024;
/// Deadline for closing the other end of a finished session.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Why a session could not be started. The text is sent to the client.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the runtime returned an unusable streaming address: {0:?}")]
    Address(String),
    #[error("error dialing backend: {0}")]
    Connect(#[source] io::Error),
    #[error("error reading response from backend: {0}")]
    Http(#[from] hyper::Error),
    #[error("the backend did not respond in time")]
    Late,
    #[error("invalid upgrade response: status code {0}")]
    NotUpgraded(u16),
}

/// upstream: streaming/pkg/httpstream/httpstream.go IsUpgradeRequest (v1.36)
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    mentions(headers, CONNECTION, "upgrade")
}

pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    wants_upgrade(headers) && mentions(headers, UPGRADE, "websocket")
}

fn mentions(headers: &HeaderMap, name: http::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name);
    values.iter().any(|value| value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(word)))
}

/// Forwards `request` to `address`, and leaves the resulting session to the client's connection.
pub(super) async fn proxy(peer: &Peer, mut request: Request<Incoming>, address: &str, idle: Duration) -> Answer {
    let ours = hyper::upgrade::on(&mut request);
    let in_flight = request.extensions().get::<Arc<InFlight>>().cloned();
    match tokio::time::timeout(NEGOTIATE_WITHIN, negotiate(request, address)).await.unwrap_or(Err(SessionError::Late)) {
        Ok(Negotiated::Session(answer, theirs)) => {
            peer.side.push(async move {
                copy_both_ways(ours, theirs, idle).await;
                drop(in_flight);
            });
            answer
        }
        Ok(Negotiated::Refusal(answer)) => answer,
        Err(err) => {
            debug!(%err, "Failed to start a session with the runtime");
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("{err}\n"))
        }
    }
}

enum Negotiated {
    /// The response for the client, and the upgraded connection to the runtime.
    Session(Answer, Upgraded),
    Refusal(Answer),
}

async fn negotiate(request: Request<Incoming>, address: &str) -> Result<Negotiated, SessionError> {
    let (host, port, path) = parts(address).ok_or_else(|| SessionError::Address(address.to_owned()))?;
    let addresses = addresses(&host, port).await.map_err(SessionError::Connect)?;
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(SessionError::Connect)?;
    let _best_effort = stream.set_nodelay(true);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = pin!(connection.with_upgrades());

    let mut forwarded = Request::new(Empty::<Bytes>::new());
    *forwarded.method_mut() = request.method().clone();
    *forwarded.uri_mut() = Uri::from(path);
    *forwarded.headers_mut() = request.headers().clone();
    let headers = forwarded.headers_mut();
    // The request is authorized already; its credentials and its body are not forwarded.
    for name in [AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    if let Ok(host) = format!("{host}:{port}").parse() {
        headers.entry(HOST).or_insert(host);
    }

    let mut reply = pin!(sender.send_request(forwarded));
    let mut response = tokio::select! {
        biased;
        reply = &mut reply => reply?,
        ended = &mut connection => {
            // The connection ends when it is upgraded; the response is available by then.
            ended?;
            reply.await?
        }
    };
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            let mut answer = Response::new(whole(Bytes::new()));
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *answer.headers_mut() = response.headers().clone();
            let mut theirs = pin!(hyper::upgrade::on(&mut response));
            let theirs = tokio::select! {
                biased;
                theirs = &mut theirs => theirs?,
                ended = &mut connection => {
                    ended?;
                    theirs.await?
                }
            };
            Ok(Negotiated::Session(answer, theirs))
        }
        status if status.as_u16() < 400 => Err(SessionError::NotUpgraded(status.as_u16())),
        status => {
            let body = Limited::new(response.into_body(), LARGEST_REFUSAL).collect();
            let body = tokio::select! {
                biased;
                body = body => body.ok(),
                _ended = async { connection.await.is_err().then_some(()) } => None,
            };
            let message = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok(Negotiated::Refusal(text(status, message)))
        }
    }
}

/// The addresses of `host`, which is an address itself with every known runtime. A lookup blocks for as long as the
/// nameserver does not respond, so at most one runs per name, in the pool for names.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = host.to_owned();
    NAMES.run(host, move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
}

/// Host, port and path of a plain HTTP URL.
fn parts(address: &str) -> Option<(String, u16, PathAndQuery)> {
    let uri: Uri = address.parse().ok()?;
    if uri.scheme() != Some(&Scheme::HTTP) {
        return None;
    }
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Some((host, uri.port_u16().unwrap_or(80), path))
}

/// Copies bytes both ways until one end closes, or nothing has moved for `idle`.
async fn copy_both_ways(ours: OnUpgrade, theirs: Upgraded, idle: Duration) {
    let Ok(ours) = ours.await else { return };
    let (mut our_read, mut our_write) = tokio::io::split(TokioIo::new(ours));
    let (mut their_read, mut their_write) = tokio::io::split(TokioIo::new(theirs));
    let moved = AtomicU64::new(0);
    let idle_timeout = async {
        let mut before = None;
        while before != Some(moved.load(Ordering::Relaxed)) {
            before = Some(moved.load(Ordering::Relaxed));
            tokio::time::sleep(idle).await;
        }
    };
    let why = tokio::select! {
        outcome = copy(&mut their_read, &mut our_write, &moved) => ("the runtime", outcome.err()),
        outcome = copy(&mut our_read, &mut their_write, &moved) => ("the peer", outcome.err()),
        () = idle_timeout => ("idle timeout", None),
    };
    debug!(ended_by = why.0, err = why.1.map(tracing::field::display), "The session has ended");
    let closing = async { tokio::join!(our_write.shutdown(), their_write.shutdown()) };
    let _late = tokio::time::timeout(CLOSE_WITHIN, closing).await;
}

async fn copy<R, W>(from: &mut R, to: &mut W, moved: &AtomicU64) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut piece = vec![0; PIECE];
    loop {
        let size = from.read(&mut piece).await?;
        let Some(read) = piece.get(..size).filter(|read| !read.is_empty()) else { return Ok(()) };
        to.write_all(read).await?;
        to.flush().await?;
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn hostile_a_silent_nameserver_blocks_one_thread_of_the_pool_for_names() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let mut hung = pin!(NAMES.run("localhost", move || held.recv().is_err()));
        assert!(poll_fn(|cx| Poll::Ready(hung.as_mut().poll(cx).is_pending())).await);
        for _ in 0..100 {
            let mut next = pin!(addresses("localhost", 80));
            assert!(
                poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await,
                "it waits for the lookup before it"
            );
        }
        let ip = addresses("127.0.0.1", 80).await.expect("an address needs no lookup");
        assert_eq!(ip, ["127.0.0.1:80".parse().expect("an address")]);
        drop(release);
        hung.await;
        let found = addresses("localhost", 80).await.expect("every machine knows this name");
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
    }

    #[test]
    fn a_streaming_address_is_plain_http() {
        for (address, expected) in [
            ("http://127.0.0.1:34567/exec/abc", Some(("127.0.0.1", 34567, "/exec/abc"))),
            ("http://[::1]:80/attach/x?y=z", Some(("::1", 80, "/attach/x?y=z"))),
            ("http://localhost/", Some(("localhost", 80, "/"))),
            ("https://127.0.0.1/exec/abc", None),
            ("/exec/abc", None),
            ("", None),
        ] {
            let found = parts(address);
            let found = found.as_ref().map(|(host, port, path)| (host.as_str(), *port, path.as_str()));
            assert_eq!(found, expected, "{address}");
        }
    }
}
