//! Small files of the kernel, read below an open directory into one buffer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir, RawDirEntry, SeekFrom};
use rustix::io::Errno;

/// Most bytes of one file. The longest are lists of processes, and I/O on a machine with many disks.
const MOST: usize = 256 << 10;

/// What one `read` asks for at first: the kernel makes most files in one piece, and none that is read often is longer.
const USUAL: usize = 16 << 10;

/// A directory of the kernel: one that is open, and a path below it.
#[derive(Clone, Copy)]
pub(super) struct Dir<'a> {
    pub(super) fd: BorrowedFd<'a>,
    /// Empty for the open directory itself.
    pub(super) below: &'a str,
}

/// Reads files, one after another.
#[derive(Debug)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    path: String,
    /// Where the kernel puts the entries of a directory.
    entries: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { buffer: vec![0; USUAL], path: String::new(), entries: Vec::new() }
    }
}

impl Reader {
    /// A file that the kernel writes in one piece; `None` if it cannot be read.
    pub(super) fn file(&mut self, dir: Dir<'_>, name: &str) -> Option<&str> {
        let file = self.open(dir, name)?;
        let length = retry(|| rustix::io::read(&file, &mut *self.buffer)).ok()?;
        std::str::from_utf8(self.buffer.get(..length)?).ok()
    }

    /// The same of a file that stays open. One that cannot be read is closed: its cgroup is gone.
    pub(super) fn kept(&mut self, file: &mut Option<OwnedFd>, dir: Dir<'_>, name: &str) -> Option<&str> {
        if file.is_none() {
            *file = self.open(dir, name);
        }
        let read = retry(|| rustix::io::pread(file.as_ref().ok_or(Errno::NOENT)?, &mut *self.buffer, 0));
        match read {
            Ok(length) => std::str::from_utf8(self.buffer.get(..length)?).ok(),
            Err(_) => {
                *file = None;
                None
            }
        }
    }

    /// A number, such as that of `memory.current`. `max` is none.
    pub(super) fn number(&mut self, dir: Dir<'_>, name: &str) -> Option<u64> {
        self.file(dir, name)?.trim().parse().ok()
    }

    /// A file of several pieces, up to the bound.
    pub(super) fn list(&mut self, dir: Dir<'_>, name: &str) -> Option<&str> {
        let file = self.open(dir, name)?;
        self.rest(&file)
    }

    /// Opens a file in a directory of the kernel, where nobody but the kernel chooses what a file is.
    fn open(&mut self, dir: Dir<'_>, name: &str) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        self.path.clear();
        if !dir.below.is_empty() {
            self.path.push_str(dir.below);
            self.path.push('/');
        }
        self.path.push_str(name);
        rustix::fs::openat(dir.fd, self.path.as_str(), flags, Mode::empty()).ok()
    }

    /// Gives every entry of a directory to `each`, until it answers `false`. The directory is read from its start.
    pub(super) fn entries(&mut self, dir: &OwnedFd, mut each: impl FnMut(&RawDirEntry<'_>) -> bool) {
        self.entries.reserve(USUAL);
        if rustix::fs::seek(dir, SeekFrom::Start(0)).is_err() {
            return;
        }
        let mut entries = RawDir::new(dir, self.entries.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") && !each(&entry) {
                return;
            }
        }
    }

    /// The same by its path, for files of the host.
    pub(super) fn path(&mut self, path: &Path) -> Option<&str> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        self.rest(&file)
    }

    fn rest(&mut self, file: &OwnedFd) -> Option<&str> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= MOST {
                    break;
                }
                self.buffer.resize((length * 2).min(MOST), 0);
            }
            let room = self.buffer.get_mut(length..)?;
            match retry(|| rustix::io::read(file, &mut *room)).ok()? {
                0 => break,
                more => length += more,
            }
        }
        // A file that was cut ends with the last whole line.
        let text = std::str::from_utf8(self.buffer.get(..length)?).ok()?;
        if length < MOST { Some(text) } else { text.rsplit_once('\n').map(|(whole, _)| whole) }
    }
}

/// Opens a directory below another.
pub(super) fn open_dir(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(dir, path, flags, Mode::empty())
}

/// Opens a directory below another, only to find files in it.
pub(super) fn open_path(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(dir, path, flags, Mode::empty())
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
