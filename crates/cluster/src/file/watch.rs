//! An inotify watch on the manifest path.
//!
//! A file is read when its writer closes it or renames it into place, not when it is created: half a manifest may be valid.
//! Symbolic links have no writer, so their creation counts. A file that was deleted or moved away counts as gone, even if
//! another one of that name is there by the time the event is read: its pod is to end, and to start anew.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Names;

/// Buffer for one read: several events with names of the maximum length.
const BUFFER: usize = 4096;

/// Why a path cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error("stat {path}")]
    Stat { path: PathBuf, source: io::Error },
    #[error("create an inotify instance (fs.inotify.max_user_instances limits them)")]
    Init(#[source] io::Error),
    #[error("watch {path} (fs.inotify.max_user_watches limits watches)")]
    Add { path: PathBuf, source: io::Error },
    #[error("read inotify events")]
    Read(#[source] io::Error),
}

impl WatchError {
    /// Whether the path does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Stat { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The changes that inotify reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// These files changed.
    Files {
        /// They were deleted or moved away, perhaps to be there again since.
        gone: Names,
        /// They may be read.
        changed: Names,
    },
    /// Any file may have changed: the directory itself changed, or the event queue overflowed.
    Everything,
}

/// A watch on a directory, or on the directory of a single file.
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    directory: PathBuf,
    /// Device and inode of the directory, to notice when the path leads elsewhere.
    identity: (u64, u64),
    /// The file to watch, if the path is a file.
    only: Option<std::ffi::OsString>,
}

impl Watch {
    pub(super) fn start(path: &Path) -> Result<Self, WatchError> {
        let stat =
            |path: &Path| std::fs::metadata(path).map_err(|source| WatchError::Stat { path: path.to_owned(), source });
        let (directory, only) = if stat(path)?.is_dir() {
            (path.to_owned(), None)
        } else {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            (parent.to_owned(), path.file_name().map(ToOwned::to_owned))
        };
        let found = stat(&directory)?;
        let init = |error: io::Error| WatchError::Init(error);
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|e| init(e.into()))?;
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, &directory, flags)
            .map_err(|error| WatchError::Add { path: directory.clone(), source: error.into() })?;
        let inotify = register(fd).map_err(init)?;
        Ok(Self { inotify, directory, identity: (found.dev(), found.ino()), only })
    }

    /// Whether the path still leads to the watched directory.
    pub(super) fn is_current(&self) -> bool {
        std::fs::metadata(&self.directory).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Waits for changes and returns all queued ones. Cancel-safe: events are read only after the last `.await`.
    pub(super) async fn next(&mut self) -> Result<Seen, WatchError> {
        loop {
            let mut ready = self.inotify.readable().await.map_err(WatchError::Read)?;
            let read = read_all(self.inotify.get_ref(), &self.directory, self.only.as_deref());
            ready.clear_ready();
            match read.map_err(|error| WatchError::Read(error.into()))? {
                Seen::Files { gone, changed } if gone.is_empty() && changed.is_empty() => {}
                seen => return Ok(seen),
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its unsafe successor requires a descriptor that stays open: an OwnedFd does, and this crate has no unsafe"
)]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

fn read_all(fd: &OwnedFd, directory: &Path, only: Option<&std::ffi::OsStr>) -> Result<Seen, Errno> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let (mut gone, mut changed) = (Names::new(), Names::new());
    let mut everything = false;
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::WOULDBLOCK) => break,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let what = event.events();
        let about_itself = ReadFlags::QUEUE_OVERFLOW
            | ReadFlags::IGNORED
            | ReadFlags::UNMOUNT
            | ReadFlags::DELETE_SELF
            | ReadFlags::MOVE_SELF;
        if what.intersects(about_itself) {
            everything = true;
            continue;
        }
        let Some(name) = event.file_name() else { continue };
        let name = std::ffi::OsStr::from_bytes(name.to_bytes());
        // A ConfigMap or Secret volume changes all its files by renaming this link.
        if name == "..data" {
            everything = true;
            continue;
        }
        let wanted = match only {
            Some(only) => name == only,
            None => !name.as_bytes().starts_with(b"."),
        };
        if !wanted {
            continue;
        }
        if what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            gone.insert(name.to_owned());
        }
        if what == ReadFlags::CREATE && !needs_no_writer(&directory.join(name)) {
            // It is reported again when its writer closes it.
            changed.remove(name);
        } else {
            changed.insert(name.to_owned());
        }
    }
    Ok(if everything { Seen::Everything } else { Seen::Files { gone, changed } })
}

/// Whether a file created at `path` is complete already, because no writer will close it.
fn needs_no_writer(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() || found.nlink() > 1)
}
