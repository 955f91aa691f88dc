//! configMap: the keys of a config map as files, on disk (22.2).

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Volume};
use rubelet_core::id::PodUid;
use rubelet_engine::ports::{Objects, ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

use crate::content::{Content, Medium};
use crate::files::{Files, Need, default_mode, not_given, of_config_map};

const NAME: &str = "kubernetes.io/configmap";

/// The plugin.
#[doc(alias = "configMapPlugin")]
pub struct ConfigMaps {
    content: Content,
    objects: Arc<dyn Objects>,
}

impl ConfigMaps {
    /// Volumes in `content` of config maps in `objects`.
    pub fn new(content: Content, objects: Arc<dyn Objects>) -> Self {
        Self { content, objects }
    }
}

#[async_trait]
impl VolumePlugin for ConfigMaps {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.config_map.is_some()
    }

    fn follows_changes(&self) -> bool {
        true
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.config_map.clone().unwrap_or_default();
        let namespace = request.pod.metadata.namespace.as_deref().unwrap_or_default();
        let wanted = Wanted { name: &source.name, items: source.items.as_deref(), need: source.optional.into() };
        let files = wanted.files(&*self.objects, namespace, default_mode(source.default_mode)).await;
        let path = self.content.put(NAME, request, Medium::Disk, files).await?;
        Ok(path.into())
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        self.content.volumes_of(NAME, uid).await
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        self.content.remove(NAME, uid, volume).await
    }
}

/// What a volume asks for of a config map.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) items: Option<&'a [KeyToPath]>,
    pub(crate) need: Need,
}

impl Wanted<'_> {
    pub(crate) async fn files(&self, objects: &dyn Objects, namespace: &str, mode: u32) -> Result<Files, VolumeError> {
        let map = match objects.config_map(namespace, self.name).await {
            Ok(map) => map,
            Err(err) if err.is_not_found() && self.need == Need::Optional => Arc::new(ConfigMap::default()),
            // upstream: watch_based_manager.go Get (v1.36)
            Err(err) if err.is_not_found() => {
                return Err(VolumeError::Refused(format!("configmap {:?} not found", self.name)));
            }
            Err(err) => return Err(not_given(err)),
        };
        of_config_map(&map, self.items, mode, self.need)
    }
}

#[cfg(test)]
mod tests;
