//! Reads a log from some offset on, and follows it through rotations until the container ends (LOG-05).
//!
//! A log may be rotated several times before its follower has read one file to its end. So the next file is not simply the
//! one that has the log's name: it is the one that was written after the file that has been read, which may have been
//! rotated, or compressed, as well. A follower loses no line as long as rotation keeps the file.
//!
//! The log's directory is opened once, step by step beneath the pod log directory, and later steps use its descriptor:
//! a link planted on the way cannot lead elsewhere. All followers share one inotify instance (`watch`).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_engine::blocking::LOG_READS;
use rubelet_engine::ports::{FileError, LogReader, LogText, LogWish};
use rustix::fs::OFlags;

use super::lines::Lines;
use super::next::{self, Next, Read};
use super::watch::{Watch, Watches};
use super::{DiskLogs, LogDirs, pod_of_log};
use crate::beneath::{self, failed};

/// How much is read at a time.
const PIECE: usize = 64 * 1024;
/// How much is searched for the last lines in one blocking call: some milliseconds.
const STRETCH: usize = 8 * 1024 * 1024;
/// After the runtime has opened the next file it may write what it had buffered to the one before, for this long.
const SETTLES: Duration = Duration::from_millis(100);

#[async_trait]
impl LogReader for DiskLogs {
    async fn open(&self, path: &str, wish: &LogWish) -> Result<Box<dyn LogText>, FileError> {
        let (dirs, path) = (Arc::clone(&self.dirs), PathBuf::from(path));
        let key = pod_of_log(&dirs, &path);
        let inside = path.clone();
        let open = async {
            let (place, file) = LOG_READS.run(&key, move || open(&dirs, &inside)).await?;
            let file = Arc::new(file);
            let offset = match wish.tail_lines {
                Some(lines) => tail_start(&key, &file, lines).await?,
                None => 0,
            };
            io::Result::Ok((place, file, offset))
        };
        let opened = open.await.map_err(failed("open log", &path))?;
        Ok(Box::new(DiskLog::new(path, key, opened, Arc::clone(&self.watches), wish.clone())))
    }
}

/// The log's directory and file name.
struct Place {
    dir: OwnedFd,
    name: String,
}

fn open(dirs: &LogDirs, path: &Path) -> io::Result<(Place, File)> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "not in the directory of pod logs");
    let inside = path.strip_prefix(&dirs.pods).map_err(|_| outside())?;
    let dir = inside.parent().and_then(Path::to_str).filter(|dir| !dir.is_empty()).ok_or_else(outside)?;
    let name = inside.file_name().and_then(|name| name.to_str()).ok_or_else(outside)?;
    let dir = beneath::open_dir(beneath::open_root(&dirs.pods)?, dir)?;
    let file = beneath::open_file(&dir, beneath::name(name)?, OFlags::RDONLY)?;
    Ok((Place { dir, name: name.to_owned() }, file))
}

/// Where the last `lines` lines begin. An unfinished last line is not counted.
///
/// The client chooses the number of lines, and the container the length of its log: so the file is searched in
/// stretches, and the search ends when the client leaves.
/// upstream: cri-client/pkg/logs/tail.go findTailLineStartIndex (v1.36)
async fn tail_start(key: &str, file: &Arc<File>, lines: u64) -> io::Result<u64> {
    let mut scan = Scan { right: file.metadata()?.len(), seen: 0, lines };
    loop {
        let file = Arc::clone(file);
        let (next, found) = LOG_READS.run(key, move || scan.stretch(&file).map(|found| (scan, found))).await?;
        match found {
            Some(start) => return Ok(start),
            None => scan = next,
        }
    }
}

/// A search for a line's beginning, backwards from the end of a file.
#[derive(Clone, Copy)]
struct Scan {
    right: u64,
    seen: u64,
    lines: u64,
}

