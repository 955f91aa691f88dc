//! Reading container logs, for people that ask for them (LOG-05).

use async_trait::async_trait;
use jiff::Timestamp;

use super::FileError;

/// Opens container logs.
#[async_trait]
pub trait LogReader: Send + Sync {
    /// Opens the log at `path`, as the runtime names it. It must lie in the directory of pod logs; no link is followed.
    #[doc(alias = "ReadLogs")]
    async fn open(&self, path: &str, wish: &LogWish) -> Result<Box<dyn LogText>, FileError>;
}

/// A log that is being read.
#[async_trait]
pub trait LogText: Send {
    /// The next piece, whole lines as far as there are any; `None` at the end. While a log is followed this waits for
    /// the container to write. It may be dropped while it waits: nothing is lost.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError>;
    /// The container has ended: what it wrote is read to its end, and no further.
    fn finish(&mut self);
}

/// Which part of a log is wanted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogWish {
    /// Wait for more at the end, through rotations, until the container ends.
    pub follow: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Leave out what is older.
    pub since: Option<Timestamp>,
    /// Only so many lines from the end; a part of a long line counts as one.
    pub tail_lines: Option<u64>,
    /// Stop after so many bytes.
    pub limit_bytes: Option<u64>,
    /// Of which streams.
    pub streams: LogStreams,
}

/// Of which streams a log is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "PodLogsQuerySplitStreams")]
pub enum LogStreams {
    /// Both.
    #[default]
    All,
    /// Standard output alone.
    Stdout,
    /// Standard error alone.
    Stderr,
}
