//! The socket's file: made private from its first moment, a stale one replaced, our own removed at the end.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket};
use tracing::warn;

/// Linux keeps a socket's path, with its closing zero, in 108 bytes.
const LONGEST_PATH: usize = 107;
/// Peers that may wait to be accepted.
const BACKLOG: u32 = 16;
/// Only its owner may connect.
const MODE: u32 = 0o600;

/// The socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody answers there.
    #[error("another rubelet answers on {}: stop it, or give this one another --root-dir", .0.display())]
    Taken(PathBuf),
    /// Something else has its name.
    #[error("{} is there and is not a socket: move it away", .0.display())]
    NotASocket(PathBuf),
    /// A path that no socket can have.
    #[error("{} is longer than the {LONGEST_PATH} bytes of a socket's path: choose a shorter --root-dir", .0.display())]
    TooLong(PathBuf),
    /// The system refused.
    #[error("open the socket {}", .path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A listening socket whose file goes with it.
pub(super) struct OwnedSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: a file that another process has put there since is not ours to remove.
    identity: (u64, u64),
}

impl OwnedSocket {
    pub(super) fn bind(path: &Path) -> Result<Self, BindError> {
        if path.as_os_str().len() > LONGEST_PATH {
            return Err(BindError::TooLong(path.to_owned()));
        }
        let system = |source| BindError::System { path: path.to_owned(), source };
        clear_stale(path)?;
        let socket = UnixSocket::new_stream().map_err(system)?;
        // The file that `bind` makes takes the socket's own mode: so there is no moment at which others may connect.
        let handle = File::from(socket.as_fd().try_clone_to_owned().map_err(system)?);
        handle.set_permissions(Permissions::from_mode(MODE)).map_err(system)?;
        socket.bind(path).map_err(system)?;
        let made = path.symlink_metadata().map_err(system)?;
        let listener = socket.listen(BACKLOG).map_err(system)?;
        Ok(Self { listener, path: path.to_owned(), identity: (made.dev(), made.ino()) })
    }
}

impl Drop for OwnedSocket {
    fn drop(&mut self) {
        let ours = self.path.symlink_metadata().is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(err) = std::fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %err, "Cannot remove the socket");
        }
    }
}

/// Removes what a rubelet that was killed left behind.
fn clear_stale(path: &Path) -> Result<(), BindError> {
    let system = |source| BindError::System { path: path.to_owned(), source };
    match path.symlink_metadata() {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(system(err)),
        Ok(file) if !file.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(err) if err.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(system),
        // Gone meanwhile.
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(err) => Err(system(err)),
        Ok(_) => Err(BindError::Taken(path.to_owned())),
    }
}
