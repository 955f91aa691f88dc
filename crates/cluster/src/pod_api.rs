//! Port `PodApi`: pods in the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodRef;
use rubelet_engine::ports::{ApiError, PodApi};

use crate::api::{Client, DeleteOptions, PatchKind, encode};

/// Reads, writes and deletes pods.
#[derive(Clone)]
pub struct ApiPods {
    client: Client,
}

impl ApiPods {
    /// Uses the connection of `client` without its rate limit: the status writer adapts to the server's load itself.
    pub fn new(client: &Client) -> Self {
        Self { client: client.with_rate(None) }
    }
}

fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", encode(namespace), encode(name))
}

#[async_trait]
impl PodApi for ApiPods {
    async fn get(&self, pod: &PodRef) -> Result<Pod, ApiError> {
        self.client.get(&path(&pod.namespace, &pod.name)).await
    }

    async fn patch_status(&self, pod: &PodRef, patch: &str) -> Result<Pod, ApiError> {
        let path = format!("{}/status", path(&pod.namespace, &pod.name));
        self.client.patch(&path, PatchKind::Strategic, patch).await
    }

    async fn create(&self, pod: &Pod) -> Result<Pod, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        self.client.create(&format!("/api/v1/namespaces/{}/pods", encode(namespace)), pod).await
    }

    async fn delete(&self, pod: &PodRef) -> Result<(), ApiError> {
        self.client.delete(&path(&pod.namespace, &pod.name), &DeleteOptions::now(pod.uid.as_str())).await
    }
}
