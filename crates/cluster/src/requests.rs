//! What the adapters here ask of the API server. The client answers it; in tests a fake does.

use std::future::Future;

use rubelet_engine::ports::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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

/// What is to be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Path of the list, such as `/api/v1/services`.
    pub path: String,
    /// Field selector; empty for everything.
    pub field_selector: String,
}

/// Lists that are kept up to date.
pub trait Follow: Clone + Send + Sync + 'static {
    /// Tells `told` what is there: all of it once it has been read, and again after every change, until cancelled.
    /// Outages are waited out; what was told last still holds then.
    fn follow<T>(
        &self,
        what: Collection,
        told: impl FnMut(Vec<Arc<T>>) + Send + 'static,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send
    where
        T: Followed;
}

/// A kind of object that can be followed.
pub trait Followed: DeserializeOwned + Clone + Send + Sync + 'static {
    /// Drops what nobody here reads, so that it takes no memory.
    fn trim(&mut self);
}
