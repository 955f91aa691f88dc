//! Volumes whose content we write: a directory, on disk or in memory, and a set of files that is replaced as a whole.
//!
//! The layout on disk is upstream's, which makes each of them from an emptyDir called `wrapped_<volume>`: the directory is
//! open to everyone, and the marker of that emptyDir says that it was made. So a kubelet can take over the node.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::volume_files::{Files, checked, mount_points};
use rubelet_engine::ports::{
    ApiError, ApiErrorKind, MemoryFs, MountedFs, Payload, PayloadWriter, VolumeDirs, VolumeError, VolumePlace,
    VolumeRequest, VolumeState, Written,
};

use crate::empty_dir::{self, EmptyDir};

/// Where the content of volumes goes.
#[derive(Clone)]
pub struct Content {
    dirs: Arc<dyn VolumeDirs>,
    writer: Arc<dyn PayloadWriter>,
    node_memory: u64,
}

/// What the files are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Disk,
    Memory,
}

impl Content {
    /// Volumes in `dirs`, written by `writer`. `node_memory` is what the node has to give to pods, in bytes: no volume in
    /// memory is larger.
    pub fn new(dirs: Arc<dyn VolumeDirs>, writer: Arc<dyn PayloadWriter>, node_memory: u64) -> Self {
        Self { dirs, writer, node_memory }
    }

    /// The plugin for empty directories in the same place.
    pub(crate) fn empty_dir(&self) -> EmptyDir {
        EmptyDir::new(Arc::clone(&self.dirs), self.node_memory)
    }

    /// Makes the volume hold exactly `files`. If the API server could not be reached for them, a volume that was written
    /// once keeps its content, so that containers restart while the API server is down.
    pub(crate) async fn put(
        &self,
        plugin: &'static str,
        request: &VolumeRequest,
        medium: Medium,
        files: Result<Files, VolumeError>,
    ) -> Result<PathBuf, VolumeError> {
        let pod = PodRef::of(&request.pod);
        let place = VolumePlace { uid: pod.uid, plugin, volume: request.volume.name.clone() };
        let files = match files {
            Err(VolumeError::Away(why)) => return self.kept(&place, medium, why).await,
            files => checked(files?)?,
        };
        let mount_points = mount_points(&request.pod, &request.volume.name)?;
        let payload = Payload { files, mount_points, group: empty_dir::group(request)? };
        let path = self.make(&place, medium, &request.pod).await?;
        if self.writer.write(&place, payload).await? == Written::New {
            tracing::debug!(volume = place.volume, "Volume has new content");
        }
        Ok(path)
    }

    async fn kept(&self, place: &VolumePlace, medium: Medium, why: String) -> Result<PathBuf, VolumeError> {
        let now = self.dirs.look(place).await?;
        if is_made(&now, medium) && self.writer.is_written(place).await? {
            tracing::debug!(volume = place.volume, why, "Volume keeps its content");
            return Ok(now.path);
        }
        Err(VolumeError::Away(why))
    }

    async fn make(&self, place: &VolumePlace, medium: Medium, pod: &Pod) -> Result<PathBuf, VolumeError> {
        let now = self.dirs.look(place).await?;
        if is_made(&now, medium) {
            return Ok(now.path);
        }
        let path = self.dirs.make(place, empty_dir::MODE).await?;
        if medium == Medium::Memory {
            let size = empty_dir::tmpfs_size(self.node_memory, None, pod);
            self.dirs.mount(place, &MemoryFs::Tmpfs { size }).await?;
        }
        self.dirs.mark_ready(&wrapped(place)).await?;
        Ok(path)
    }

    pub(crate) async fn volumes_of(&self, plugin: &'static str, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        Ok(self.dirs.list(uid, plugin).await?)
    }

    pub(crate) async fn remove(&self, plugin: &'static str, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        let place = VolumePlace { uid: uid.clone(), plugin, volume: volume.to_owned() };
        self.dirs.remove(&wrapped(&place)).await?;
        Ok(self.dirs.remove(&place).await?)
    }
}

/// The error of an object that could not be read: `Away` if the API server may serve it later.
pub(crate) fn not_given(err: ApiError) -> VolumeError {
    match err.kind {
        ApiErrorKind::Unavailable
        | ApiErrorKind::Timeout
        | ApiErrorKind::Busy { .. }
        | ApiErrorKind::Failed
        | ApiErrorKind::Garbage => VolumeError::Away(err.detail),
        ApiErrorKind::Unauthorized
        | ApiErrorKind::Forbidden
        | ApiErrorKind::NotFound
        | ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Gone
        | ApiErrorKind::Invalid => VolumeError::Refused(err.detail),
    }
}

fn is_made(now: &VolumeState, medium: Medium) -> bool {
    match medium {
        Medium::Disk => now.exists,
        Medium::Memory => now.mounted == Some(MountedFs::Tmpfs),
    }
}

/// The emptyDir that upstream takes the volume for.
fn wrapped(place: &VolumePlace) -> VolumePlace {
    VolumePlace { uid: place.uid.clone(), plugin: empty_dir::NAME, volume: format!("wrapped_{}", place.volume) }
}

#[cfg(test)]
mod tests;
