//! hostPath: a file or directory of the host (22.2). The plugin creates only what the type says, and removes nothing.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Volume;
use rubelet_core::id::PodUid;
use rubelet_engine::blocking::POD_FILES;
use rubelet_engine::ports::{ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

const DIR_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// The plugin.
#[doc(alias = "hostPathPlugin")]
#[derive(Clone, Copy, Debug, Default)]
pub struct HostPath;

#[async_trait]
impl VolumePlugin for HostPath {
    fn name(&self) -> &'static str {
        "kubernetes.io/host-path"
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.host_path.is_some()
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.host_path.clone().unwrap_or_default();
        if source.path.split('/').any(|part| part == "..") {
            return Err(VolumeError::Refused(format!("invalid HostPath `{}`: must not contain '..'", source.path)));
        }
        let path = PathBuf::from(&source.path);
        let kind = source.type_.unwrap_or_default();
        if kind.is_empty() {
            return Ok(path.into());
        }
        let pod = request.pod.metadata.uid.as_deref().unwrap_or_default();
        // The path may be on a file system that hangs.
        let checked = POD_FILES.run(pod, move || check(&path, &kind).map(|()| path)).await;
        checked.map(ReadyVolume::from)
    }

    /// The node's own files: nothing of them is the pod's.
    async fn volumes_of(&self, _uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        Ok(Vec::new())
    }

    async fn tear_down(&self, _uid: &PodUid, _volume: &str) -> Result<(), VolumeError> {
        Ok(())
    }
}

/// Checks that the path is what the type says, after making it if the type allows. Links are followed: the path is the
/// administrator's. upstream: host_path.go checkTypeInternal (v1.36)
fn check(path: &Path, kind: &str) -> Result<(), VolumeError> {
    let now = std::fs::metadata(path).ok();
    let (word, fits): (_, fn(&Metadata) -> bool) = match kind {
        "DirectoryOrCreate" if now.is_none() => return make_dir(path),
        "FileOrCreate" if now.is_none() => return make_file(path),
        "DirectoryOrCreate" | "Directory" => ("directory", Metadata::is_dir),
        "FileOrCreate" | "File" => ("file", Metadata::is_file),
        "Socket" => ("socket file", |found| found.file_type().is_socket()),
        "CharDevice" => ("character device", |found| found.file_type().is_char_device()),
        "BlockDevice" => ("block device", |found| found.file_type().is_block_device()),
        other => return Err(VolumeError::Refused(format!("{other} is an invalid volume type"))),
    };
    if now.is_some_and(|found| fits(&found)) {
        return Ok(());
    }
    Err(VolumeError::Refused(format!("hostPath type check failed: {} is not a {word}", path.display())))
}

fn make_dir(path: &Path) -> Result<(), VolumeError> {
    let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
    made.map_err(|source| VolumeError::Io { action: "make directory", path: path.to_owned(), source })
}

/// The parent directory must exist. A file that another process made meanwhile will do.
fn make_file(path: &Path) -> Result<(), VolumeError> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(VolumeError::Io { action: "make file", path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests;
