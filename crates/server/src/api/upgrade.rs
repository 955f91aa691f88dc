//! A session between two ends that both speak something else than HTTP: the request is passed on, and when the runtime's
//! streaming server agrees to speak SPDY or WebSocket, bytes are carried both ways. Nothing of them is understood here.
//!
//! The runtime gives an address, and that is where we go; a redirect is never followed and never passed on, and an end
//! that does not agree gets no second word (CVE-2018-1002105).
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

/// The runtime is on this machine: to connect and to agree takes no longer.
const AGREE_WITHIN: Duration = Duration::from_secs(30);
/// What a streaming server may say when it refuses.
const LARGEST_REFUSAL: usize = 64 * 1024;
/// What is carried at a time.
const PIECE: usize = 32 * 1024;
/// How long an end may take to hear that the session is over.
const FAREWELL: Duration = Duration::from_secs(5);

/// A session could not be begun. The words go to whoever asked.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the runtime gave an address that cannot be used: {0:?}")]
    Address(String),
    #[error("error dialing backend: {0}")]
    Connect(#[source] io::Error),
    #[error("error reading response from backend: {0}")]
    Http(#[from] hyper::Error),
    #[error("the backend did not answer in time")]
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

/// Passes `request` on to `address`, and leaves the session that comes of it to the peer's connection.
pub(super) async fn proxy(peer: &Peer, mut request: Request<Incoming>, address: &str, idle: Duration) -> Answer {
    let ours = hyper::upgrade::on(&mut request);
    let in_flight = request.extensions().get::<Arc<InFlight>>().cloned();
    match tokio::time::timeout(AGREE_WITHIN, agree(request, address)).await.unwrap_or(Err(SessionError::Late)) {
        Ok(Agreed::Session(answer, theirs)) => {
            peer.side.push(async move {
                carry(ours, theirs, idle).await;
                drop(in_flight);
            });
            answer
        }
        Ok(Agreed::Refusal(answer)) => answer,
        Err(err) => {
            debug!(%err, "No session with the runtime");
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("{err}\n"))
        }
    }
}

enum Agreed {
    /// What to say to whoever asked, and the other end.
    Session(Answer, Upgraded),
    Refusal(Answer),
}

async fn agree(request: Request<Incoming>, address: &str) -> Result<Agreed, SessionError> {
    let (host, port, path) = parts(address).ok_or_else(|| SessionError::Address(address.to_owned()))?;
    let addresses = addresses(&host, port).await.map_err(SessionError::Connect)?;
    let stream = TcpStream::connect(addresses.as_slice()).await.map_err(SessionError::Connect)?;
    let _best_effort = stream.set_nodelay(true);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = pin!(connection.with_upgrades());

    let mut passed_on = Request::new(Empty::<Bytes>::new());
    *passed_on.method_mut() = request.method().clone();
    *passed_on.uri_mut() = Uri::from(path);
    *passed_on.headers_mut() = request.headers().clone();
    let headers = passed_on.headers_mut();
    // Who asked has been seen to; what the request carried beside its head is nobody's.
    for name in [AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    if let Ok(host) = format!("{host}:{port}").parse() {
        headers.entry(HOST).or_insert(host);
    }

    let mut reply = pin!(sender.send_request(passed_on));
    let mut response = tokio::select! {
        biased;
        reply = &mut reply => reply?,
        ended = &mut connection => {
            // It ends when it becomes a session; the reply is there by then.
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
            Ok(Agreed::Session(answer, theirs))
        }
        status if status.as_u16() < 400 => Err(SessionError::NotUpgraded(status.as_u16())),
        status => {
            let body = Limited::new(response.into_body(), LARGEST_REFUSAL).collect();
            let body = tokio::select! {
                biased;
                body = body => body.ok(),
                _ended = async { connection.await.is_err().then_some(()) } => None,
            };
            let words = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok(Agreed::Refusal(text(status, words)))
        }
    }
}

/// The addresses of `host`, which is itself one with every runtime known. The lookup of a name blocks for as long as a name
/// server does not answer: so one runs at a time for each name, in the pool of names.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = host.to_owned();
    NAMES.run(host, move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
}

/// Host, port and path of an address of HTTP on this machine or network.
fn parts(address: &str) -> Option<(String, u16, PathAndQuery)> {
    let uri: Uri = address.parse().ok()?;
    if uri.scheme() != Some(&Scheme::HTTP) {
        return None;
    }
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Some((host, uri.port_u16().unwrap_or(80), path))
}

/// Carries bytes until one end has no more, or nothing has moved for `idle`.
async fn carry(ours: OnUpgrade, theirs: Upgraded, idle: Duration) {
    let Ok(ours) = ours.await else { return };
    let (mut our_read, mut our_write) = tokio::io::split(TokioIo::new(ours));
    let (mut their_read, mut their_write) = tokio::io::split(TokioIo::new(theirs));
    let moved = AtomicU64::new(0);
    let still = async {
        let mut before = None;
        while before != Some(moved.load(Ordering::Relaxed)) {
            before = Some(moved.load(Ordering::Relaxed));
            tokio::time::sleep(idle).await;
        }
    };
    let why = tokio::select! {
        outcome = pump(&mut their_read, &mut our_write, &moved) => ("the runtime", outcome.err()),
        outcome = pump(&mut our_read, &mut their_write, &moved) => ("the peer", outcome.err()),
        () = still => ("nobody", None),
    };
    debug!(ended_by = why.0, err = why.1.map(tracing::field::display), "A session is over");
    let farewell = async { tokio::join!(our_write.shutdown(), their_write.shutdown()) };
    let _late = tokio::time::timeout(FAREWELL, farewell).await;
}

async fn pump<R, W>(from: &mut R, to: &mut W, moved: &AtomicU64) -> std::io::Result<()>
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
    async fn hostile_a_name_server_that_never_answers_keeps_one_thread_of_the_pool_of_names() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let mut hung = pin!(NAMES.run("localhost", move || held.recv().is_err()));
        assert!(poll_fn(|cx| Poll::Ready(hung.as_mut().poll(cx).is_pending())).await);
        for _ in 0..100 {
            let mut next = pin!(addresses("localhost", 80));
            assert!(
                poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await,
                "it waits for the one before"
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
    fn an_address_is_plain_http() {
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
