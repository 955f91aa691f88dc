//! secret: the keys of a secret as files, in memory (22.2).

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{KeyToPath, Secret, Volume};
use rubelet_core::id::PodUid;
use rubelet_engine::ports::{Objects, ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

use crate::content::{Content, Medium};
use crate::files::{Files, Need, default_mode, not_given, of_secret};

const NAME: &str = "kubernetes.io/secret";

/// The plugin.
#[doc(alias = "secretPlugin")]
pub struct Secrets {
    content: Content,
    objects: Arc<dyn Objects>,
}

impl Secrets {
    /// Volumes in `content` of secrets in `objects`.
    pub fn new(content: Content, objects: Arc<dyn Objects>) -> Self {
        Self { content, objects }
    }
}

#[async_trait]
impl VolumePlugin for Secrets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.secret.is_some()
    }

    fn follows_changes(&self) -> bool {
        true
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.secret.clone().unwrap_or_default();
        let namespace = request.pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = source.secret_name.as_deref().unwrap_or_default();
        let wanted = Wanted { name, items: source.items.as_deref(), need: source.optional.into() };
        let files = wanted.files(&*self.objects, namespace, default_mode(source.default_mode)).await;
        let path = self.content.put(NAME, request, Medium::Memory, files).await?;
        Ok(path.into())
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        self.content.volumes_of(NAME, uid).await
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        self.content.remove(NAME, uid, volume).await
    }
}

/// What a volume asks for of a secret.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) items: Option<&'a [KeyToPath]>,
    pub(crate) need: Need,
}

impl Wanted<'_> {
    pub(crate) async fn files(&self, objects: &dyn Objects, namespace: &str, mode: u32) -> Result<Files, VolumeError> {
        let secret = match objects.secret(namespace, self.name).await {
            Ok(secret) => secret,
            Err(err) if err.is_not_found() && self.need == Need::Optional => Arc::new(Secret::default()),
            // upstream: watch_based_manager.go Get (v1.36)
            Err(err) if err.is_not_found() => {
                return Err(VolumeError::Refused(format!("secret {:?} not found", self.name)));
            }
            Err(err) => return Err(not_given(err)),
        };
        of_secret(&secret, self.items, mode, self.need)
    }
}

#[cfg(test)]
mod tests;
