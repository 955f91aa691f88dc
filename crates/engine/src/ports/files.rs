//! The pod's directories, its generated files and its logs on disk.

use std::path::PathBuf;

use async_trait::async_trait;
use rubelet_core::id::{PodRef, PodUid};

/// A file or directory of a pod could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{action} {path}")]
pub struct FileError {
    /// What was tried, such as `make directory`.
    pub action: &'static str,
    /// Where.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}

/// Directories and generated files below the root directory (section 30.1).
#[async_trait]
pub trait PodDirs: Send + Sync {
    /// `pods/<uid>` with `volumes` and `plugins`, all 0750 (SYNC-09). Answers with the pod's directory.
    async fn make(&self, uid: &PodUid) -> Result<PathBuf, FileError>;
    /// Writes `etc-hosts`, 0644 (HOST-01), and answers with its path.
    async fn write_hosts(&self, uid: &PodUid, content: &str) -> Result<PathBuf, FileError>;
    /// Makes an empty file for the termination message, 0666 (MNT-05), and answers with its path.
    async fn make_termination_file(&self, uid: &PodUid, container: &str, name: &str) -> Result<PathBuf, FileError>;
    /// The last `limit` bytes of a termination message; empty if there is none. The file is the container's: it may be
    /// anything by now, and is read without following links. `path` is the host's, as the runtime lists it.
    /// upstream: tail.go ReadAtMost (v1.36) reads from the end.
    async fn read_termination_file(&self, uid: &PodUid, path: &str, limit: usize) -> Result<Vec<u8>, FileError>;
    /// The pods that have a directory.
    async fn list(&self) -> Result<Vec<PodUid>, FileError>;
    /// Removes the directory, never crossing into another file system and never emptying a volume (HK-06). An error
    /// says what is in the way.
    async fn remove(&self, uid: &PodUid) -> Result<(), FileError>;
}

/// Parts of a volume that a container mounts alone (MNT-02).
///
/// What lies in the volume belongs to containers: between any two looks at it a directory may have become a link that
/// leads out of the volume. So the part is opened once, and what was opened is what is bound (CVE-2021-25741).
#[doc(alias = "subpath.Interface")]
#[async_trait]
pub trait Subpaths: Send + Sync {
    /// Binds the part to `<pod>/volume-subpaths/<volume>/<container>/<index>` and answers with that path. Directories
    /// that are missing are made with the mode of the volume's root. Doing so again is harmless.
    #[doc(alias = "PrepareSafeSubpath")]
    async fn bind(&self, request: &SubpathRequest) -> Result<PathBuf, FileError>;
    /// Undoes every binding of a pod. Must come before its volumes are torn down. Doing so again succeeds.
    #[doc(alias = "CleanSubPaths")]
    async fn unbind_all(&self, uid: &PodUid) -> Result<(), FileError>;
}

/// A part of a volume that a container wants mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubpathRequest {
    /// The pod.
    pub uid: PodUid,
    /// Name of the volume in the pod's spec.
    pub volume: String,
    /// Where the volume is on the node.
    pub volume_path: PathBuf,
    /// The container that mounts it.
    pub container: String,
    /// Which of the container's mounts it is.
    pub index: usize,
    /// The part: relative, without `..`, its variables expanded.
    pub subpath: String,
}

/// Files of variables in volumes of pods (ENV-05). The volume belongs to containers: a name in it may be anything.
#[async_trait]
pub trait EnvFiles: Send + Sync {
    /// The content of a regular file of at most `limit` bytes. Links are followed inside the volume, where an absolute one
    /// begins at the volume's root; nothing outside of it is reached.
    async fn read(&self, file: &EnvFileRequest, limit: usize) -> Result<Vec<u8>, FileError>;
}

/// A file of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFileRequest {
    /// The pod.
    pub uid: PodUid,
    /// Where the volume is on the node.
    pub volume_path: PathBuf,
    /// The file in it.
    pub path: PathBuf,
}

/// Container logs (LOG-01, LOG-02).
#[async_trait]
pub trait PodLogs: Send + Sync {
    /// Makes the pod's log directory, 0755.
    async fn make_dir(&self, pod: &PodRef) -> Result<(), FileError>;
    /// Makes the directory of a container's logs, 0755, and answers with the greatest `N` of its `N.log`, if any (RT-41).
    async fn make(&self, pod: &PodRef, container: &str) -> Result<Option<u32>, FileError>;
    /// Links `/var/log/containers/…` to the log, if the log exists (RT-49).
    async fn link(&self, pod: &PodRef, container: &str, id: &str, restart_count: u32) -> Result<(), FileError>;
    /// The last `lines` lines of a log in at most `bytes` bytes, without timestamps and stream names (RT-110).
    async fn tail(&self, log: &str, lines: usize, bytes: usize) -> Result<Vec<u8>, FileError>;
}

/// Removal of logs.
#[async_trait]
pub trait LogCleaner: Send + Sync {
    /// Every pod that has a log directory. What is not named like one of ours is left out.
    async fn list(&self) -> Result<Vec<PodRef>, FileError>;
    /// Removes a pod's log directory. Removing what is gone succeeds (LOG-07).
    async fn remove(&self, pod: &PodRef) -> Result<(), FileError>;
    /// Removes one instance's log, its rotated files and its link (GC-07).
    async fn remove_container(
        &self,
        pod: &PodRef,
        container: &str,
        id: &str,
        restart_count: u32,
    ) -> Result<(), FileError>;
    /// Removes links to logs that are gone (GC-04).
    async fn prune_links(&self) -> Result<(), FileError>;
}
