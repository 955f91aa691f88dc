//! Walks one directory, and can stop at any entry.
//!
//! Invariants: no link is followed and no mount below the directory is entered (the kernel checks both in the step itself);
//! a file with several names counts once; nothing recurses; descriptors and memory are bounded however deep, wide or linked
//! the tree is. Beyond these bounds the result is too small, never too late.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rubelet_core::usage::DiskUsage;
use rubelet_engine::clock::Clock;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::beneath;

/// Entries of one turn: most directories are finished within one.
const TURN_ENTRIES: usize = 4096;
/// How long a turn lasts, for disks that are slow.
const TURN_TIME: Duration = Duration::from_millis(20);
/// How often the clock is looked at.
const CHECK_EVERY: usize = 64;
/// Levels open at a time. A deeper directory is put aside and walked for itself afterwards.
const MOST_LEVELS: usize = 128;
/// Directories put aside.
const MOST_ASIDE: usize = 1024;
/// Files with several names that are remembered.
const MOST_LINKED: usize = 1 << 17;

/// What a turn ended with.
pub(super) enum Turn {
    Whole(DiskUsage),
    Unfinished(Walk),
}

/// A directory that is being measured.
pub(super) struct Walk {
    /// The directories from the top down to the one that is being read.
    levels: Vec<Dir>,
    aside: Vec<OwnedFd>,
    linked: BTreeSet<(u64, u64)>,
    used: DiskUsage,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("used", &self.used).finish_non_exhaustive()
    }
}

impl Walk {
    /// Opens the directory, which may be a mount. What is missing takes nothing, and a file is measured at once.
    pub(super) fn begin(path: &Path) -> io::Result<Turn> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Turn::Whole(DiskUsage::default())),
            Err(err) => return Err(err.into()),
        };
        let stat = rustix::fs::fstat(&handle)?;
        let mut walk =
            Self { levels: Vec::new(), aside: Vec::new(), linked: BTreeSet::new(), used: DiskUsage::default() };
        walk.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(Turn::Whole(walk.used));
        }
        walk.levels.push(Dir::new(beneath::open_dir_same_mount(&handle, c".")?)?);
        Ok(Turn::Unfinished(walk))
    }

    /// Goes on for one turn; the result if that was the last one.
    pub(super) fn turn(&mut self, clock: &Clock) -> Option<DiskUsage> {
        let until = clock.mono() + TURN_TIME;
        for entry in 1..=TURN_ENTRIES {
            if !self.step() {
                return Some(self.used);
            }
            if entry % CHECK_EVERY == 0 && clock.mono() >= until {
                break;
            }
        }
        None
    }

    /// Measures one entry; `false` at the end of the tree. A directory that cannot be read any more counts as empty.
    fn step(&mut self) -> bool {
        let Some(level) = self.levels.last_mut() else {
            let Some(next) = self.aside.pop() else { return false };
            self.levels.extend(Dir::new(next).ok());
            return true;
        };
        let Some(Ok(entry)) = level.read() else {
            self.levels.pop();
            return true;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            return true;
        }
        let Ok(dir) = level.fd() else { return true };
        let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT) else {
            return true;
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            self.count(&stat);
            return true;
        }
        // What is mounted here belongs to somebody else.
        let Ok(inner) = beneath::open_dir_same_mount(dir.as_fd(), name) else { return true };
        self.count(&stat);
        if self.levels.len() < MOST_LEVELS {
            self.levels.extend(Dir::new(inner).ok());
        } else if self.aside.len() < MOST_ASIDE {
            self.aside.push(inner);
        }
        true
    }

    /// upstream: cadvisor fs/fs.go GetDirUsage, as of v1.36
    fn count(&mut self, stat: &Stat) {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_nlink > 1
            && !is_dir
            && self.linked.len() < MOST_LINKED
            && !self.linked.insert((stat.st_dev, stat.st_ino))
        {
            return;
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
        self.used.bytes = self.used.bytes.saturating_add(blocks.saturating_mul(512));
        self.used.inodes = self.used.inodes.saturating_add(1);
    }
}
