//! A connection that is closed the way upstream closes it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rubelet_engine::ports::NetError;
use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};

/// How long a close waits for the peer to take what was sent. upstream: `probe/dialer_others.go` (v1.36)
const LINGER: Duration = Duration::from_secs(1);

/// Connects to `host`, an address or a name.
pub(crate) async fn dial(host: &str, port: u16) -> Result<Socket, NetError> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => match lookup_host((host, port)).await {
            Ok(found) => found.collect(),
            Err(_) => Vec::new(),
        },
    };
    let mut last = NetError::Connect(format!("dial tcp: lookup {host}: no such host"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                if let Err(err) = set_socket_linger(&stream, Some(LINGER)) {
                    tracing::debug!(%err, "Could not set SO_LINGER");
                }
                return Ok(Socket(Some(stream)));
            }
            Err(err) => last = NetError::Connect(format!("dial tcp {address}: connect: {}", words(&err))),
        }
    }
    Err(last)
}

/// The error as the C library words it, in lower case: `connection refused`.
pub(crate) fn words(err: &io::Error) -> String {
    let text = err.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// A TCP connection. With `SO_LINGER` a close may wait, even on a socket that does not block: so it is closed on a
/// thread where that harms nobody.
pub(crate) struct Socket(Option<TcpStream>);

impl Drop for Socket {
    fn drop(&mut self) {
        let Some(stream) = self.0.take().and_then(|stream| stream.into_std().ok()) else { return };
        match tokio::runtime::Handle::try_current() {
            // Nobody waits for it: the thread is given back when the close is done.
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(stream))),
            Err(_) => drop(stream),
        }
    }
}

impl Socket {
    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
        self.get_mut().0.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}
