//! Two locks: `--lock-file`, with which kubelets hand a node over to one another (BOOT-04), and the lock on the root
//! directory, which two rubelets must never share.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_engine::blocking::HOST;
use rustix::fs::{FlockOperation, flock, inotify};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How often to retry a lock that another process holds.
const PACE: Duration = Duration::from_millis(100);

/// How often the lock of a root directory is tried. A rubelet that was killed while it started a program leaves its lock to
/// the new process until that executes the program, which takes a moment on a busy machine.
const TRIES: u32 = 30;

/// Name of the lock in the root directory.
const ROOT_LOCK: &str = "rubelet.lock";

/// A lock could not be taken or watched.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file could not be opened, locked or watched.
    #[error("{action} lock file {path}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another rubelet works on the root directory.
    #[error("root directory {root} is in use by another rubelet{}: stop it, or choose another --root-dir",
        pid.map(|pid| format!(" (PID {pid})")).unwrap_or_default())]
    RootInUse {
        /// The root directory.
        root: PathBuf,
        /// The other process, if it has written its PID into the lock file.
        pid: Option<u32>,
    },
}

/// The lock of `--lock-file`, held until dropped.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    _file: File,
}

impl LockFile {
    /// Takes the lock, waiting until its holder releases it.
    /// upstream: pkg/util/flock/flock_unix.go Acquire (v1.36)
    pub async fn acquire(path: impl Into<PathBuf>) -> Result<Self, LockError> {
        let path = path.into();
        let file = open(&path).map_err(failed("open", &path))?;
        while !try_lock(&file).map_err(failed("take", &path))? {
            tokio::time::sleep(PACE).await;
        }
        Ok(Self { path, _file: file })
    }

    /// Watches the file for other processes from now on.
    #[doc(alias = "watchForLockfileContention")]
    pub fn watch(&self) -> Result<Contention, LockError> {
        let watch = || -> io::Result<_> {
            let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            let what = inotify::WatchFlags::OPEN | inotify::WatchFlags::DELETE_SELF;
            inotify::add_watch(&fd, &self.path, what)?;
            register(fd)
        };
        watch().map(|events| Contention { events, path: self.path.clone() }).map_err(failed("watch", &self.path))
    }
}

/// Notices when another process wants our lock file.
#[derive(Debug)]
pub struct Contention {
    events: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl Contention {
    /// Returns when another process opens or removes the file: with `--exit-on-lock-contention` the agent exits then.
    /// Cancel-safe.
    pub async fn wait(&self) -> Result<(), LockError> {
        loop {
            let mut ready = self.events.readable().await.map_err(failed("watch", &self.path))?;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            match inotify::Reader::new(self.events.get_ref(), &mut buffer).next() {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN | Errno::INTR) => ready.clear_ready(),
                Err(err) => return Err(failed("watch", &self.path)(err.into())),
            }
        }
    }
}

/// The lock on a root directory, held until dropped.
#[derive(Debug)]
pub struct RootLock {
    _file: File,
}

impl RootLock {
    /// Takes the lock, or fails with the PID of its holder. The directory must exist.
    pub async fn take(root: impl Into<PathBuf>) -> Result<Self, LockError> {
        let root = root.into();
        for _ in 1..TRIES {
            match Self::try_take(root.clone()).await {
                Err(LockError::RootInUse { .. }) => tokio::time::sleep(PACE).await,
                taken => return taken,
            }
        }
        Self::try_take(root).await
    }

    async fn try_take(root: PathBuf) -> Result<Self, LockError> {
        HOST.run("lock", move || {
            let path = root.join(ROOT_LOCK);
            let mut file = open(&path).map_err(failed("open", &path))?;
            if try_lock(&file).map_err(failed("take", &path))? {
                // The PID is for people; the lock itself ends with the process, however the process ends.
                write_pid(&mut file).map_err(failed("write", &path))?;
                return Ok(Self { _file: file });
            }
            let mut text = String::new();
            let read = file.take(32).read_to_string(&mut text);
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            Err(LockError::RootInUse { root, pid })
        })
        .await
    }
}

#[expect(unsafe_code, reason = "tokio has no safe way to wait for a descriptor of ours")]
pub(super) fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the registered descriptor number must stay this open file's until it is deregistered. An `OwnedFd` keeps
    // its number, nothing else closes it, and `AsyncFd` deregisters it before dropping it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(|err| err.into_parts().1)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(err) => Err(err.into()),
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LockError {
    let path = path.to_path_buf();
    move |source| LockError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    #[tokio::test(start_paused = true)]
    async fn a_root_directory_is_free_a_moment_after_its_rubelet_was_killed() {
        let dir = temp_dir();
        let killed = RootLock::take(dir.path()).await.unwrap();
        let next = RootLock::take(dir.path());
        tokio::pin!(next);
        assert!(tokio::time::timeout(PACE * 5, &mut next).await.is_err(), "still held");
        drop(killed);
        next.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_root_directory_has_one_rubelet_and_the_second_gets_its_pid() {
        let dir = temp_dir();
        let first = RootLock::take(dir.path()).await.unwrap();
        let err = RootLock::take(dir.path()).await.unwrap_err();
        let expected = format!(
            "root directory {} is in use by another rubelet (PID {}): stop it, or choose another --root-dir",
            dir.path().display(),
            std::process::id()
        );
        assert_eq!(err.to_string(), expected);
        drop(first);
        RootLock::take(dir.path()).await.unwrap();
    }

    #[tokio::test]
    async fn a_missing_root_directory_is_named() {
        let dir = temp_dir();
        let err = RootLock::take(dir.path().join("none")).await.unwrap_err();
        assert_eq!(err.to_string(), format!("open lock file {}", dir.path().join("none/rubelet.lock").display()));
    }

    #[tokio::test]
    async fn boot_04_opening_the_lock_file_is_noticed() {
        let dir = temp_dir();
        let path = dir.path().join("lock");
        let lock = LockFile::acquire(&path).await.unwrap();
        let contention = lock.watch().unwrap();
        let waiting = contention.wait();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("the lock file was not opened"),
            () = tokio::task::yield_now() => {}
        }
        std::fs::File::open(&path).unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn boot_04_removing_the_lock_file_is_noticed() {
        let dir = temp_dir();
        let path = dir.path().join("lock");
        let contention = LockFile::acquire(&path).await.unwrap().watch().unwrap();
        std::fs::remove_file(&path).unwrap();
        contention.wait().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn boot_04_a_lock_that_is_held_is_waited_for() {
        let dir = temp_dir();
        let path = dir.path().join("lock");
        let first = LockFile::acquire(&path).await.unwrap();
        let second = tokio::time::timeout(Duration::from_secs(5), LockFile::acquire(&path)).await;
        assert!(second.is_err(), "still held");
        drop(first);
        LockFile::acquire(&path).await.unwrap();
    }
}
