//! What a server may send. A probe wants a status and a few lines; the rest is not even fetched.

use std::time::Duration;

use h2::client::Builder;

/// Headers of an answer, all together. Go's client takes 10 MiB; servers with as much as this are unheard of.
pub(crate) const HEADER_BYTES: usize = 64 << 10;
/// Headers of an answer, by number.
pub(crate) const HEADERS: usize = 512;
/// Headers and trailers of a gRPC answer, which has a status, a line of text and little else.
pub(crate) const GRPC_HEADER_BYTES: usize = 16 << 10;
/// The message of a gRPC answer: a health check's takes two bytes.
pub(crate) const GRPC_MESSAGE: usize = 4 << 10;
/// What a server may send before we have read it.
const WINDOW: u32 = 64 << 10;
/// Streams that the server broke off are remembered for so long, and so many.
const BROKEN_OFF: (Duration, usize) = (Duration::from_secs(1), 1);

/// An HTTP/2 client that takes answers with headers of `header_bytes` at most.
pub(crate) fn http2(header_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .reset_stream_duration(BROKEN_OFF.0)
        .max_concurrent_reset_streams(BROKEN_OFF.1)
        .max_pending_accept_reset_streams(BROKEN_OFF.1)
        .enable_push(false);
    builder
}
