//! Walks trees that containers have filled: removing them, and changing their group.
//!
//! Invariants: no link is followed, no mount is entered (the kernel checks both in the step itself), nothing recurses,
//! and the number of open descriptors is bounded however deep the tree is. One bad entry does not stop the rest.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, RenameFlags};
use rustix::io::Errno;

use crate::beneath;

/// Levels held open at once. The deep part of a deeper tree is moved up before it is removed, so that a container
/// cannot use up our descriptors by nesting directories.
const MAX_OPEN_LEVELS: usize = 128;

/// Passes over one directory. Each must have removed or moved something, so an honest tree of a million levels is done
/// within the bound; what is left then waits for the next try.
const MAX_PASSES: usize = 16_384;

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remove {
    /// Files and directories.
    Everything,
    /// Empty directories only: a file is someone's data (HK-06).
    EmptyDirs,
}

/// The first entry that could not be removed, by its path below the tree's parent.
#[derive(Debug)]
pub(crate) struct TreeError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Removes `name` in `at`. A missing file counts as removed. Continues after a failure and returns the first error.
#[doc(alias = "RemoveAllOneFilesystem")]
pub(crate) fn remove(at: impl AsFd, name: &str, what: Remove) -> Result<(), TreeError> {
    let in_the_way = |err: io::Error| TreeError { path: name.into(), source: err };
    let name = CString::new(name).map_err(|_| in_the_way(Errno::INVAL.into()))?;
    Remover { at: at.as_fd(), what, levels: Vec::new(), moved: 0, first_error: None }.run(&name)
}

struct Level {
    dir: Dir,
    name: CString,
    /// Entries that this pass removed or moved.
    removed: usize,
    /// Entries that could not be removed: another pass cannot help.
    failed: bool,
    passes: usize,
}

struct Remover<'a> {
    at: BorrowedFd<'a>,
    what: Remove,
    levels: Vec<Level>,
    moved: usize,
    first_error: Option<TreeError>,
}

impl Remover<'_> {
    fn run(mut self, name: &CStr) -> Result<(), TreeError> {
        self.entry(name, FileType::Unknown);
        while let Some(level) = self.levels.last_mut() {
            match level.dir.read() {
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        let (name, kind) = (name.to_owned(), entry.file_type());
                        self.entry(&name, kind);
                    }
                }
                Some(Err(err)) => {
                    level.failed = true;
                    self.fail(None, err);
                    self.leave();
                }
                None => self.leave(),
            }
        }
        self.first_error.map_or(Ok(()), Err)
    }

    /// Removes one entry of the innermost level, or descends into it.
    fn entry(&mut self, name: &CStr, kind: FileType) {
        let at = self.levels.last().map_or(Ok(self.at), |level| level.dir.fd());
        let result = at.and_then(|at| match self.try_entry(at, name, kind) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            other => other.map(|()| true),
        });
        match result {
            Ok(true) => {
                if let Some(level) = self.levels.last_mut() {
                    level.removed += 1;
                }
            }
            Ok(false) => self.descend(name),
            Err(err) => self.fail(Some(name), err),
        }
    }

    fn try_entry(&self, at: BorrowedFd<'_>, name: &CStr, kind: FileType) -> Result<(), Errno> {
        if self.what == Remove::Everything && kind != FileType::Directory {
            match ignore_missing(rustix::fs::unlinkat(at, name, AtFlags::empty())) {
                // The kernel reports EISDIR for a directory, some file systems EPERM.
                Err(Errno::ISDIR | Errno::PERM) => {}
                other => return other,
            }
        }
        ignore_missing(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR))
    }

    fn descend(&mut self, name: &CStr) {
        let result = match self.levels.as_slice() {
            [top, .., last] if self.levels.len() >= MAX_OPEN_LEVELS => match self.what {
                // Data that may not be removed may not be moved either.
                Remove::EmptyDirs => Err(Errno::LOOP),
                Remove::Everything => {
                    let unused = format!("deleting~{}~{}", std::process::id(), self.moved);
                    self.moved += 1;
                    let moved = top.dir.fd().and_then(|top| {
                        let last = last.dir.fd()?;
                        rustix::fs::renameat_with(last, name, top, &*unused, RenameFlags::NOREPLACE)
                    });
                    moved.map(|()| None)
                }
            },
            levels => {
                let at = levels.last().map_or(Ok(self.at), |level| level.dir.fd());
                at.and_then(|at| beneath::open_dir_same_mount(at, name)).and_then(Dir::new).map(Some)
            }
        };
        match result {
            Ok(Some(dir)) => {
                self.levels.push(Level { dir, name: name.to_owned(), removed: 0, failed: false, passes: 0 });
            }
            // The outermost level's next pass finds the moved directory.
            Ok(None) => {
                for level in [self.levels.first_mut()].into_iter().flatten() {
                    level.removed += 1;
                }
                if let Some(level) = self.levels.last_mut() {
                    level.removed += 1;
                }
            }
            Err(Errno::NOENT) => {}
            Err(err) => self.fail(Some(name), err),
        }
    }

    /// The innermost level has been read to its end: it is removed, or gets another pass if it is not empty.
    fn leave(&mut self) {
        let Some(mut level) = self.levels.pop() else { return };
        let at = self.levels.last().map_or(Ok(self.at), |outer| outer.dir.fd());
        match at.and_then(|at| ignore_missing(rustix::fs::unlinkat(at, &level.name, AtFlags::REMOVEDIR))) {
            Ok(()) => {
                if let Some(outer) = self.levels.last_mut() {
                    outer.removed += 1;
                }
            }
            // Entries appeared during the pass, or the directory stream skipped some after removals: another pass, as
            // long as it helps.
            Err(Errno::NOTEMPTY | Errno::EXIST) if !level.failed && level.removed > 0 && level.passes < MAX_PASSES => {
                level.dir.rewind();
                level.passes += 1;
                level.removed = 0;
                self.levels.push(level);
            }
            Err(err) => {
                self.fail(Some(&level.name), err);
            }
        }
    }

    fn fail(&mut self, name: Option<&CStr>, err: Errno) {
        if let Some(level) = self.levels.last_mut() {
            level.failed = true;
        }
        if self.first_error.is_none() {
            let names = self.levels.iter().map(|level| level.name.as_c_str()).chain(name);
            let path = names.map(|name| OsStr::from_bytes(name.to_bytes())).collect();
            self.first_error = Some(TreeError { path, source: explain(err) });
        }
    }
}

