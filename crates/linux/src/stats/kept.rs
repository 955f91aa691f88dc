//! What is kept of a cgroup from one look to the next.
//!
//! To open a file of a cgroup and to close it costs ten times as much as to read it, so the files that every look reads stay
//! open. Each open file pins a page of the kernel's memory, so no others do. A directory pins next to nothing: with one that is
//! open, the name of a file is looked up in it and not from the root of the tree down. Limits change seldom, and are read seldom.

use std::os::fd::OwnedFd;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::time::Instant;
use rubelet_core::usage::Limits;
use rubelet_engine::ports::Detail;
use rustix::process::{Resource, getrlimit};

/// Most cgroups that are kept: a node has seldom more. Others are opened at each look.
const MOST_KEPT: usize = 1024;
/// The open files of a cgroup that is kept: its directory, and those of [`Open`].
const FILES_OF_ONE: usize = 8;

/// How many cgroups may be kept: they take at most a third of the files that this process may open.
pub(super) fn most_kept() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MOST_KEPT, |files| MOST_KEPT.min(files / 3 / FILES_OF_ONE))
}

/// How old bounds may become.
const BOUNDS_AGE: Duration = Duration::from_secs(30);

/// A cgroup of the last look.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its directory in the tree that is listed.
    pub(super) dir: OwnedFd,
    /// The files that every look reads.
    pub(super) open: Open,
    /// When it was made: the kernel may forget it.
    pub(super) created: Option<Timestamp>,
    bounds: Option<(Instant, Detail, Bounds)>,
}

/// What stays open of a cgroup.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Its files: each version has its own four.
    pub(super) files: [Option<OwnedFd>; 4],
    /// Its directories in other trees, on cgroup v1.
    pub(super) dirs: [Option<OwnedFd>; 3],
}

/// What changes seldom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) limits: Limits,
    /// The most threads.
    pub(super) threads: Option<u64>,
    /// The most open files of the first process.
    pub(super) open_files: Option<u64>,
}

impl Kept {
    pub(super) fn new(dir: OwnedFd) -> Self {
        Self { dir, open: Open::default(), created: None, bounds: None }
    }

    /// The bounds that were read, if they are young enough and all of them.
    pub(super) fn bounds(&self, now: Instant, detail: Detail) -> Option<Bounds> {
        let (at, had, bounds) = self.bounds?;
        (now.since(at) < BOUNDS_AGE && had >= detail).then_some(bounds)
    }

    pub(super) fn set_bounds(&mut self, now: Instant, detail: Detail, bounds: Bounds) {
        self.bounds = Some((now, detail, bounds));
    }
}
