//! Makes a connection: TCP, a proxy if there is one, TLS, and the HTTP version.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::time::Now;
use rubelet_engine::task::timed;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::credentials::Credentials;
use super::endpoint::{BadTrust, Endpoint, Proxy, Roots};
use super::error::WireError;
use super::heartbeat::ReadCount;
use super::resolver::Resolver;
use super::tls_alert::{AlertStream, TlsFailure};

/// Deadline of TCP and TLS together. Upstream waits 30 s for TCP alone; TCP sends a lost SYN twice more in this time.
const CONNECT: Duration = Duration::from_secs(10);
/// Shortest share of the deadline for one of several addresses.
const LEAST_SHARE: Duration = Duration::from_secs(2);
/// How long an address is tried alone before the next one is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(300);
/// How many bytes of a proxy's refusal are shown.
const SHOWN: usize = 256;
/// Longest response of a proxy.
const MAX_PROXY_ANSWER: usize = 8 << 10;
/// The kernel probes a silent peer after this time …
const KEEPALIVE: Duration = Duration::from_secs(7);
/// … and closes the connection after this many unanswered probes, one second apart.
const KEEPALIVE_PROBES: u32 = 3;

/// A byte stream.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A new connection on which no HTTP has been spoken.
pub(super) struct Dialled {
    pub(super) wire: Box<dyn Wire>,
    pub(super) version: HttpVersion,
    pub(super) tls_failure: TlsFailure,
    pub(super) reads: ReadCount,
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http2,
    Http1,
}

pub(super) async fn dial(
    endpoint: &Endpoint,
    credentials: &Credentials,
    resolver: &Resolver,
    now: Now,
) -> Result<Dialled, WireError> {
    let mut failure = None;
    let work = connect(endpoint, credentials, resolver, now, &mut failure);
    match tokio::time::timeout(CONNECT, work).await {
        Ok(result) => result,
        // The failure of one address is more useful than a timeout of all.
        Err(_) => Err(failure.unwrap_or(WireError::ConnectTimeout { server: endpoint.url(), after: CONNECT })),
    }
}

async fn connect(
    endpoint: &Endpoint,
    credentials: &Credentials,
    resolver: &Resolver,
    now: Now,
    failure: &mut Option<WireError>,
) -> Result<Dialled, WireError> {
    let tls = if endpoint.tls { Some(Tls::prepare(endpoint, credentials, now).await?) } else { None };
    let first = endpoint.dial_target();
    let refused = |source| match &endpoint.proxy {
        None => WireError::Connect { server: endpoint.url(), source },
        Some(proxy) => WireError::Connect { server: format!("the proxy at {}", proxy.name()), source },
    };
    let addresses = resolver.addresses(first.0).await.map_err(refused)?;
    let mut rest: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address, first.1)).collect();
    // Every address gets a share of the deadline: an address that accepts the connection and then stays silent must not
    // use up the time of the others.
    let share = (CONNECT / u32::try_from(rest.len()).unwrap_or(u32::MAX).max(1)).max(LEAST_SHARE);
    while !rest.is_empty() {
        let (address, tcp) = match race(&rest).await {
            Ok(reached) => reached,
            Err(source) => return Err(failure.take().unwrap_or_else(|| refused(source))),
        };
        let late =
            |_| Err(WireError::ConnectTimeout { server: format!("{} ({address})", endpoint.url()), after: share });
        match tokio::time::timeout(share, prepared(tcp, endpoint, tls.as_ref())).await.unwrap_or_else(late) {
            Ok(dialled) => {
                resolver.worked(first.0, address.ip());
                return Ok(dialled);
            }
            Err(error) => {
                resolver.failed(first.0, address.ip());
                rest.retain(|other| *other != address);
                failure.get_or_insert(error);
            }
        }
    }
    Err(failure.take().unwrap_or(WireError::ConnectTimeout { server: endpoint.url(), after: CONNECT }))
}