impl Scan {
    /// Searches the next stretch; returns where the lines begin, once that is known.
    fn stretch(&mut self, file: &File) -> io::Result<Option<u64>> {
        let mut block = vec![0; PIECE];
        for _ in 0..STRETCH / PIECE {
            if self.right == 0 {
                return Ok(Some(0));
            }
            let size = usize::try_from(self.right).map_or(PIECE, |right| right.min(PIECE));
            let left = self.right - size as u64;
            let block = block.get_mut(..size).unwrap_or_default();
            file.read_exact_at(block, left)?;
            for (at, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                if self.seen == self.lines {
                    return Ok(Some(left + at as u64 + 1));
                }
                self.seen += 1;
            }
            self.right = left;
        }
        Ok(None)
    }
}

struct DiskLog {
    path: PathBuf,
    /// The pod, against whose share of blocking threads the reads count.
    key: String,
    place: Arc<Place>,
    file: Arc<File>,
    offset: u64,
    /// The name that the file had when it was rotated, if it was rotated when it was opened.
    rotated_as: Option<String>,
    /// The file that was written after this one; it is read once this one is at its end.
    successor: Option<Next>,
    lines: Lines,
    mode: Mode,
    watches: Arc<Watches>,
    watch: Option<Watch>,
    /// Another file may have the log's name by now. A log that is not followed ends with its first file.
    name_changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Follow: at the end of the file, wait for more.
    Follow,
    /// Stop at the end of the file.
    ToTheEnd,
    /// Finished.
    Over,
}

impl DiskLog {
    fn new(
        path: PathBuf,
        key: String,
        (place, file, offset): (Place, Arc<File>, u64),
        watches: Arc<Watches>,
        wish: LogWish,
    ) -> Self {
        let mode = if wish.follow { Mode::Follow } else { Mode::ToTheEnd };
        Self {
            path,
            key,
            place: Arc::new(place),
            file,
            offset,
            rotated_as: None,
            successor: None,
            name_changed: wish.follow,
            lines: Lines::new(wish),
            mode,
            watches,
            watch: None,
        }
    }

    /// The next bytes of the file; none at its end. The offset moves only after the read has returned, so a dropped
    /// call loses nothing.
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
        while self.mode != Mode::Over && !self.lines.limit_reached() {
            let piece = self.read().await?;
            let out = if piece.is_empty() { self.at_the_end().await? } else { self.lines.feed(&piece)? };
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// Switches to the next file, waits, or ends. A dropped call starts again from the top.
    async fn at_the_end(&mut self) -> io::Result<Vec<u8>> {
        if let Some(next) = self.successor.take() {
            (self.file, self.offset, self.rotated_as) = (next.file, 0, next.rotated_as);
            // The next file may have been rotated meanwhile.
            self.name_changed = true;
            return self.lines.end();
        }
        if self.name_changed {
            let next = self.next_file().await?;
            // The old file may have grown until the new one was created, and a moment longer: it is read once more.
            if let Some(next) = next {
                if next.rotated_as.is_none() {
                    tokio::time::sleep(SETTLES).await;
                }
                self.successor = Some(next);
                return Ok(Vec::new());
            }
            self.name_changed = false;
        }
        if self.mode == Mode::ToTheEnd {
            self.mode = Mode::Over;
            return self.lines.end();
        }
        match &mut self.watch {
            // Lines written before the watch started are found by reading again.
            None => {
                let (watches, place) = (Arc::clone(&self.watches), Arc::clone(&self.place));
                self.watch = Some(LOG_READS.run(&self.key, move || watches.start(&place.dir)).await);
                self.name_changed = true;
            }
            Some(watch) => self.name_changed |= watch.wait().await,
        }
        Ok(Vec::new())
    }

    /// The file that was written after this one, if there is one.
    async fn next_file(&self) -> io::Result<Option<Next>> {
        let (place, file, rotated_as) = (Arc::clone(&self.place), Arc::clone(&self.file), self.rotated_as.clone());
        let next = move || {
            let read = Read { file: &file, rotated_as: rotated_as.as_deref() };
            next::next_file(&place.dir, &place.name, read)
        };
        LOG_READS.run(&self.key, next).await
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

#[cfg(test)]
mod tests;
