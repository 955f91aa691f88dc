//! Walking trees that containers have filled: removing them, and giving them to a group.
//!
//! Invariants: no link is followed, no mount is entered (the kernel checks both in the step itself), nothing recurses,
//! and the number of open descriptors has a bound however deep the tree is. One bad entry does not stop the rest.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, RenameFlags};
use rustix::io::Errno;

use crate::beneath;

/// Levels held open at once. A tree that goes deeper has its deep part moved up before it is removed, so that a
/// container cannot use up our descriptors by nesting directories.
const MAX_OPEN_LEVELS: usize = 128;

/// Passes over one directory. Each must have removed or moved something, so an honest tree of a million levels is done
/// within the bound; what is still there then is left for the next try.
const MAX_PASSES: usize = 16_384;

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remove {
    /// Files and directories.
    Everything,
    /// Directories only, and only empty ones: a file in the way is someone's data (HK-06).
    EmptyDirs,
}

/// What could not be removed, by its path below the tree's parent.
#[derive(Debug)]
pub(crate) struct InTheWay {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Removes what is called `name` in `at`. Removing what is gone succeeds. Goes on after a failure and answers with the
/// first one.
#[doc(alias = "RemoveAllOneFilesystem")]
pub(crate) fn remove(at: impl AsFd, name: &str, what: Remove) -> Result<(), InTheWay> {
    let in_the_way = |err: io::Error| InTheWay { path: name.into(), source: err };
    let name = CString::new(name).map_err(|_| in_the_way(Errno::INVAL.into()))?;
    Remover { at: at.as_fd(), what, levels: Vec::new(), moved: 0, first_error: None }.run(&name)
}

struct Level {
    dir: Dir,
    name: CString,
    /// Entries that this pass took away.
    removed: usize,
    /// Entries that would not go: another pass cannot help.
    failed: bool,
    passes: usize,
}

struct Remover<'a> {
    at: BorrowedFd<'a>,
    what: Remove,
    levels: Vec<Level>,
    moved: usize,
    first_error: Option<InTheWay>,
}

impl Remover<'_> {
    fn run(mut self, name: &CStr) -> Result<(), InTheWay> {
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
            match gone_is_fine(rustix::fs::unlinkat(at, name, AtFlags::empty())) {
                // Linux says EISDIR of a directory, other file systems EPERM.
                Err(Errno::ISDIR | Errno::PERM) => {}
                other => return other,
            }
        }
        gone_is_fine(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR))
    }

    fn descend(&mut self, name: &CStr) {
        let result = match self.levels.as_slice() {
            [top, .., last] if self.levels.len() >= MAX_OPEN_LEVELS => match self.what {
                // Data that we may not remove we may not move either.
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
            // What was moved up is found by the outermost level's next pass.
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

    /// The innermost level has been read to its end: it goes, or gets another pass if it is not empty.
    fn leave(&mut self) {
        let Some(mut level) = self.levels.pop() else { return };
        let at = self.levels.last().map_or(Ok(self.at), |outer| outer.dir.fd());
        match at.and_then(|at| gone_is_fine(rustix::fs::unlinkat(at, &level.name, AtFlags::REMOVEDIR))) {
            Ok(()) => {
                if let Some(outer) = self.levels.last_mut() {
                    outer.removed += 1;
                }
            }
            // Entries came while we read, or reading skipped some because others went: look again, as long as it helps.
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
            self.first_error = Some(InTheWay { path, source: explain(err) });
        }
    }
}

fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// The kernel's word, in the words of someone who has to find out what is in the way.
fn explain(err: Errno) -> io::Error {
    let text = match err {
        Errno::BUSY | Errno::XDEV => "another file system is mounted on it",
        Errno::NOTDIR => "it is a file, not an empty directory",
        _ => return err.into(),
    };
    io::Error::new(io::Error::from(err).kind(), text)
}

/// What a group may do with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupMay {
    Read,
    Write,
}

/// Gives the tree called `name` in `at` to the group `gid` (VOL-09): files g+r or g+rw, directories g+rxs or g+rwxs. Links themselves change hands, never what they lead to. Goes on after a failure and answers with the first.
pub(crate) fn give_to_group(at: impl AsFd, name: &str, gid: u32, may: GroupMay) -> Result<(), InTheWay> {
    let in_the_way = |err: Errno| InTheWay { path: name.into(), source: err.into() };
    // The tree's root may be a mount of its own (a tmpfs); below it none is entered.
    let root = beneath::open_dir(at, name).map_err(|source| InTheWay { path: name.into(), source })?;
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
                // Not a directory, a link, or a mount of its own.
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
                first_error = Some(InTheWay { path, source: err.into() });
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
    // `fchmod` refuses a bare handle, and opening a FIFO or device for it would have effects. The name below leads to
    // what the handle holds, whatever has become of its path.
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

#[cfg(test)]
mod tests;
