//! Truncates the answer to `ExecSync`: only the beginning of each output is kept.
//!
//! Runtimes send up to 16 MiB of a command's output, and a gRPC client holds a whole message before it decodes it: a
//! hundred probes whose commands write much would exhaust the node's memory. So the body is parsed here as it arrives,
//! and the client gets a message with truncated outputs (PRB-13: at most 10 KiB of them are used).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame};
use tonic::Status;
use tonic::body::Body as GrpcBody;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::transport::{Channel, Error};

/// Bytes kept of each output.
pub(crate) const KEPT: usize = 10 << 10;

/// The gRPC prefix of a message: a compression flag and the length.
const PREFIX: usize = 5;

/// A channel that truncates the answers to `ExecSync`.
#[derive(Clone)]
pub(crate) struct CutOutputs {
    pub(crate) channel: Channel,
    /// The largest message accepted.
    pub(crate) most: usize,
}

impl Service<http::Request<GrpcBody>> for CutOutputs {
    type Response = http::Response<CutBody>;
    type Error = Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<GrpcBody>) -> Self::Future {
        let (answer, most) = (self.channel.call(request), self.most);
        Box::pin(async move {
            let cut = |inner| CutBody { inner, answer: Answer::new(most), rest: None, ended: false };
            Ok(answer.await?.map(cut))
        })
    }
}

/// The body of an answer, truncated.
pub(crate) struct CutBody {
    inner: GrpcBody,
    answer: Answer,
    /// Trailers that follow the message.
    rest: Option<http::HeaderMap>,
    ended: bool,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(trailers) = self.rest.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        while !self.ended {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(frame) => frame?,
                None => {
                    self.ended = true;
                    break;
                }
            };
            match frame.into_data() {
                Ok(data) => self.answer.feed(&data)?,
                Err(frame) => {
                    self.ended = true;
                    self.rest = frame.into_trailers().ok();
                }
            }
        }
        match self.answer.take() {
            Some(message) => Poll::Ready(Some(Ok(Frame::data(message)))),
            None => Poll::Ready(self.rest.take().map(|trailers| Ok(Frame::trailers(trailers)))),
        }
    }
}

/// Parses an `ExecSyncResponse` as it arrives: `stdout` is field 1, `stderr` 2, `exit_code` 3.
struct Answer {
    at: At,
    most: usize,
    /// Bytes of the message that are still missing.
    left: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit_code: u64,
    complete: bool,
}

enum At {
    /// In the prefix, of which this many bytes were read.
    Prefix { read: usize, length: u32 },
    /// At the beginning of a field.
    Tag(Varint),
    /// In the varint value of this field.
    Number(u64, Varint),
    /// In the length of this field.
    Length(u64, Varint),
    /// In this field, of which this many bytes are left.
    Content(u64, usize),
}

