//! Volumes of a pod.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use rubelet_core::id::PodUid;
use rubelet_core::volume_files::FilesError;

use super::FileError;

/// One kind of volume.
#[async_trait]
pub trait VolumePlugin: Send + Sync {
    /// Upstream's name of it, such as `kubernetes.io/empty-dir`; with `/` as `~` it names the directory of its volumes.
    fn name(&self) -> &'static str;
    /// Whether it serves this volume.
    fn serves(&self, volume: &Volume) -> bool;
    /// Its content follows something that changes while the pod runs, so that setting up again brings it up to date.
    #[doc(alias = "RequiresRemount")]
    fn follows_changes(&self) -> bool {
        false
    }
    /// Makes the volume usable and answers with its place on the node. Doing so again is harmless.
    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError>;
    /// Names of the pod's volumes that it has something of on disk.
    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError>;
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

/// A volume that is ready for use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyVolume {
    /// Where it is on the node.
    pub path: PathBuf,
    /// When it has to be set up again at the latest: a token in it grows old.
    pub renew_at: Option<Timestamp>,
}

/// A volume whose content does not age.
impl From<PathBuf> for ReadyVolume {
    fn from(path: PathBuf) -> Self {
        Self { path, renew_at: None }
    }
}

/// A volume that could not be made or undone.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The spec asks for something that is not there or not allowed.
    #[error("{0}")]
    Refused(String),
    /// The API server could not be asked for what belongs into it.
    #[error("{0}")]
    Away(String),
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

/// The spec asks for files that the volume cannot hold.
impl From<FilesError> for VolumeError {
    fn from(err: FilesError) -> Self {
        Self::Refused(err.to_string())
    }
}

/// The step on disk failed, and its error says all there is to say.
impl From<FileError> for VolumeError {
    fn from(err: FileError) -> Self {
        Self::Io { action: err.action, path: err.path, source: err.source }
    }
}

/// Directories of volumes below the root directory: the one place where a plugin's decisions touch the disk.
///
/// Containers write into these directories and names come from manifests, so nothing here follows a link or crosses
/// into another file system (CVE-2017-1002102).
#[async_trait]
pub trait VolumeDirs: Send + Sync {
    /// What is there now.
    async fn look(&self, place: &VolumePlace) -> Result<VolumeState, FileError>;
    /// Names of the pod's volumes of this plugin that have a directory or a marker.
    async fn list(&self, uid: &PodUid, plugin: &'static str) -> Result<Vec<String>, FileError>;
    /// Makes `pods/<uid>/volumes/<plugin>/<volume>` with exactly this mode, and answers with its path.
    async fn make(&self, place: &VolumePlace, mode: u32) -> Result<PathBuf, FileError>;
    /// Mounts an empty file system in memory on the directory.
    async fn mount(&self, place: &VolumePlace, kind: &MemoryFs) -> Result<(), FileError>;
    /// Gives all in it to the group: files g+rw, directories g+rwxs (VOL-09).
    #[doc(alias = "SetVolumeOwnership")]
    async fn give_to_group(&self, place: &VolumePlace, group: u32) -> Result<(), FileError>;
    /// Writes the marker `plugins/<plugin>/<volume>/ready`: the volume was set up in full.
    #[doc(alias = "SetReady")]
    async fn mark_ready(&self, place: &VolumePlace) -> Result<(), FileError>;
    /// Removes the marker, unmounts the file system in memory if there is one, and removes the directory with all in
    /// it. Removing what is gone succeeds; another file system in the way is an error that names it.
    async fn remove(&self, place: &VolumePlace) -> Result<(), FileError>;
}

/// Which volume of which pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// The pod.
    pub uid: PodUid,
    /// The plugin's name, such as `kubernetes.io/empty-dir`.
    pub plugin: &'static str,
    /// The volume's name in the spec.
    pub volume: String,
}

/// What is at a volume's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeState {
    /// Where it is, or would be.
    pub path: PathBuf,
    /// The directory exists.
    pub exists: bool,
    /// The marker says that it was set up in full.
    pub ready: bool,
    /// What is mounted on the directory.
    pub mounted: Option<MountedFs>,
}

/// A file system mounted on a volume's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountedFs {
    /// Memory.
    Tmpfs,
    /// Huge pages of this many bytes.
    Hugetlbfs {
        /// Bytes per page.
        page_size: u64,
    },
    /// Something that no plugin here mounts.
    Other,
}

/// A file system in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFs {
    /// Memory, up to `size` bytes if given; never swapped where the kernel can do that.
    Tmpfs {
        /// Most bytes.
        size: Option<u64>,
    },
    /// Huge pages of this many bytes.
    Hugetlbfs {
        /// Bytes per page.
        page_size: u64,
    },
}
