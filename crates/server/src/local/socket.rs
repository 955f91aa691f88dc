//! The file of the socket: private from the start; a stale file is replaced, and our own is removed at the end.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket};
use tracing::warn;

/// Linux stores the path of a socket with its terminating zero in 108 bytes.
const LONGEST_PATH: usize = 107;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 16;
/// Only the owner may connect.
const MODE: u32 = 0o600;

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens on it.
    #[error("another rubelet answers on {}: stop it, or give this one another --root-dir", .0.display())]
    Taken(PathBuf),
    /// The path is not a socket.
    #[error("{} is there and is not a socket: move it away", .0.display())]
    NotASocket(PathBuf),
    /// The path is too long for a socket.
    #[error("{} is longer than the {LONGEST_PATH} bytes of a socket's path: choose a shorter --root-dir", .0.display())]
    TooLong(PathBuf),
    /// A system call failed.
    #[error("open the socket {}", .path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A listening socket that removes its file when dropped.
#[derive(Debug)]
pub struct OwnedSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: a file that another process has created since is not removed.
    identity: (u64, u64),
}

impl OwnedSocket {
    /// Opens the socket at `path`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        if path.as_os_str().len() > LONGEST_PATH {
            return Err(BindError::TooLong(path.to_owned()));
        }
        let system = |source| BindError::System { path: path.to_owned(), source };
        clear_stale(path)?;
        let socket = UnixSocket::new_stream().map_err(system)?;
        // The file that `bind` creates has the socket's mode: there is no moment in which others may connect.
        let handle = File::from(socket.as_fd().try_clone_to_owned().map_err(system)?);
        handle.set_permissions(Permissions::from_mode(MODE)).map_err(system)?;
        socket.bind(path).map_err(system)?;
        let made = path.symlink_metadata().map_err(system)?;
        let listener = socket.listen(BACKLOG).map_err(system)?;
        Ok(Self { listener, path: path.to_owned(), identity: (made.dev(), made.ino()) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedSocket {
    fn drop(&mut self) {
        let ours = self.path.symlink_metadata().is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(err) = std::fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %err, "Failed to remove the socket");
        }
    }
}

/// Removes the file of a rubelet that was killed.
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
        // The file was removed meanwhile.
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(err) => Err(system(err)),
        Ok(_) => Err(BindError::Taken(path.to_owned())),
    }
}