/// Connects to the first of `addresses` that accepts. The next address is tried after a short head start: a SYN is cheap,
/// and an unanswered one takes a minute to fail.
///
/// RFC 8305, section 5.
async fn race(addresses: &[SocketAddr]) -> io::Result<(SocketAddr, TcpStream)> {
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.iter().copied();
    let mut failure = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(timed("api-tcp", async move { (address, TcpStream::connect(address).await) }));
        }
        let more = waiting.len() > 0;
        let done = tokio::select! {
            biased;
            done = attempts.join_next() => done,
            () = tokio::time::sleep(HEAD_START), if more => continue,
        };
        match done {
            Some(Ok((address, Ok(tcp)))) => return Ok((address, tcp)),
            Some(Ok((_, Err(error)))) => {
                failure.get_or_insert(error);
            }
            Some(Err(_)) => {}
            None => return Err(failure.unwrap_or(io::ErrorKind::AddrNotAvailable.into())),
        }
    }
}

/// A TCP connection to any address of `host`.
pub(crate) async fn reach(resolver: &Resolver, host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = resolver.addresses(host).await?;
    let addresses: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    let (address, tcp) = race(&addresses).await?;
    resolver.worked(host, address.ip());
    Ok(tcp)
}

/// The TLS settings, the same for every address of the server.
struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    async fn prepare(endpoint: &Endpoint, credentials: &Credentials, now: Now) -> Result<Self, WireError> {
        let server = || endpoint.url();
        let identity = credentials.identity(now).await;
        let identity = identity.map_err(|source| WireError::Credentials { server: server(), source })?;
        let trust = |source| WireError::Trust { server: server(), source };
        let config = endpoint.tls(identity.as_deref()).await.map_err(trust)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name: endpoint.name().map_err(trust)? })
    }
}

/// Completes a TCP connection: CONNECT through the proxy if there is one, then TLS if the server uses it.
async fn prepared(mut tcp: TcpStream, endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Dialled, WireError> {
    let server = || endpoint.url();
    let refused = |source| WireError::Connect { server: server(), source };
    tcp.set_nodelay(true).map_err(refused)?;
    keepalive(&tcp).map_err(refused)?;
    if let Some(proxy) = &endpoint.proxy {
        through(&mut tcp, proxy, endpoint).await?;
    }
    let Some(tls) = tls else {
        return Ok(Dialled {
            wire: Box::new(tcp),
            version: HttpVersion::Http1,
            tls_failure: TlsFailure::default(),
            reads: ReadCount::default(),
        });
    };
    let tls = tls.connector.connect(tls.name.clone(), tcp).await;
    let tls = tls.map_err(|source| WireError::Tls { server: server(), source })?;
    let version = if tls.get_ref().1.alpn_protocol() == Some(b"h2") { HttpVersion::Http2 } else { HttpVersion::Http1 };
    let (wire, tls_failure, reads) = AlertStream::new(tls);
    Ok(Dialled { wire: Box::new(wire), version, tls_failure, reads })
}

/// Why TLS with a manifest server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecureError {
    #[error("read the certificate authorities")]
    Trust(#[source] BadTrust),
    #[error("handshake")]
    Handshake(#[from] io::Error),
}

/// TLS for HTTP/1 with a server whose certificate one of `roots` signed.
pub(crate) async fn secured(tcp: TcpStream, host: &str, roots: &Roots) -> Result<Box<dyn Wire>, SecureError> {
    let (config, name) = super::endpoint::http1(host, roots).await.map_err(SecureError::Trust)?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, tcp).await?))
}

/// TCP keepalive, for HTTP/1 and idle connections, which have no HTTP/2 pings.
fn keepalive(tcp: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(tcp, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Asks `proxy`, at the other end of `tcp`, to connect to the server.
async fn through(tcp: &mut TcpStream, proxy: &Proxy, endpoint: &Endpoint) -> Result<(), WireError> {
    let refused = |source| WireError::Connect { server: format!("the proxy at {}", proxy.name()), source };
    let target = endpoint.authority();
    let login = proxy.authorization.as_ref().map(|login| format!("Proxy-Authorization: {login}\r\n"));
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", login.unwrap_or_default());
    tcp.write_all(request.as_bytes()).await.map_err(refused)?;
    let mut answer = Vec::new();
    // Read byte by byte: data after the response head belongs to the server's TLS stream.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < MAX_PROXY_ANSWER {
        answer.push(tcp.read_u8().await.map_err(refused)?);
    }
    let first: String =
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    if answer.ends_with(b"\r\n\r\n") && first.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
        Ok(())
    } else {
        Err(WireError::Proxy { proxy: proxy.name(), server: endpoint.url(), answer: first })
    }
}