#[derive(Clone, Copy, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// The number, once its last byte has arrived.
    fn add(&mut self, byte: u8) -> Result<Option<u64>, Status> {
        if self.bits >= u64::BITS {
            return Err(malformed());
        }
        self.value |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

impl Answer {
    fn new(most: usize) -> Self {
        Self {
            at: At::Prefix { read: 0, length: 0 },
            most,
            left: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            exit_code: 0,
            complete: false,
        }
    }

    fn feed(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while let Some((&byte, rest)) = data.split_first() {
            if self.complete {
                return Err(Status::internal("the runtime sent more than one message"));
            }
            if let At::Content(field, left) = self.at {
                let (part, rest) = data.split_at(left.min(data.len()));
                self.keep(field, part);
                self.used(part.len())?;
                let left = left - part.len();
                self.at = if left == 0 { At::Tag(Varint::default()) } else { At::Content(field, left) };
                data = rest;
                continue;
            }
            self.byte(byte)?;
            data = rest;
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) -> Result<(), Status> {
        let next = match &mut self.at {
            At::Prefix { read: 0, .. } if byte != 0 => {
                return Err(Status::internal("the runtime sent compressed data"));
            }
            At::Prefix { read, length } => {
                let length = if *read == 0 { 0 } else { (*length << 8) | u32::from(byte) };
                if *read + 1 < PREFIX {
                    self.at = At::Prefix { read: *read + 1, length };
                    return Ok(());
                }
                self.left = usize::try_from(length).unwrap_or(usize::MAX);
                if self.left > self.most {
                    let (found, most) = (self.left, self.most);
                    let text = format!("the answer has {found} bytes, more than the limit of {most}");
                    return Err(Status::out_of_range(text));
                }
                self.complete = self.left == 0;
                self.at = At::Tag(Varint::default());
                return Ok(());
            }
            At::Tag(tag) => match tag.add(byte)? {
                None => None,
                Some(tag) => Some(match tag & 7 {
                    0 => At::Number(tag >> 3, Varint::default()),
                    1 => At::Content(0, 8),
                    2 => At::Length(tag >> 3, Varint::default()),
                    5 => At::Content(0, 4),
                    _ => return Err(malformed()),
                }),
            },
            At::Number(field, number) => match number.add(byte)? {
                None => None,
                Some(number) => {
                    if *field == 3 {
                        self.exit_code = number;
                    }
                    Some(At::Tag(Varint::default()))
                }
            },
            At::Length(field, length) => match length.add(byte)? {
                None => None,
                Some(length) => {
                    let (field, length) = (*field, usize::try_from(length).map_err(|_| malformed())?);
                    // If a field occurs twice, the last one counts.
                    match field {
                        1 => self.stdout.clear(),
                        2 => self.stderr.clear(),
                        _ => {}
                    }
                    Some(if length == 0 { At::Tag(Varint::default()) } else { At::Content(field, length) })
                }
            },
            At::Content(..) => None,
        };
        if let Some(next) = next {
            self.at = next;
        }
        self.used(1)
    }

    fn keep(&mut self, field: u64, part: &[u8]) {
        let output = match field {
            1 => &mut self.stdout,
            2 => &mut self.stderr,
            _ => return,
        };
        let room = KEPT.saturating_sub(output.len());
        output.extend(part.iter().take(room));
    }

    /// Counts bytes of the message as read; at its end no field may be unfinished.
    fn used(&mut self, bytes: usize) -> Result<(), Status> {
        self.left = self.left.checked_sub(bytes).ok_or_else(malformed)?;
        self.complete = self.left == 0;
        Ok(())
    }

    /// The truncated message, once it is complete. For an incomplete message the client reports the error.
    fn take(&mut self) -> Option<Bytes> {
        if !std::mem::take(&mut self.complete) {
            return None;
        }
        let mut message = Vec::new();
        for (tag, output) in [(0x0a, &self.stdout), (0x12, &self.stderr)] {
            message.push(tag);
            varint(&mut message, output.len() as u64);
            message.extend(output);
        }
        message.push(0x18);
        varint(&mut message, self.exit_code);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut framed = vec![0];
        framed.extend(length.to_be_bytes());
        framed.extend(message);
        Some(framed.into())
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

fn malformed() -> Status {
    Status::internal("the runtime's answer to ExecSync makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut all = vec![0];
        all.extend(u32::try_from(message.len()).expect("short").to_be_bytes());
        all.extend(message);
        all
    }

    /// Feeding pieces of any size yields the same result.
    fn read(data: &[u8]) -> Result<(Vec<u8>, Vec<u8>, u64), tonic::Code> {
        let mut found = Vec::new();
        for size in [1, 2, 7, data.len().max(1)] {
            let mut answer = Answer::new(1 << 20);
            let fed = data.chunks(size).try_for_each(|piece| answer.feed(piece));
            found.push(fed.map_err(|err| err.code()).and_then(|()| {
                let whole = answer.take().is_some();
                whole.then_some((answer.stdout, answer.stderr, answer.exit_code)).ok_or(tonic::Code::Unknown)
            }));
        }
        let first = found.remove(0);
        assert!(found.iter().all(|other| *other == first), "{first:?} {found:?}");
        first
    }

    #[test]
    fn outputs_are_truncated_and_the_exit_code_is_kept() {
        let mut message = vec![0x0a];
        varint(&mut message, 200_000);
        message.extend(vec![b'o'; 200_000]);
        // Unknown fields: a varint, eight bytes, four bytes, text.
        message.extend([0x40, 0x80, 0x01, 0x49, 1, 2, 3, 4, 5, 6, 7, 8, 0x55, 1, 2, 3, 4, 0x5a, 2, b'x', b'y']);
        message.extend([0x12, 3, b'e', b'r', b'r', 0x18, 137, 1]);
        assert_eq!(read(&framed(&message)), Ok((vec![b'o'; KEPT], b"err".to_vec(), 137)));
        assert_eq!(read(&framed(&[])), Ok((Vec::new(), Vec::new(), 0)));
        // A negative number takes ten bytes.
        let minus_one = [&[0x18][..], &[0xff; 9], &[1]].concat();
        assert_eq!(read(&framed(&minus_one)), Ok((Vec::new(), Vec::new(), u64::MAX)));
    }

    #[test]
    fn hostile_a_malformed_answer_is_refused() {
        let too_long = [&[0][..], &(2_u32 << 20).to_be_bytes()].concat();
        let cases: [(&[u8], tonic::Code); 6] = [
            (&too_long, tonic::Code::OutOfRange),
            (&[1, 0, 0, 0, 0], tonic::Code::Internal),
            (&[0, 0, 0, 0, 2, 0x0a, 9, b'x'], tonic::Code::Internal),
            (&[0, 0, 0, 0, 1, 0x0f], tonic::Code::Internal),
            (&[0, 0, 0, 0, 0, 0], tonic::Code::Internal),
            (&[0, 0, 0, 0, 9, 0x0a], tonic::Code::Unknown),
        ];
        for (data, code) in cases {
            assert_eq!(read(data), Err(code), "{data:?}");
        }
        assert_eq!(read(&framed(&[0xff; 12])), Err(tonic::Code::Internal), "an unterminated varint");
    }
}
