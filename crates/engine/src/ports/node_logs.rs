//! Logs of the node itself: the files below its log directory, and its journal (HTTP-05).

use std::io;

use async_trait::async_trait;
use jiff::Timestamp;

use super::FileError;

/// The files below the node's log directory, and the node's journal.
#[async_trait]
pub trait NodeLogs: Send + Sync {
    /// Opens what `path` leads to below the log directory; an empty path is the directory itself. Links are followed as
    /// long as they stay below the directory; one that leads out of it is `PermissionDenied`.
    async fn open(&self, path: &str) -> Result<NodeLog, FileError>;
    /// Whether the journal knows each of these services. All `false` if there is no journal.
    async fn in_journal(&self, services: &[String]) -> Vec<bool>;
    /// The entries of the journal as text.
    async fn journal(&self, query: &JournalQuery) -> Result<Box<dyn JournalText>, JournalError>;
}

/// What a path below the log directory leads to.
pub enum NodeLog {
    /// A directory.
    Directory {
        /// Its entries, in the order of their names.
        entries: Vec<NodeLogEntry>,
        /// There are more entries than are listed.
        more: bool,
    },
    /// A regular file.
    File {
        /// Its size when it was opened.
        size: u64,
        /// When it was last written.
        modified: Timestamp,
        /// Its content.
        content: Box<dyn NodeLogFile>,
    },
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLogEntry {
    /// Its name.
    pub name: String,
    /// It is a directory, and not a link to one.
    pub is_directory: bool,
}

/// An open file.
#[async_trait]
pub trait NodeLogFile: Send + Sync {
    /// At most `most` bytes from `offset` on; none at the end.
    async fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>>;
}

/// The output of the journal. Dropping it ends the program that reads the journal.
#[async_trait]
pub trait JournalText: Send {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>>;
}

/// Which entries of the journal are wanted. Every text is validated before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalQuery {
    /// Of these services.
    pub services: Vec<String>,
    /// Not older.
    pub since: Option<Timestamp>,
    /// Not younger.
    pub until: Option<Timestamp>,
    /// Only so many lines from the end.
    pub tail_lines: Option<u32>,
    /// A boot of the machine: 0 for the current one, -1 for the one before.
    pub boot: Option<i32>,
    /// A regular expression that entries match.
    pub pattern: String,
}

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// As many queries run as may run at once.
    #[error("too many queries of the journal run: try again later")]
    TooMany,
    /// The program that reads the journal cannot be started.
    #[error("start journalctl")]
    Start(#[source] io::Error),
}
