//! From a connected socket to a stream of messages: we say who we are, the kernel vouches for it (EXTERNAL).

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A line of the handshake. Real ones have some forty bytes.
const MAX_LINE: usize = 1024;

/// Authenticates, and asks for descriptors to be passed.
pub(super) async fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let uid: String = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
    stream.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes()).await?;
    if !read_line(stream).await?.starts_with("OK ") {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "our user is refused"));
    }
    stream.write_all(b"NEGOTIATE_UNIX_FD\r\n").await?;
    if read_line(stream).await? != "AGREE_UNIX_FD" {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "file descriptors are not passed"));
    }
    stream.write_all(b"BEGIN\r\n").await
}

/// The other side is silent until we send another line, so reading by the byte costs little and takes nothing of the
/// messages that follow.
async fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake has a line without end"));
        }
        line.push(stream.read_u8().await?);
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))
}
