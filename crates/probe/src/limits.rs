//! Limits on a server's answers. A probe needs a status and a few lines; the rest is not fetched.

use std::time::Duration;

use h2::client::Builder;

/// Total size of an answer's headers. Go's client accepts 10 MiB; no real server sends this much.
pub(crate) const HEADER_BYTES: usize = 64 << 10;
/// Number of an answer's headers.
pub(crate) const HEADERS: usize = 512;
/// Total size of a gRPC answer's headers and trailers: a status, a line of text and little else.
pub(crate) const GRPC_HEADER_BYTES: usize = 16 << 10;
/// Size of a gRPC message: a health check's takes two bytes.
pub(crate) const GRPC_MESSAGE: usize = 4 << 10;
/// HTTP/2 flow control window: what a server may send before we have read it.
const WINDOW: u32 = 64 << 10;
/// How long, and how many, streams reset by the server are remembered.
const BROKEN_OFF: (Duration, usize) = (Duration::from_secs(1), 1);

/// An HTTP/2 client that accepts headers of at most `header_bytes`.
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
