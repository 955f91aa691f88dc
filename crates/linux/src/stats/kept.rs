//! What is kept of a cgroup from one look to the next.
//!
//! To open a file of a cgroup and to close it costs ten times as much as to read it, so the files that every look reads stay
//! open. Each open file pins a page of the kernel's memory, so no others do. Limits change seldom, and are read seldom.

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
const FILES_OF_ONE: usize = 5;

/// How many cgroups may be kept: they take at most a third of the files that this process may open.
pub(super) fn most_kept() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MOST_KEPT, |files| MOST_KEPT.min(files / 3 / FILES_OF_ONE))
}

/// How old limits may become.
const LIMITS_AGE: Duration = Duration::from_secs(30);

/// A cgroup of the last look.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its directory in the tree that is listed.
    pub(super) dir: OwnedFd,
    /// The files that every look reads.
    pub(super) open: Open,
    /// When it was made: the kernel may forget it.
    pub(super) created: Option<Timestamp>,
    limits: Option<(Instant, Detail, Limits)>,
}

/// The files of a cgroup that stay open: each version has its own four.
#[derive(Debug, Default)]
pub(super) struct Open(pub(super) [Option<OwnedFd>; 4]);

impl Kept {
    pub(super) fn new(dir: OwnedFd) -> Self {
        Self { dir, open: Open::default(), created: None, limits: None }
    }

    /// The limits that were read, if they are young enough and all of them.
    pub(super) fn limits(&self, now: Instant, detail: Detail) -> Option<Limits> {
        let (at, had, limits) = self.limits?;
        (now.since(at) < LIMITS_AGE && had >= detail).then_some(limits)
    }

    pub(super) fn set_limits(&mut self, now: Instant, detail: Detail, limits: Limits) {
        self.limits = Some((now, detail, limits));
    }
}