fn ignore_missing(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Replaces the kernel's error by one that says what prevents the removal.
fn explain(err: Errno) -> io::Error {
    let text = match err {
        Errno::BUSY | Errno::XDEV => "another file system is mounted on it",
        Errno::NOTDIR => "it is a file, not an empty directory",
        _ => return err.into(),
    };
    io::Error::new(io::Error::from(err).kind(), text)
}

/// The group's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupMay {
    Read,
    Write,
}

/// Changes the group of the tree called `name` in `at` to `gid` (VOL-09): files g+r or g+rw, directories g+rxs or
/// g+rwxs. A link itself is changed, never its target. Continues after a failure and returns the first error.
pub(crate) fn give_to_group(at: impl AsFd, name: &str, gid: u32, may: GroupMay) -> Result<(), TreeError> {
    let in_the_way = |err: Errno| TreeError { path: name.into(), source: err.into() };
    // The root of the tree may be a mount (a tmpfs); no mount below it is entered.
    let root = beneath::open_dir(at, name).map_err(|source| TreeError { path: name.into(), source })?;
    let mut first_error = own(root.as_fd(), gid, may).err().map(in_the_way);
    let mut levels = vec![(Dir::new(root).map_err(in_the_way)?, CString::default())];
    while let depth @ 1.. = levels.len()
        && let Some((dir, _)) = levels.last_mut()
    {
        let Some(entry) = dir.read() else {
            levels.pop();
            continue;
        };
        let step = entry.and_then(|entry| {
            let name = entry.file_name().to_owned();
            if name.as_c_str() == c"." || name.as_c_str() == c".." {
                return Ok(None);
            }
            let file = beneath::handle(dir.fd()?, &*name)?;
            own(file.as_fd(), gid, may)?;
            match beneath::open_dir_same_mount(dir.fd()?, &*name) {
                Ok(_) if depth >= MAX_OPEN_LEVELS => Err(Errno::LOOP),
                Ok(inner) => Ok(Some((Dir::new(inner)?, name))),
                // A file, a link, or a mount.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
                Err(err) => Err(err),
            }
        });
        match step {
            Ok(Some(inner)) => levels.push(inner),
            Ok(None) | Err(Errno::NOENT) => {}
            Err(err) if first_error.is_none() => {
                let names = levels.iter().map(|(_, name)| OsStr::from_bytes(name.to_bytes()));
                let path = PathBuf::from(name).join(names.collect::<PathBuf>());
                first_error = Some(TreeError { path, source: err.into() });
            }
            Err(_) => {}
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn own(file: BorrowedFd<'_>, gid: u32, may: GroupMay) -> Result<(), Errno> {
    rustix::fs::chownat(file, c"", None, Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH)?;
    let stat = rustix::fs::fstat(file)?;
    // upstream: volume_linux.go changeFilePermission (v1.36): the owner gets no less than the group.
    let more = match (FileType::from_raw_mode(stat.st_mode), may) {
        (FileType::Symlink, _) => return Ok(()),
        (FileType::Directory, GroupMay::Write) => 0o2770,
        (FileType::Directory, GroupMay::Read) => 0o2550,
        (_, GroupMay::Write) => 0o660,
        (_, GroupMay::Read) => 0o440,
    };
    let mode = Mode::from_raw_mode(stat.st_mode | more);
    // `fchmod` refuses an `O_PATH` handle, and opening a FIFO or device for it would have effects. The `/proc/self/fd`
    // name leads to the file behind the handle, even if its path has changed.
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

#[cfg(test)]
mod tests;
