//! Making a connection: TCP, a proxy perhaps, TLS, and which HTTP is spoken on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::time::Now;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::credentials::Credentials;
use super::endpoint::{BadTrust, Endpoint, Proxy, Roots};
use super::error::WireError;
use super::telling::{Telling, Told};

/// For TCP and TLS together. Upstream waits 30 s for TCP alone; a packet lost on the way is sent again twice in this time.
const CONNECT: Duration = Duration::from_secs(10);
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
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http2,
    Http1,
}

pub(super) async fn dial(endpoint: &Endpoint, credentials: &Credentials, now: Now) -> Result<Dialled, WireError> {
    let work = connect(endpoint, credentials, now);
    let late = |_| WireError::ConnectTimeout { server: endpoint.url(), after: CONNECT };
    tokio::time::timeout(CONNECT, work).await.map_err(late)?
}

async fn connect(endpoint: &Endpoint, credentials: &Credentials, now: Now) -> Result<Dialled, WireError> {
    let server = || endpoint.url();
    let refused = |source| WireError::Connect { server: server(), source };
    let tcp = match &endpoint.proxy {
        None => TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(refused)?,
        Some(proxy) => through(proxy, endpoint).await?,
    };
    tcp.set_nodelay(true).map_err(refused)?;
    keepalive(&tcp).map_err(refused)?;
    if !endpoint.tls {
        return Ok(Dialled { wire: Box::new(tcp), speaks: Speaks::Http1, told: Told::default() });
    }
    let identity = credentials.identity(now).await;
    let identity = identity.map_err(|source| WireError::Credentials { server: server(), source })?;
    let trust = |source| WireError::Trust { server: server(), source };
    let config = endpoint.tls(identity.as_deref()).await.map_err(trust)?;
    let name = endpoint.name().map_err(trust)?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    let tls = tls.map_err(|source| WireError::Tls { server: server(), source })?;
    let speaks = if tls.get_ref().1.alpn_protocol() == Some(b"h2") { Speaks::Http2 } else { Speaks::Http1 };
    let (wire, told) = Telling::new(tls);
    Ok(Dialled { wire: Box::new(wire), speaks, told })
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

/// Asks `proxy` to connect us.
async fn through(proxy: &Proxy, endpoint: &Endpoint) -> Result<TcpStream, WireError> {
    let name = format!("{}:{}", proxy.host, proxy.port);
    let refused = |source| WireError::Connect { server: format!("the proxy at {name}"), source };
    let mut tcp = TcpStream::connect((proxy.host.as_str(), proxy.port)).await.map_err(refused)?;
    let target = endpoint.authority();
    let login = proxy.authorization.as_ref().map(|login| format!("Proxy-Authorization: {login}\r\n"));
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", login.unwrap_or_default());
    tcp.write_all(request.as_bytes()).await.map_err(refused)?;
    let mut answer = Vec::new();
    // Byte by byte: what comes after the answer is the server's and must not be taken from it.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < MAX_PROXY_ANSWER {
        answer.push(tcp.read_u8().await.map_err(refused)?);
    }
    let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    if first.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
        Ok(tcp)
    } else {
        Err(WireError::Proxy { proxy: name.clone(), server: endpoint.url(), answer: first })
    }
}
