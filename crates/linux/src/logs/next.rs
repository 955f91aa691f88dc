//! Which file comes after the one that a follower has read (LOG-05).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use flate2::read::GzDecoder;
use rubelet_core::log_rotation::{COMPRESSED, rotated};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::rotate::modified;
use crate::beneath;
use crate::pod_dirs::entries;

/// A file may be compressed or removed between the list and its opening: then the list is read again.
const TRIES: usize = 4;
/// A compressed log is at most this large once decompressed. Larger ones are left out: the follower goes on after it.
const MAX_DECOMPRESSED: u64 = 4 * 1024 * 1024 * 1024;

/// The file after the one that was read.
pub(super) struct Next {
    pub(super) file: Arc<File>,
    /// The name that it got by its rotation; `None` for the live log, which the runtime writes.
    pub(super) rotated_as: Option<String>,
}

/// A file that was read to its end.
#[derive(Clone, Copy)]
pub(super) struct Read<'a> {
    pub(super) file: &'a File,
    /// See [`Next::rotated_as`].
    pub(super) rotated_as: Option<&'a str>,
}

/// One of the files of a log.
struct Piece {
    name: String,
    inode: (u64, u64),
    modified: (i64, i64),
}

/// The file of the log `name` that was written after `read`; `None` if there is none yet.
pub(super) fn next_file(dir: &OwnedFd, name: &str, read: Read<'_>) -> io::Result<Option<Next>> {
    let inode = inode(read.file)?;
    for _ in 0..TRIES {
        // The usual case first: the log has not been rotated.
        if look(dir, name)?.is_some_and(|live| live.inode == inode) {
            return Ok(None);
        }
        let Some(next) = after(dir, name, read)? else { return Ok(None) };
        match open(dir, &next.name) {
            Ok(file) => {
                let rotated_as = (next.name != name).then(|| plain(&next.name).to_owned());
                return Ok(Some(Next { file: Arc::new(file), rotated_as }));
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(err),
        }
    }
    Ok(None)
}

/// Files are in the order of their names, the live one last. A file that has no name any more has been compressed or
/// removed: then the next one follows from the name that it had, and if that was only the live one's, from the time at which
/// it was written last. A compressed file keeps that time.
fn after(dir: &OwnedFd, log: &str, read: Read<'_>) -> io::Result<Option<Piece>> {
    // Opened anew: a descriptor remembers how far its directory has been read.
    let fresh = rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let names: Vec<String> = entries(fresh)?.into_iter().map(|(name, _)| name).collect();
    let mut pieces = Vec::new();
    for name in rotated(log, &names).into_iter().chain([log]) {
        pieces.extend(look(dir, name)?);
    }
    let inode = inode(read.file)?;
    if let Some(at) = pieces.iter().position(|piece| piece.inode == inode) {
        return Ok(pieces.into_iter().nth(at + 1));
    }
    if let Some(had) = read.rotated_as {
        return Ok(pieces.into_iter().find(|piece| piece.name == log || plain(&piece.name) > had));
    }
    let stat = read.file.metadata()?;
    let written = (stat.mtime(), stat.mtime_nsec());
    let mut later = pieces.into_iter().filter(|piece| piece.modified >= written).peekable();
    // The first compressed file with the very same time is the one that was read.
    later.next_if(|piece| piece.name.ends_with(COMPRESSED) && piece.modified == written);
    Ok(later.next())
}

fn inode(file: &File) -> io::Result<(u64, u64)> {
    let stat = file.metadata()?;
    Ok((stat.dev(), stat.ino()))
}

/// The name without the mark of a compressed file.
fn plain(name: &str) -> &str {
    name.strip_suffix(COMPRESSED).unwrap_or(name)
}

fn look(dir: &OwnedFd, name: &str) -> io::Result<Option<Piece>> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // During a rotation: the runtime has not created the next file yet.
        Err(Errno::NOENT) => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let modified = modified(&stat);
    Ok(Some(Piece {
        name: name.to_owned(),
        inode: (stat.st_dev, stat.st_ino),
        modified: (modified.tv_sec, modified.tv_nsec),
    }))
}

/// A compressed log is decompressed into a file without a name, which is gone with its descriptor.
fn open(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let file = beneath::open_file(dir, beneath::name(name)?, OFlags::RDONLY)?;
    if !name.ends_with(COMPRESSED) {
        return Ok(file);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mut plain = File::from(rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)?);
    io::copy(&mut GzDecoder::new(file).take(MAX_DECOMPRESSED), &mut plain)?;
    Ok(plain)
}
