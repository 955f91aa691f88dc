//! Writes a volume's files atomically: a reader never sees a mix of old and new content (VOL-20).
//!
//! ```text
//! volume/..2026_11_15_22_47_54.123456789/   the files themselves
//! volume/..data -> ..2026_11_15_22_47_54.123456789   swapped by a rename
//! volume/key    -> ..data/key               what containers see
//! ```
//!
//! Every step is relative to the volume's open directory and follows no link. An interrupted write leaves the old
//! content in force, and the next write removes its leftovers.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rubelet_core::volume_files::PayloadFile;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{FileError, Payload, PayloadWriter, VolumePlace, Written};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{RootVolumes, VOLUMES};
use crate::beneath;
use crate::pod_dirs::{entries, none_if_gone};
use crate::tree::{self, GroupMay, Remove};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Everyone may list it; the files have their own modes.
const DIR_MODE: u32 = 0o755;

/// Names tried for a new data directory. The clock nearly always yields a new one.
const NAME_TRIES: u32 = 1000;

/// Levels of directories in a volume: a path of 4096 bytes has no more than 2048.
const MAX_LEVELS: usize = 2048;

/// The writer.
#[doc(alias = "AtomicWriter")]
#[derive(Clone, Debug)]
pub struct Payloads {
    volumes: RootVolumes,
    clock: Clock,
}

impl Payloads {
    /// Writes into `volumes`; data directories are named after the clock's time.
    pub fn new(volumes: RootVolumes, clock: Clock) -> Self {
        Self { volumes, clock }
    }
}

#[async_trait]
impl PayloadWriter for Payloads {
    async fn write(&self, place: &VolumePlace, payload: Payload) -> Result<Written, FileError> {
        let now = self.clock.wall();
        self.volumes
            .run("write the content of", place, move |volumes, place| {
                let parent = volumes.parent(place, VOLUMES)?.ok_or(Errno::NOENT)?;
                let name = place.name()?;
                let dir = beneath::open_dir(&parent, name)?;
                Volume { parent, name, dir }.write(&payload, now)
            })
            .await
    }

    async fn is_written(&self, place: &VolumePlace) -> Result<bool, FileError> {
        self.volumes
            .run("look at the content of", place, |volumes, place| {
                let Some(parent) = volumes.parent(place, VOLUMES)? else { return Ok(false) };
                let name = place.name()?;
                let Some(dir) = none_if_gone(beneath::open_dir(&parent, name))? else { return Ok(false) };
                Ok(Volume { parent, name, dir }.current()?.is_some())
            })
            .await
    }
}

struct Volume<'a> {
    parent: OwnedFd,
    name: &'a str,
    dir: OwnedFd,
}

