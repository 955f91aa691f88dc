//! The files of container logs, for their rotation.

use async_trait::async_trait;
use rubelet_core::id::PodRef;
use rubelet_core::log_rotation::log_name;

use super::FileError;

/// The log of one instance of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    /// Its pod.
    pub pod: PodRef,
    /// Name of the container in the spec.
    pub container: String,
    /// Restart count of the instance.
    pub restart_count: u32,
}

impl LogId {
    /// The name of the live log in the container's log directory.
    pub fn file(&self) -> String {
        log_name(self.restart_count)
    }
}

/// The size of a live log.
#[derive(Debug)]
pub enum LogSize {
    /// In bytes. A log that is no regular file counts as empty.
    Bytes(u64),
    /// There is none.
    Missing,
    /// The log could not be looked at.
    Unknown(FileError),
}

/// The files in the log directories of containers. Names are file names in the directory of the given log.
#[async_trait]
pub trait LogFiles: Send + Sync {
    /// The sizes of these live logs, in order.
    async fn sizes(&self, logs: Vec<LogId>) -> Vec<LogSize>;
    /// The regular files in the log's directory. A directory that is gone has none.
    async fn list(&self, log: &LogId) -> Result<Vec<String>, FileError>;
    /// Renames a file. A file that has the new name already is not replaced: that fails as `AlreadyExists`.
    async fn rename(&self, log: &LogId, from: &str, to: &str) -> Result<(), FileError>;
    /// Removes files. Removing what is gone succeeds.
    async fn remove(&self, log: &LogId, names: &[String]) -> Result<(), FileError>;
    /// Compresses a file, at low priority: in its place there is one with `.gz` at the end of its name. If the file is
    /// removed meanwhile, the work is given up, without an error.
    async fn compress(&self, log: &LogId, name: &str) -> Result<(), FileError>;
}
