//! The runtime's images.

use std::path::Path;

use async_trait::async_trait;
use rubelet_core::image_gc::ImageDisk;
use rubelet_core::keyring::Login;
use rubelet_core::launch::{ImageSpec, SandboxConfig};

use super::{FileError, RpcError};

/// Images on the node.
#[async_trait]
pub trait Images: Send + Sync {
    /// The image, if it is here.
    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>, RpcError>;
    /// Fetches it and answers with the runtime's reference. Has no deadline: drop the future to give up.
    async fn pull_image(
        &self,
        image: &ImageSpec,
        login: Option<&Login>,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RpcError>;
    /// Every image.
    async fn list_images(&self) -> Result<Vec<Image>, RpcError>;
    /// Removes it. Removing what is gone succeeds.
    async fn remove_image(&self, image: &ImageSpec) -> Result<(), RpcError>;
    /// How much room images take, per file system.
    async fn image_fs_info(&self) -> Result<Vec<FsUsage>, RpcError>;
}

/// An image on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The runtime's id.
    pub id: String,
    /// Names with tags.
    pub repo_tags: Vec<String>,
    /// Names with digests.
    pub repo_digests: Vec<String>,
    /// Size in bytes.
    pub size: u64,
    /// User id that it asks to run as.
    pub uid: Option<i64>,
    /// User name that it asks to run as; empty if `uid` is set or it asks for nothing.
    pub username: String,
    /// Must not be collected.
    pub pinned: bool,
}

/// Logins that the node itself has for registries, besides those that pods bring: files, and programs that it asks.
#[async_trait]
pub trait NodeLogins: Send + Sync {
    /// The logins for an image of `repository` (registry and path in full), in the order in which they are to be tried.
    /// What cannot be had is logged and left out: the image may be public.
    async fn find(&self, repository: &str) -> Vec<Login>;
}

/// A node without logins of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLogins;

#[async_trait]
impl NodeLogins for NoLogins {
    async fn find(&self, _repository: &str) -> Vec<Login> {
        Vec::new()
    }
}

/// Room taken on one file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsUsage {
    /// Where it is mounted.
    pub mountpoint: String,
    /// Bytes used.
    pub used_bytes: u64,
    /// Inodes used.
    pub inodes_used: u64,
}

/// The file system that holds images.
#[async_trait]
pub trait ImageDisks: Send + Sync {
    /// The room on the file system that is mounted at, or holds, this path.
    async fn room(&self, mountpoint: &Path) -> Result<ImageDisk, FileError>;
}
