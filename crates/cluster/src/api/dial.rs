//! Making a connection: TCP, a proxy perhaps, TLS, and which HTTP is spoken on it.

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
use super::names::Names;
use super::pulse::Heard;
use super::telling::{Telling, Told};

/// For TCP and TLS together. Upstream waits 30 s for TCP alone; a packet lost on the way is sent again twice in this time.
const CONNECT: Duration = Duration::from_secs(10);
/// Shortest share of that time for one address of a name that has several.
const LEAST_SHARE: Duration = Duration::from_secs(2);
/// How long an address is tried alone before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(300);
/// Most of a proxy's refusal that is shown.
const SHOWN: usize = 256;
/// Longest answer of a proxy.
const MAX_PROXY_ANSWER: usize = 8 << 10;
/// The kernel asks a silent peer after this time …
const KEEPALIVE: Duration = Duration::from_secs(7);
/// … this often in a row before it gives up, a second apart.
const KEEPALIVE_PROBES: u32 = 3;

/// Anything that bytes go over.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection on which nothing has been said yet.
pub(super) struct Dialled {
    pub(super) wire: Box<dyn Wire>,
    pub(super) speaks: Speaks,
    pub(super) told: Told,
    pub(super) heard: Heard,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http2,
    Http1,
}

pub(super) async fn dial(
    endpoint: &Endpoint,
    credentials: &Credentials,
    names: &Names,
    now: Now,
) -> Result<Dialled, WireError> {
    let mut failure = None;
    let work = connect(endpoint, credentials, names, now, &mut failure);
    match tokio::time::timeout(CONNECT, work).await {
        Ok(result) => result,
        // What went wrong with one address says more than that there was no time for the others.
        Err(_) => Err(failure.unwrap_or(WireError::ConnectTimeout { server: endpoint.url(), after: CONNECT })),
    }
}

async fn connect(
    endpoint: &Endpoint,
    credentials: &Credentials,
    names: &Names,
    now: Now,
    failure: &mut Option<WireError>,
) -> Result<Dialled, WireError> {
    let tls = if endpoint.tls { Some(Tls::prepare(endpoint, credentials, now).await?) } else { None };
    let first = endpoint.first_stop();
    let refused = |source| match &endpoint.proxy {
        None => WireError::Connect { server: endpoint.url(), source },
        Some(proxy) => WireError::Connect { server: format!("the proxy at {}", proxy.name()), source },
    };
    let addresses = names.addresses(first.0).await.map_err(refused)?;
    let mut rest: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address, first.1)).collect();
    // Of the time for all of them each has a share: one that takes the connection and then says nothing must not hide
    // the others.
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
                names.worked(first.0, address.ip());
                return Ok(dialled);
            }
            Err(error) => {
                names.failed(first.0, address.ip());
                rest.retain(|other| *other != address);
                failure.get_or_insert(error);
            }
        }
    }
    Err(failure.take().unwrap_or(WireError::ConnectTimeout { server: endpoint.url(), after: CONNECT }))
}

/// The first of `addresses` with which TCP comes about. Each has a moment before the next is tried as well: a SYN costs
/// little, and one that is not answered takes a minute to fail.
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

/// A TCP connection to `host`, whichever of its addresses answers.
pub(crate) async fn reach(names: &Names, host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = names.addresses(host).await?;
    let addresses: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    let (address, tcp) = race(&addresses).await?;
    names.worked(host, address.ip());
    Ok(tcp)
}

/// What TLS with the server needs, the same for each of its addresses.
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

/// Through the proxy, if there is one, and with TLS, if there is any.
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
            speaks: Speaks::Http1,
            told: Told::default(),
            heard: Heard::default(),
        });
    };
    let tls = tls.connector.connect(tls.name.clone(), tcp).await;
    let tls = tls.map_err(|source| WireError::Tls { server: server(), source })?;
    let speaks = if tls.get_ref().1.alpn_protocol() == Some(b"h2") { Speaks::Http2 } else { Speaks::Http1 };
    let (wire, told, heard) = Telling::new(tls);
    Ok(Dialled { wire: Box::new(wire), speaks, told, heard })
}

/// Why TLS with a server that is not the API server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecureError {
    #[error("whom to trust")]
    Trust(#[source] BadTrust),
    #[error("handshake")]
    Handshake(#[from] io::Error),
}

/// TLS for HTTP/1 with any server whose certificate one of `roots` signed.
pub(crate) async fn secured(tcp: TcpStream, host: &str, roots: &Roots) -> Result<Box<dyn Wire>, SecureError> {
    let (config, name) = super::endpoint::http1(host, roots).await.map_err(SecureError::Trust)?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, tcp).await?))
}

/// The kernel's own pulse, for what has none: HTTP/1, and a connection that nobody uses just now.
fn keepalive(tcp: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(tcp, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Asks `proxy`, at the other end of `tcp`, to connect us.
async fn through(tcp: &mut TcpStream, proxy: &Proxy, endpoint: &Endpoint) -> Result<(), WireError> {
    let refused = |source| WireError::Connect { server: format!("the proxy at {}", proxy.name()), source };
    let target = endpoint.authority();
    let login = proxy.authorization.as_ref().map(|login| format!("Proxy-Authorization: {login}\r\n"));
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", login.unwrap_or_default());
    tcp.write_all(request.as_bytes()).await.map_err(refused)?;
    let mut answer = Vec::new();
    // Byte by byte: what comes after the answer is the server's and must not be taken from it.
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
