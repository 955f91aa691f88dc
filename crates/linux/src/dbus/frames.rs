//! A stream of bytes and descriptors into messages.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::header::{self, Extent, FIXED, Header, MAX_MESSAGE};

/// Descriptors that have arrived and belong to no message yet. The system bus allows 16 in a message.
const MAX_FDS: usize = 256;
/// A buffer that grew beyond this is given back once it is empty.
const KEEP_BUFFER: usize = 16 << 10;

/// A message whose body is still bytes.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) header: Header,
    /// `None` if the message is longer than [`MAX_MESSAGE`]: its body was thrown away.
    pub(super) body: Option<Vec<u8>>,
    pub(super) fds: Vec<OwnedFd>,
}

/// The stream is not one of messages. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream of messages is not well-formed")]
pub(super) struct Garbled;

/// The reader of one connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    /// Bytes of a body that is too long, still to come.
    skip: usize,
}

impl Frames {
    /// Takes what was read from the socket.
    pub(super) fn feed(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = OwnedFd>) -> Result<(), Garbled> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.bytes.extend(bytes.get(skipped..).unwrap_or_default());
        self.fds.extend(fds);
        if self.fds.len() > MAX_FDS { Err(Garbled) } else { Ok(()) }
    }

    /// The next message that is whole.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Garbled> {
        let Some(fixed) = self.bytes.get(..FIXED) else {
            if self.bytes.is_empty() && self.bytes.capacity() > KEEP_BUFFER {
                self.bytes = Vec::new();
            }
            return Ok(None);
        };
        let extent = header::extent(fixed).ok_or(Garbled)?;
        let Some(header) = self.bytes.get(..extent.header) else { return Ok(None) };
        let is_kept = extent.header + extent.body <= MAX_MESSAGE;
        if is_kept && self.bytes.len() < extent.header + extent.body {
            return Ok(None);
        }
        let header = header::parse(header).ok_or(Garbled)?;
        let body = if is_kept { Some(self.take(extent)) } else { self.throw_away(extent) };
        if header.fds > self.fds.len() {
            return Err(Garbled);
        }
        let fds = self.fds.drain(..header.fds).collect();
        Ok(Some(Frame { header, body, fds }))
    }

    fn take(&mut self, extent: Extent) -> Vec<u8> {
        self.bytes.drain(..extent.header);
        self.bytes.drain(..extent.body).collect()
    }

    fn throw_away(&mut self, extent: Extent) -> Option<Vec<u8>> {
        self.bytes.drain(..extent.header);
        let here = extent.body.min(self.bytes.len());
        self.bytes.drain(..here);
        self.skip = extent.body - here;
        None
    }
}
