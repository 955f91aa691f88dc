//! configMap and secret: the keys of an object as files (22.2). Those of a config map are on disk, those of a secret in
//! memory.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Secret, Volume};
use rubelet_core::id::PodUid;
use rubelet_core::volume_files::{Files, Need, default_mode, of_config_map, of_secret};
use rubelet_engine::ports::{ApiError, Objects, ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

use crate::content::{Content, Medium, not_given};

/// What kind of object a volume shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

/// The plugin for config maps, or the one for secrets.
#[doc(alias = "configMapPlugin")]
#[doc(alias = "secretPlugin")]
pub struct ObjectVolumes {
    kind: Kind,
    content: Content,
    objects: Arc<dyn Objects>,
}

/// What a volume asks for of an object.
pub(crate) struct ObjectSource<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) items: Option<&'a [KeyToPath]>,
    pub(crate) optional: Option<bool>,
}

impl ObjectVolumes {
    /// Volumes in `content` of config maps in `objects`.
    pub fn config_maps(content: Content, objects: Arc<dyn Objects>) -> Self {
        Self { kind: Kind::ConfigMap, content, objects }
    }

    /// Volumes in `content` of secrets in `objects`.
    pub fn secrets(content: Content, objects: Arc<dyn Objects>) -> Self {
        Self { kind: Kind::Secret, content, objects }
    }

    /// What the volume asks for, and the mode of files that name none; `None` if it shows no object of this kind.
    fn source<'a>(&self, volume: &'a Volume) -> Option<(ObjectSource<'a>, Option<i32>)> {
        let (name, items, optional, mode) = match self.kind {
            Kind::ConfigMap => {
                let source = volume.config_map.as_ref()?;
                (Some(&source.name), &source.items, source.optional, source.default_mode)
            }
            Kind::Secret => {
                let source = volume.secret.as_ref()?;
                (source.secret_name.as_ref(), &source.items, source.optional, source.default_mode)
            }
        };
        let name = name.map(String::as_str).unwrap_or_default();
        Some((ObjectSource { kind: self.kind, name, items: items.as_deref(), optional }, mode))
    }
}

#[async_trait]
impl VolumePlugin for ObjectVolumes {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::ConfigMap => "kubernetes.io/configmap",
            Kind::Secret => "kubernetes.io/secret",
        }
    }

    fn serves(&self, volume: &Volume) -> bool {
        self.source(volume).is_some()
    }

    fn follows_changes(&self) -> bool {
        true
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let Some((source, mode)) = self.source(&request.volume) else {
            return Err(VolumeError::Refused(format!("volume {:?} is not of {}", request.volume.name, self.name())));
        };
        let namespace = request.pod.metadata.namespace.as_deref().unwrap_or_default();
        let files = source.files(&*self.objects, namespace, default_mode(mode)).await;
        let medium = match self.kind {
            Kind::ConfigMap => Medium::Disk,
            Kind::Secret => Medium::Memory,
        };
        Ok(self.content.put(self.name(), request, medium, files).await?.into())
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        self.content.volumes_of(self.name(), uid).await
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        self.content.remove(self.name(), uid, volume).await
    }
}

impl ObjectSource<'_> {
    /// The files of the object, which is asked for now.
    pub(crate) async fn files(&self, objects: &dyn Objects, namespace: &str, mode: u32) -> Result<Files, VolumeError> {
        let need = Need::from(self.optional);
        Ok(match self.kind {
            Kind::ConfigMap => {
                let map = self.found(objects.config_map(namespace, self.name).await, need)?;
                of_config_map(map.as_deref().unwrap_or(&ConfigMap::default()), self.items, mode, need)?
            }
            Kind::Secret => {
                let secret = self.found(objects.secret(namespace, self.name).await, need)?;
                of_secret(secret.as_deref().unwrap_or(&Secret::default()), self.items, mode, need)?
            }
        })
    }

    /// The object, if it is there; `None` if it is not and the volume can do without it.
    /// upstream: watch_based_manager.go Get (v1.36)
    fn found<T>(&self, answer: Result<Arc<T>, ApiError>, need: Need) -> Result<Option<Arc<T>>, VolumeError> {
        let kind = match self.kind {
            Kind::ConfigMap => "configmap",
            Kind::Secret => "secret",
        };
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(err) if err.is_not_found() && need == Need::Optional => Ok(None),
            Err(err) if err.is_not_found() => Err(VolumeError::Refused(format!("{kind} {:?} not found", self.name))),
            Err(err) => Err(not_given(err)),
        }
    }
}

#[cfg(test)]
mod tests;
