//! Reading a log from some place on, and following it: through rotations, until the container ends (LOG-05).
//!
//! The directory of the log is opened once, step by step beneath the directory of pod logs, and everything after that
//! goes by its descriptor: nothing that is put in the way can lead elsewhere. Waiting is inotify's; there is no poll.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_engine::blocking::LOG_READS;
use rubelet_engine::ports::{FileError, LogReader, LogText, LogWish};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::lines::Lines;
use super::{DiskLogs, LogDirs, pod_of_log};
use crate::beneath::{self, failed};
use crate::host::lock_file::register;

/// What is read of a log at a time.
const PIECE: usize = 64 * 1024;

#[async_trait]
impl LogReader for DiskLogs {
    async fn open(&self, path: &str, wish: &LogWish) -> Result<Box<dyn LogText>, FileError> {
        let (dirs, path, wish) = (Arc::clone(&self.dirs), PathBuf::from(path), wish.clone());
        let key = pod_of_log(&dirs, &path);
        LOG_READS
            .run(&key.clone(), move || {
                let opened = open(&dirs, &path, &wish).map_err(failed("open log", &path));
                opened
                    .map(|(place, file, offset)| Box::new(DiskLog::new(path, key, place, file, offset, wish)) as Box<_>)
            })
            .await
    }
}

/// Where the log has its name.
struct Place {
    dir: OwnedFd,
    name: String,
}

fn open(dirs: &LogDirs, path: &Path, wish: &LogWish) -> io::Result<(Place, File, u64)> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "not in the directory of pod logs");
    let inside = path.strip_prefix(&dirs.pods).map_err(|_| outside())?;
    let dir = inside.parent().and_then(Path::to_str).filter(|dir| !dir.is_empty()).ok_or_else(outside)?;
    let name = inside.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
    let dir = beneath::open_dir(beneath::open_root(&dirs.pods)?, dir)?;
    let file = beneath::open_file(&dir, beneath::name(name)?, OFlags::RDONLY)?;
    let offset = match wish.tail_lines {
        Some(lines) => tail_start(&file, lines)?,
        None => 0,
    };
    Ok((Place { dir, name: name.to_owned() }, file, offset))
}

/// Where the last `lines` lines begin. A last line without an end is not counted.
/// upstream: cri-client/pkg/logs/tail.go findTailLineStartIndex (v1.36)
fn tail_start(file: &File, lines: u64) -> io::Result<u64> {
    let mut block = vec![0; PIECE];
    let mut right = file.metadata()?.len();
    let mut seen = 0_u64;
    while right > 0 {
        let size = usize::try_from(right).map_or(PIECE, |right| right.min(PIECE));
        let left = right - size as u64;
        let block = block.get_mut(..size).unwrap_or_default();
        file.read_exact_at(block, left)?;
        for (at, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            if seen == lines {
                return Ok(left + at as u64 + 1);
            }
            seen += 1;
        }
        right = left;
    }
    Ok(0)
}

struct DiskLog {
    path: PathBuf,
    /// The pod, whose share of blocking calls its reads count against.
    key: String,
    place: Arc<Place>,
    file: Arc<File>,
    offset: u64,
    /// The file that has taken the log's name; it is read once this one is at its end.
    successor: Option<Arc<File>>,
    lines: Lines,
    mode: Mode,
    watch: Option<Watch>,
    /// Another file may have taken the log's name. A log that is only read, not followed, ends with its file.
    name_changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// At the end of the file, wait for more.
    Follow,
    /// At the end of the file, it is over.
    ToTheEnd,
    /// It is over.
    Over,
}

impl DiskLog {
    fn new(path: PathBuf, key: String, place: Place, file: File, offset: u64, wish: LogWish) -> Self {
        let mode = if wish.follow { Mode::Follow } else { Mode::ToTheEnd };
        Self {
            path,
            key,
            place: Arc::new(place),
            file: Arc::new(file),
            offset,
            successor: None,
            name_changed: wish.follow,
            lines: Lines::new(wish),
            mode,
            watch: None,
        }
    }

