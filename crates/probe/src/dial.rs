//! TCP connections that are closed the way upstream closes them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rubelet_engine::blocking::CLOSES;
use rubelet_engine::ports::NetError;
use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::names::Names;

/// How long a close waits for the peer to acknowledge sent data. upstream: `probe/dialer_others.go` (v1.36)
const LINGER: Duration = Duration::from_secs(1);

/// Limit of bytes read from one connection. A probe needs a few kilobytes; a server that sends this much sends without
/// end, be it bodies, headers or pings.
const MAX_READ: usize = 1 << 20;

/// Connects to `host`, an IP address or a name.
pub(crate) async fn dial(names: &Names, host: &str, port: u16) -> Result<Socket, NetError> {
    let addresses: Arc<[IpAddr]> = match host.parse::<IpAddr>() {
        Ok(ip) => [ip].into(),
        Err(_) => names.look_up(host).await.map_err(|err| {
            NetError::Connect(format!("dial tcp: lookup {host}: too many names are being looked up: {err}"))
        })?,
    };
    let mut last = NetError::Connect(format!("dial tcp: lookup {host}: no such host"));
    for address in addresses.iter().map(|ip| SocketAddr::new(*ip, port)) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                if let Err(err) = set_socket_linger(&stream, Some(LINGER)) {
                    tracing::debug!(%err, "Could not set SO_LINGER");
                }
                return Ok(Socket { stream: Some(stream), left: MAX_READ });
            }
            Err(err) => last = NetError::Connect(format!("dial tcp {address}: connect: {}", error_text(&err))),
        }
    }
    Err(last)
}

/// The error text of the C library, in lower case: `connection refused`.
pub(crate) fn error_text(err: &io::Error) -> String {
    let text = err.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// A TCP connection. With `SO_LINGER` a close may block, even on a non-blocking socket: so it is closed on a blocking
/// thread. Reading fails once the server has sent too much.
pub(crate) struct Socket {
    stream: Option<TcpStream>,
    left: usize,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take().and_then(|stream| stream.into_std().ok()) else { return };
        match CLOSES.free_place("probes") {
            // The result is not awaited.
            Some(place) => drop(place.begin(move || drop(stream))),
            // Too many closes are waiting for their peers: this one does not wait, and the kernel finishes it.
            None => {
                if let Err(err) = set_socket_linger(&stream, None) {
                    tracing::debug!(%err, "Could not unset SO_LINGER");
                }
            }
        }
    }
}

impl Socket {
    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
        self.get_mut().stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.as_mut().stream()?.poll_read(cx, buf);
        let taken = buf.filled().len().saturating_sub(before);
        match self.left.checked_sub(taken) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other(format!("the server sent more than {MAX_READ} bytes")))),
        }
        read
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
