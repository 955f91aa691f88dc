//! One open connection.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::address::Endpoint;
use super::frames::{Frame, Frames};
use super::handshake::authenticate;

/// Bytes read at once.
const CHUNK: usize = 4096;
/// Space for the most descriptors that the kernel passes at once.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(253));

/// A socket on which both sides may send messages.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    frames: Frames,
    out: Vec<u8>,
}

impl Link {
    /// Connects and authenticates.
    pub(super) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let mut stream = UnixStream::connect(endpoint.path()).await?;
        authenticate(&mut stream).await?;
        Ok(Self { stream, frames: Frames::default(), out: Vec::new() })
    }

    /// Queues a message.
    pub(super) fn send(&mut self, message: &[u8]) {
        self.out.extend(message);
    }

    /// The next message that has arrived whole.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.frames.next().map_err(invalid)
    }

    /// Waits until the socket can be used, and sends and receives once. Cancel-safe: bytes move after the only await.
    pub(super) async fn progress(&mut self) -> io::Result<()> {
        let interest =
            if self.out.is_empty() { Interest::READABLE } else { Interest::READABLE.add(Interest::WRITABLE) };
        let ready = self.stream.ready(interest).await?;
        if ready.is_writable() && !self.out.is_empty() {
            let sent =
                self.stream.try_io(Interest::WRITABLE, || Ok(send(&self.stream, &self.out, SendFlags::NOSIGNAL)?));
            if let Some(sent) = unless_blocked(sent)? {
                self.out.drain(..sent);
            }
        }
        if ready.is_readable() || ready.is_read_closed() {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; CHUNK];
        let mut space = [MaybeUninit::uninit(); ANCILLARY];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = self.stream.try_io(Interest::READABLE, || {
            let flags = RecvFlags::CMSG_CLOEXEC;
            Ok(recvmsg(&self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?.bytes)
        });
        let Some(received) = unless_blocked(received)? else { return Ok(()) };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fds: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        self.frames.feed(bytes.get(..received).unwrap_or_default(), fds).map_err(invalid)
    }
}

fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(err) => Err(err),
    }
}

fn invalid(err: super::frames::Garbled) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, err)
}