    /// The next bytes of the file; none at its end. What was read counts only once it is here: a drop loses nothing.
    async fn read(&mut self) -> io::Result<Vec<u8>> {
        let (file, offset) = (Arc::clone(&self.file), self.offset);
        let piece = LOG_READS
            .run(&self.key, move || {
                let mut piece = vec![0; PIECE];
                loop {
                    match file.read_at(&mut piece, offset) {
                        Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                        Err(err) => return Err(err),
                        Ok(size) => {
                            piece.truncate(size);
                            return Ok(piece);
                        }
                    }
                }
            })
            .await?;
        self.offset += piece.len() as u64;
        Ok(piece)
    }

    async fn advance(&mut self) -> io::Result<Option<Vec<u8>>> {
        while self.mode != Mode::Over && !self.lines.is_enough() {
            let piece = self.read().await?;
            let out = if piece.is_empty() { self.at_the_end().await? } else { self.lines.feed(&piece)? };
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// Goes on to the next file, waits, or ends. Each step that waits is taken from the top when it was dropped.
    async fn at_the_end(&mut self) -> io::Result<Vec<u8>> {
        if let Some(next) = self.successor.take() {
            (self.file, self.offset) = (next, 0);
            return self.lines.end();
        }
        if self.name_changed {
            self.successor = self.renewed().await?;
            self.name_changed = false;
            // The old file may have grown until the moment at which the new one came: it is read once more.
            if self.successor.is_some() {
                return Ok(Vec::new());
            }
        }
        if self.mode == Mode::ToTheEnd {
            self.mode = Mode::Over;
            return self.lines.end();
        }
        match &self.watch {
            // What was written before the watch is found by reading again.
            None => self.watch = Some(Watch::start(&self.place.dir)?),
            Some(watch) => self.name_changed |= watch.wait(&self.place.name).await?,
        }
        Ok(Vec::new())
    }

    /// The file that has the log's name now, if it is another one.
    async fn renewed(&self) -> io::Result<Option<Arc<File>>> {
        let (place, file) = (Arc::clone(&self.place), Arc::clone(&self.file));
        LOG_READS
            .run(&self.key, move || {
                let named = match rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(named) => named,
                    // Between two files: the runtime has not begun the next one.
                    Err(Errno::NOENT) => return Ok(None),
                    Err(err) => return Err(err.into()),
                };
                let open = file.metadata()?;
                if (named.st_dev, named.st_ino) == (open.dev(), open.ino()) {
                    return Ok(None);
                }
                beneath::open_file(&place.dir, &place.name, OFlags::RDONLY).map(|file| Some(Arc::new(file)))
            })
            .await
    }
}

#[async_trait]
impl LogText for DiskLog {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let outcome = self.advance().await;
        outcome.map_err(failed("read log", &self.path))
    }

    fn finish(&mut self) {
        if self.mode == Mode::Follow {
            self.mode = Mode::ToTheEnd;
            self.name_changed = true;
        }
    }
}

/// Changes in the directory of a log.
struct Watch {
    events: AsyncFd<OwnedFd>,
}

impl Watch {
    fn start(dir: &OwnedFd) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        // The descriptor, not the path: it is the directory that was checked.
        inotify::add_watch(&fd, format!("/proc/self/fd/{}", dir.as_raw_fd()), what)?;
        Ok(Self { events: register(fd)? })
    }

    /// Waits until something has changed; whether another file may have taken `name` then. Events are read after the
    /// last `.await`: dropping it loses none.
    async fn wait(&self, name: &str) -> io::Result<bool> {
        let (mut any, mut renamed) = (false, false);
        while !any {
            let mut ready = self.events.readable().await?;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(self.events.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let what = event.events();
                        let moved = what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                        let ours = event.file_name().is_some_and(|found| found.to_bytes() == name.as_bytes());
                        renamed |= moved && ours || !what.intersects(WATCHED);
                        any |= ours || !what.intersects(WATCHED);
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(err) => return Err(err.into()),
                }
            }
            ready.clear_ready();
        }
        Ok(renamed)
    }
}

/// Events about files; all others are about the watch itself, and mean that anything may have happened.
const WATCHED: ReadFlags = ReadFlags::MODIFY.union(ReadFlags::CREATE).union(ReadFlags::MOVED_TO);

#[cfg(test)]
mod tests;
