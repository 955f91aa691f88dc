//! downwardAPI: fields of the pod as files in memory (22.2).

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Volume;
use rubelet_core::id::PodUid;
use rubelet_core::resources::Amounts;
use rubelet_core::volume_files::{default_mode, of_pod};
use rubelet_engine::ports::{ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

use crate::content::{Content, Medium};

const NAME: &str = "kubernetes.io/downward-api";

/// The plugin.
#[doc(alias = "downwardAPIPlugin")]
pub struct DownwardApi {
    content: Content,
    allocatable: Amounts,
}

impl DownwardApi {
    /// Volumes in `content`. `allocatable` is what the node offers to pods: it stands in for limits that a container
    /// lacks.
    pub fn new(content: Content, allocatable: Amounts) -> Self {
        Self { content, allocatable }
    }
}

#[async_trait]
impl VolumePlugin for DownwardApi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.downward_api.is_some()
    }

    fn follows_changes(&self) -> bool {
        true
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.downward_api.clone().unwrap_or_default();
        let mode = default_mode(source.default_mode);
        let files = of_pod(&request.pod, source.items.as_deref(), mode, &self.allocatable);
        let path = self.content.put(NAME, request, Medium::Memory, files.map_err(Into::into)).await?;
        Ok(path.into())
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        self.content.volumes_of(NAME, uid).await
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        self.content.remove(NAME, uid, volume).await
    }
}

#[cfg(test)]
mod tests;
