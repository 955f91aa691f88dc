//! Logins for the registries that a pod's images come from (IMG-06).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use rubelet_core::image::ImageName;
use rubelet_core::keyring::{Keyring, KeyringError, Login};
use rubelet_core::pod::PodExt;

use super::PodRuntime;
use crate::ports::EventKind;

impl PodRuntime<'_> {
    /// The pod's pull secrets. One that cannot be read is left out, with an event: the image may be public or present.
    #[doc(alias = "getPullSecretsForPod")]
    pub(super) async fn pull_secrets(&self) -> Vec<Arc<Secret>> {
        let wanted = self.pod.pod_spec().and_then(|spec| spec.image_pull_secrets.as_deref()).unwrap_or_default();
        let Some(cluster) = &self.node.ports.cluster else { return Vec::new() };
        let (mut secrets, mut missing) = (Vec::new(), Vec::new());
        for reference in wanted.iter().filter(|reference| !reference.name.is_empty()) {
            match cluster.objects.secret(&self.job.pod.namespace, &reference.name).await {
                Ok(secret) => secrets.push(secret),
                Err(err) => {
                    tracing::info!(secret = %reference.name, %err, "A pull secret cannot be had");
                    missing.push(reference.name.as_str());
                }
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            let reason = "FailedToRetrieveImagePullSecret";
            self.job.emit(self.pod, None, EventKind::Warning, reason, message).await;
        }
        secrets
    }

    /// The logins to try for an image, in this order; with none, the pull is anonymous.
    pub(super) async fn logins(&self, image: &ImageName, secrets: &[Arc<Secret>]) -> Result<Vec<Login>, KeyringError> {
        let keyring = Keyring::of_secrets(secrets.iter().map(AsRef::as_ref))?;
        let mut logins = keyring.find(image.repository());
        logins.extend(self.node.ports.logins.find(image.repository()).await);
        Ok(logins)
    }
}
