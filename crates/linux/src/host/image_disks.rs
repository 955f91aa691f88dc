//! The room on the file system of images.

use std::path::Path;

use async_trait::async_trait;
use rubelet_core::image_gc::ImageDisk;
use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::{FileError, ImageDisks};

use crate::beneath::failed;

/// The file systems of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelImageDisks;

#[async_trait]
impl ImageDisks for KernelImageDisks {
    async fn room(&self, mountpoint: &Path) -> Result<ImageDisk, FileError> {
        let path = mountpoint.to_owned();
        let key = path.to_string_lossy().into_owned();
        HOST.run(&key, move || {
            let stat = rustix::fs::statvfs(&path).map_err(failed("measure the file system of", &path))?;
            let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
            // What is free for root alone counts as used, as it does upstream.
            Ok(ImageDisk { capacity: bytes(stat.f_blocks), available: bytes(stat.f_bavail) })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_system_is_measured_and_one_that_is_not_there_is_an_error() {
        let disk = KernelImageDisks.room(Path::new("/")).await.unwrap();
        assert!(disk.capacity > 0 && disk.available <= disk.capacity, "{disk:?}");
        assert!(KernelImageDisks.room(Path::new("/no/such/path")).await.is_err());
    }
}
