//! The API server as the adapters of this crate use it: [`Server`], and a fake in tests.

#[cfg(test)]
pub(crate) mod fake;

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use rubelet_engine::ports::{ApiError, Rng};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use tokio_util::sync::CancellationToken;

use crate::api::{Client, Extent, PatchKind, Reflector, Set, Watched};

/// Single requests.
pub trait Requests: Clone + Send + Sync + 'static {
    /// GET.
    fn get<T: DeserializeOwned + Send>(&self, path: &str) -> impl Future<Output = Result<T, ApiError>> + Send;
    /// POST.
    fn create<T: Serialize + Sync, R: DeserializeOwned + Send>(
        &self,
        path: &str,
        body: &T,
    ) -> impl Future<Output = Result<R, ApiError>> + Send;
    /// PATCH with a strategic merge patch.
    fn patch<R: DeserializeOwned + Send>(
        &self,
        path: &str,
        patch: &str,
    ) -> impl Future<Output = Result<R, ApiError>> + Send;
}

/// A collection to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Path of the list, such as `/api/v1/services`.
    pub path: String,
    /// Field selector; empty for all objects.
    pub field_selector: String,
    /// Whether it is one object or many.
    pub extent: Extent,
}

/// Collections kept up to date by list and watch.
pub trait Follow: Clone + Send + Sync + 'static {
    /// Calls `on_change` with all objects, once they have been listed and after every change, until cancelled. During an
    /// outage the last objects stay valid.
    fn follow<T>(
        &self,
        what: Collection,
        on_change: impl FnMut(Vec<Arc<T>>) + Send + 'static,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send
    where
        T: Followed;
}

/// A kind that can be followed.
pub trait Followed: Metadata<Ty = ObjectMeta> + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Drops fields that rubelet does not read, to save memory.
    fn trim(&mut self);
}

/// The real API server.
#[derive(Clone)]
pub struct Server {
    client: Client,
    rng: Arc<dyn Rng>,
}

impl Server {
    /// Uses `client`.
    pub fn new(client: Client, rng: Arc<dyn Rng>) -> Self {
        Self { client, rng }
    }
}

impl Requests for Server {
    async fn get<T: DeserializeOwned + Send>(&self, path: &str) -> Result<T, ApiError> {
        self.client.get(path).await
    }

    async fn create<T: Serialize + Sync, R: DeserializeOwned + Send>(
        &self,
        path: &str,
        body: &T,
    ) -> Result<R, ApiError> {
        self.client.create(path, body).await
    }

    async fn patch<R: DeserializeOwned + Send>(&self, path: &str, patch: &str) -> Result<R, ApiError> {
        self.client.patch(path, PatchKind::Strategic, patch).await
    }
}

impl Follow for Server {
    async fn follow<T: Followed>(
        &self,
        what: Collection,
        mut on_change: impl FnMut(Vec<Arc<T>>) + Send + 'static,
        cancel: CancellationToken,
    ) {
        let field_selector = Some(what.field_selector).filter(|selector| !selector.is_empty());
        let watched = Watched { path: what.path, field_selector, extent: what.extent, ..Watched::default() };
        let reflector = Reflector::<Trimmed<T>>::new(self.client.clone(), watched, Arc::clone(&self.rng));
        let sink = move |set: &Set<Trimmed<T>>| on_change(set.objects().map(|item| Arc::clone(&item.0)).collect());
        reflector.run(sink, cancel).await;
    }
}

/// An object that is trimmed when it is decoded.
struct Trimmed<T>(Arc<T>);

impl<'de, T: Followed> Deserialize<'de> for Trimmed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = T::deserialize(deserializer)?;
        object.trim();
        Ok(Self(Arc::new(object)))
    }
}

impl<T: Resource> Resource for Trimmed<T> {
    const API_VERSION: &'static str = T::API_VERSION;
    const GROUP: &'static str = T::GROUP;
    const KIND: &'static str = T::KIND;
    const VERSION: &'static str = T::VERSION;
    const URL_PATH_SEGMENT: &'static str = T::URL_PATH_SEGMENT;
    type Scope = T::Scope;
}

impl<T: Followed> Metadata for Trimmed<T> {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        self.0.metadata()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.0).metadata_mut()
    }
}
