//! Volumes of a pod.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, Volume};
use rubelet_core::id::PodUid;

/// One kind of volume.
#[async_trait]
pub trait VolumePlugin: Send + Sync {
    /// Upstream's name of it, such as `kubernetes.io/empty-dir`; with `/` as `~` it names the directory of its volumes.
    fn name(&self) -> &'static str;
    /// Whether it serves this volume.
    fn serves(&self, volume: &Volume) -> bool;
    /// Makes the volume usable and answers with its place on the node. Doing so again is harmless.
    async fn set_up(&self, request: &VolumeRequest) -> Result<PathBuf, VolumeError>;
    /// Undoes it, knowing nothing but the pod and the volume's name: the spec may be long gone. Doing so again, or for
    /// a volume that never was, succeeds.
    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError>;
}

/// A volume that a pod asks for.
#[derive(Clone, Debug)]
pub struct VolumeRequest {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Which of its volumes.
    pub volume: Volume,
    /// Group that must be able to write to it.
    pub fs_group: Option<i64>,
}

/// A volume that could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The spec asks for something that is not there or not allowed.
    #[error("{0}")]
    Refused(String),
    /// A file or directory could not be read or written.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
