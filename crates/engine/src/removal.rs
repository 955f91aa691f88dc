//! Removing a dead container together with its log (GC-07).

use std::time::Duration;

use rubelet_core::id::{ContainerId, PodRef};
use rubelet_core::observe::ContainerObservation;

use crate::node::Node;
use crate::ports::{FileError, RpcError};

/// How long the removal of one container's logs may take: they may be on a disk that does not answer.
const LOG_WITHIN: Duration = Duration::from_secs(10);

/// A container that has ended.
pub(crate) struct DeadContainer<'a> {
    /// Its pod.
    pub(crate) pod: &'a PodRef,
    /// Its name in the spec.
    pub(crate) name: &'a str,
    /// Which instance.
    pub(crate) id: &'a ContainerId,
    /// Its restart count: names its log.
    pub(crate) restart_count: u32,
}

impl<'a> DeadContainer<'a> {
    /// An instance as a look at its pod shows it.
    pub(crate) fn seen(pod: &'a PodRef, container: &'a ContainerObservation) -> Self {
        Self { pod, name: &container.name, id: &container.id, restart_count: container.marks.restart_count }
    }
}

/// A dead container, or its log, is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoveError {
    /// The runtime could not remove the container.
    #[error(transparent)]
    Runtime(#[from] RpcError),
    /// The container is gone, its log is not.
    #[error("remove the log of container {name}")]
    Log {
        /// The container's name.
        name: String,
        /// Why not.
        #[source]
        source: FileError,
    },
    /// The container is gone, and the disk with its log does not answer.
    #[error("remove the log of container {name}: the disk that it is on did not answer within {LOG_WITHIN:?}")]
    LogHangs {
        /// The container's name.
        name: String,
    },
}

/// Removes the container from the runtime, and then its log with rotated files and link.
pub(crate) async fn remove_container(node: &Node, dead: DeadContainer<'_>) -> Result<(), RemoveError> {
    let DeadContainer { pod, name, id, restart_count } = dead;
    node.ports.runtime.remove_container(id).await?;
    let removal = node.ports.log_cleaner.remove_container(pod, name, id.as_str(), restart_count);
    match tokio::time::timeout(LOG_WITHIN, removal).await {
        Ok(removed) => removed.map_err(|source| RemoveError::Log { name: name.to_owned(), source }),
        Err(_) => Err(RemoveError::LogHangs { name: name.to_owned() }),
    }
}
