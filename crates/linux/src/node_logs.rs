//! Logs of the node itself: the files below `/var/log`, and the journal (HTTP-05).
//!
//! A caller chooses the path, and containers that mount `/var/log` choose what lies there. So a path is resolved step by
//! step by descriptor (`resolve`), links are followed only below the directory, and nothing but regular files and
//! directories is opened. The journal is read by `journalctl` (`journal`), whose arguments never pass through a shell.

mod journal;
mod resolve;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use rubelet_engine::blocking::LOG_READS;
use rubelet_engine::ports::{
    FileError, JournalError, JournalQuery, JournalText, NodeLog, NodeLogEntry, NodeLogFile, NodeLogs,
};
use rustix::fs::{Dir, FileType};

use self::journal::Journal;
use self::resolve::{Found, find};
use crate::beneath::failed;

/// Most entries of one directory that are listed: a container that mounts `/var/log` decides how many there are.
const MOST_ENTRIES: usize = 20_000;
/// These reads share the threads of log reads as the reads of one pod do.
const KEY: &str = "node-logs";

/// The logs below one directory, and the journal of this machine.
#[derive(Clone, Debug)]
pub struct NodeLogDir {
    root: Arc<Path>,
    journal: Journal,
}

impl NodeLogDir {
    /// The logs below `root`, and the journal.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_journalctl(root, "journalctl")
    }

    /// With a program of this name or path in place of `journalctl`.
    pub fn with_journalctl(root: impl Into<PathBuf>, journalctl: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into(), journal: Journal::new(journalctl.into()) }
    }
}

#[async_trait]
impl NodeLogs for NodeLogDir {
    async fn open(&self, path: &str) -> Result<NodeLog, FileError> {
        let (root, inside) = (Arc::clone(&self.root), path.to_owned());
        let opened = LOG_READS.run(KEY, move || open(&root, &inside)).await;
        opened.map_err(failed("open", self.root.join(path.trim_start_matches('/'))))
    }

    async fn in_journal(&self, services: &[String]) -> Vec<bool> {
        self.journal.knows(services).await
    }

    async fn journal(&self, query: &JournalQuery) -> Result<Box<dyn JournalText>, JournalError> {
        self.journal.read(query).await
    }
}

fn open(root: &Path, path: &str) -> io::Result<NodeLog> {
    match find(root, path)? {
        Found::Directory(dir) => {
            let mut entries = Vec::new();
            let mut dir = Dir::new(dir)?;
            let mut more = false;
            while let Some(entry) = dir.read() {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy();
                if name == "." || name == ".." {
                    continue;
                }
                more = entries.len() == MOST_ENTRIES;
                if more {
                    break;
                }
                let is_directory = entry.file_type() == FileType::Directory;
                entries.push(NodeLogEntry { name: name.into_owned(), is_directory });
            }
            entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            Ok(NodeLog::Directory { entries, more })
        }
        Found::File(file) => {
            let metadata = file.metadata()?;
            let modified = Timestamp::from_second(metadata.mtime()).unwrap_or(Timestamp::UNIX_EPOCH);
            let size = metadata.len();
            Ok(NodeLog::File { size, modified, content: Box::new(Content(Arc::new(file))) })
        }
    }
}

struct Content(Arc<File>);

#[async_trait]
impl NodeLogFile for Content {
    async fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let file = Arc::clone(&self.0);
        let read = move || {
            let mut piece = vec![0; most];
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
        };
        LOG_READS.run(KEY, read).await
    }
}

#[cfg(test)]
mod tests;
