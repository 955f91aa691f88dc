//! Messages to the byte, hostile bytes, a bus of our own over a socket, and a real one.

mod bytes;
pub(crate) mod fake;
mod real;
mod sessions;