impl Volume<'_> {
    fn write(&self, payload: &Payload, now: Timestamp) -> io::Result<Written> {
        for point in &payload.mount_points {
            match make_dirs(&self.dir, point) {
                // This is our own link; a container may mount something on its target.
                Err(err) if matches!(Errno::from_io_error(&err), Some(Errno::LOOP | Errno::NOTDIR)) => {}
                result => drop(result?),
            }
        }
        let before = self.current()?;
        let stale = match &before {
            Some((_, old)) => stale(old, payload)?,
            None => BTreeSet::new(),
        };
        let same = match &before {
            Some((_, old)) => stale.is_empty() && is_unchanged(old, payload)?,
            None => false,
        };
        let current = match before {
            Some((name, _)) if same => name,
            Some(_) | None => self.replace(payload, now)?,
        };
        self.show(payload)?;
        self.hide(&stale)?;
        if same {
            return Ok(Written::Same);
        }
        self.remove_all_but(Some(&current))?;
        Ok(Written::New)
    }

    /// The data directory in force and its name.
    fn current(&self) -> io::Result<Option<(String, OwnedFd)>> {
        let link = match rustix::fs::readlinkat(&self.dir, DATA, Vec::new()) {
            Ok(link) => link,
            Err(Errno::NOENT) => return Ok(None),
            Err(err) => return Err(err.into()),
        };
        let Some(name) = link.to_str().ok().filter(|name| is_ours(name)) else { return Ok(None) };
        let old = none_if_gone(beneath::open_dir(&self.dir, name))?;
        Ok(old.map(|old| (name.to_owned(), old)))
    }

    /// Writes the files into a new data directory and puts it in force.
    fn replace(&self, payload: &Payload, now: Timestamp) -> io::Result<String> {
        let (name, new) = self.new_dir(now)?;
        let result = fill(&new, payload).and_then(|()| {
            if let Some(group) = payload.group
                // The group of the whole volume: its own directory may be new too. A failure must not keep the pod from
                // starting. upstream: volume_linux.go changeFilePermission (v1.36)
                && let Err(err) = tree::give_to_group(&self.parent, self.name, group, GroupMay::Read)
            {
                tracing::warn!(volume = self.name, group, err = %err.source, "Volume's group could not be changed on all files");
            }
            ignore_missing(rustix::fs::unlinkat(&self.dir, NEW_DATA, AtFlags::empty()))?;
            rustix::fs::symlinkat(name.as_str(), &self.dir, NEW_DATA)?;
            Ok(rustix::fs::renameat(&self.dir, NEW_DATA, &self.dir, DATA)?)
        });
        if let Err(err) = result {
            // A leftover is removed by the next write.
            let _left = tree::remove(&self.dir, &name, Remove::Everything);
            return Err(err);
        }
        Ok(name)
    }

    fn new_dir(&self, now: Timestamp) -> io::Result<(String, OwnedFd)> {
        let utc = now.to_zoned(TimeZone::UTC);
        let second = utc.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
        let nanos = utc.subsec_nanosecond().unsigned_abs();
        for more in 0..NAME_TRIES {
            let name = format!("{second}.{}", nanos.saturating_add(more));
            match rustix::fs::mkdirat(&self.dir, &*name, Mode::from_raw_mode(DIR_MODE)) {
                Ok(()) => {
                    let dir = beneath::open_dir(&self.dir, &name)?;
                    beneath::set_mode(&dir, Mode::from_raw_mode(DIR_MODE))?;
                    return Ok((name, dir));
                }
                Err(Errno::EXIST) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Makes the user-visible links. An existing file or directory of that name, such as a mount point, stays.
    fn show(&self, payload: &Payload) -> io::Result<()> {
        let mut done = BTreeSet::new();
        for (path, file) in &payload.files {
            let first = path.split('/').next().unwrap_or_default();
            if !done.insert(first) {
                continue;
            }
            match rustix::fs::symlinkat(format!("{DATA}/{first}"), &self.dir, beneath::name(first)?) {
                Ok(()) => own(&self.dir, first, file)?,
                Err(Errno::EXIST) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Ok(())
    }

    /// Removes user-visible links whose target is gone.
    fn hide(&self, stale: &BTreeSet<String>) -> io::Result<()> {
        for name in stale.iter().filter(|path| !path.contains('/')) {
            match rustix::fs::unlinkat(&self.dir, name.as_str(), AtFlags::empty()) {
                // A directory, on which something is mounted.
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::PERM) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Ok(())
    }

    /// Removes earlier data directories, those of interrupted writes included.
    fn remove_all_but(&self, current: Option<&str>) -> io::Result<()> {
        for (name, kind) in entries(beneath::open_dir(&self.dir, ".")?)? {
            if kind == FileType::Directory && is_ours(&name) && Some(name.as_str()) != current {
                tree::remove(&self.dir, &name, Remove::Everything).map_err(|err| err.source)?;
            }
        }
        Ok(())
    }
}

/// Whether a name is a data directory's, made by [`Volume::new_dir`] or by upstream.
fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix("..").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit()) && beneath::name(name).is_ok()
}

fn fill(dir: &OwnedFd, payload: &Payload) -> io::Result<()> {
    for (path, file) in &payload.files {
        let made;
        let (parent, name) = match path.rsplit_once('/') {
            Some((dirs, name)) => {
                made = make_dirs(dir, dirs)?;
                (&made, name)
            }
            None => (dir, path.as_str()),
        };
        let mut new = beneath::open_file(parent, beneath::name(name)?, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        new.write_all(&file.data)?;
        beneath::set_mode(&new, Mode::from_raw_mode(file.mode))?;
        own(parent, name, file)?;
    }
    Ok(())
}

fn own(dir: &OwnedFd, name: &str, file: &PayloadFile) -> io::Result<()> {
    let Some(owner) = file.owner else { return Ok(()) };
    Ok(rustix::fs::chownat(dir, name, Some(Uid::from_raw(owner)), None, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Makes the missing directories on the way to `path`, and opens the last.
fn make_dirs(at: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut dir = beneath::open_dir(at, ".")?;
    for name in path.split('/') {
        dir = beneath::ensure_dir_keeping_mode(&dir, name, DIR_MODE)?;
    }
    Ok(dir)
}

/// Paths of old files and directories that the new payload does not have.
fn stale(old: &OwnedFd, payload: &Payload) -> io::Result<BTreeSet<String>> {
    let mut wanted = BTreeSet::new();
    for path in payload.files.keys() {
        wanted.extend(path.match_indices('/').filter_map(|(at, _)| path.get(..at)));
        wanted.insert(path);
    }
    let mut found = paths(old)?;
    found.retain(|path| !wanted.contains(path.as_str()));
    Ok(found)
}

fn paths(root: &OwnedFd) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut left = vec![".".to_owned()];
    while let Some(dir) = left.pop() {
        for (name, kind) in entries(beneath::open_dir(root, &dir)?)? {
            let path = if dir == "." { name } else { format!("{dir}/{name}") };
            if kind == FileType::Directory && path.matches('/').count() < MAX_LEVELS {
                left.push(path.clone());
            }
            found.insert(path);
        }
    }
    Ok(found)
}

/// Whether every file already has its content. Modes are not compared, as upstream does not.
fn is_unchanged(old: &OwnedFd, payload: &Payload) -> io::Result<bool> {
    for (path, file) in &payload.files {
        match same(old, path, &file.data) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // Gone, or replaced by a directory.
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

fn same(old: &OwnedFd, path: &str, data: &[u8]) -> io::Result<bool> {
    let file = beneath::open_file(old, path, OFlags::RDONLY)?;
    let len = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if file.metadata()?.len() != len {
        return Ok(false);
    }
    let mut found = Vec::with_capacity(data.len());
    file.take(len).read_to_end(&mut found)?;
    Ok(found == data)
}

fn ignore_missing(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

#[cfg(test)]
mod tests;
