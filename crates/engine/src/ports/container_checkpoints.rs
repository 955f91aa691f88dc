//! Checkpoints of containers: the whole state of a running container, written to a file by the runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::ContainerId;

use super::{FileError, RpcError, RpcErrorKind};

/// A runtime that can write checkpoints of containers.
#[async_trait]
pub trait ContainerCheckpoints: Send + Sync {
    /// Writes the state of a running container to `location`. A `timeout` shorter than that of every call counts as that
    /// of every call.
    #[doc(alias = "CheckpointContainer")]
    async fn checkpoint(&self, _id: &ContainerId, _location: &Path, _timeout: Duration) -> Result<(), RpcError> {
        let detail = "method CheckpointContainer not implemented".to_owned();
        Err(RpcError { operation: "checkpoint_container", kind: RpcErrorKind::Unimplemented, detail })
    }
}

/// The directory that holds the checkpoints.
#[async_trait]
pub trait CheckpointFiles: Send + Sync {
    /// The path for a checkpoint of this file name, and how many checkpoints are in the directory.
    async fn place(&self, name: &str) -> Result<(PathBuf, usize), FileError>;
}
