//! The port `Images`.

use async_trait::async_trait;
use rubelet_core::keyring::Login;
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_engine::ports::{FsUsage, Image, ImageFileSystems, Images, RpcError};

use crate::connection::Connection;
use crate::{image_fs_info, image_list, image_pull, image_remove, image_status};

/// The images of a CRI runtime.
#[doc(alias = "remoteImageService")]
#[derive(Clone)]
pub struct CriImages {
    connection: Connection,
}

impl CriImages {
    /// The images behind `connection`: the runtime's own, or those of `imageServiceEndpoint` (CRI-01).
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

#[async_trait]
impl Images for CriImages {
    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>, RpcError> {
        image_status::image_status(&self.connection, image).await
    }

    async fn pull_image(
        &self,
        image: &ImageSpec,
        login: Option<&Login>,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RpcError> {
        image_pull::pull_image(&self.connection, image, login, sandbox).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RpcError> {
        image_list::list_images(&self.connection).await
    }

    async fn remove_image(&self, image: &ImageSpec) -> Result<(), RpcError> {
        image_remove::remove_image(&self.connection, image).await
    }

    async fn image_fs_info(&self) -> Result<Vec<FsUsage>, RpcError> {
        Ok(self.file_systems().await?.images)
    }

    async fn file_systems(&self) -> Result<ImageFileSystems, RpcError> {
        image_fs_info::image_fs_info(&self.connection).await
    }
}
