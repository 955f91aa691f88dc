//! The API server, as the engine needs it: pods, this node, its lease, and what pods refer to.
//!
//! Every method may be asked at any time and is answered or refused within its deadline; who asks decides when to ask
//! again. Nothing here retries.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use rubelet_core::id::{PodRef, PodUid};
use tokio::sync::watch;

/// A request to the API server that did not succeed.
///
/// The detail is for people only; decisions are made on `kind`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{detail}")]
pub struct ApiError {
    /// What kind of failure it is.
    pub kind: ApiErrorKind,
    /// What the API server said, or why it could not be asked.
    pub detail: String,
}

/// What kind of failure a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// It cannot be reached, or went away in the middle; the effect is then unknown.
    Unavailable,
    /// The deadline passed; the request may still take effect.
    Timeout,
    /// It does not know who we are: 401.
    Unauthorized,
    /// We may not do that: 403.
    Forbidden,
    /// There is no such object: 404.
    NotFound,
    /// There is one of that name already: 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// The object changed meanwhile, or has another UID than the one asked for: 409.
    Conflict,
    /// The version asked for cannot be had, list again: it is too old (410), or newer than what the server has seen (504
    /// with cause `ResourceVersionTooLarge`).
    Gone,
    /// The object is not acceptable: 400 and 422.
    Invalid,
    /// Too many requests: 429, with the pause that it asks for.
    Busy {
        /// `Retry-After`, if it was given.
        retry_after: Option<Duration>,
    },
    /// It failed: 5xx and all the rest.
    Failed,
    /// The answer could not be understood.
    Garbage,
}

impl ApiError {
    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.kind == ApiErrorKind::NotFound
    }
}

/// Pods in the API. The UID of a [`PodRef`] is a precondition: another pod of the same name is never touched.
#[async_trait]
pub trait PodApi: Send + Sync {
    /// The pod that has this name in the API server now, whatever its UID: compare it.
    async fn get(&self, pod: &PodRef) -> Result<Pod, ApiError>;
    /// Changes the status by a strategic merge patch (JSON text) and answers with the pod as it is then.
    async fn patch_status(&self, pod: &PodRef, patch: &str) -> Result<Pod, ApiError>;
    /// Makes a pod: the mirror of a static one.
    async fn create(&self, pod: &Pod) -> Result<Pod, ApiError>;
    /// Removes the object at once, with no grace. Removing what is gone answers `NotFound`.
    async fn delete(&self, pod: &PodRef) -> Result<(), ApiError>;
}

/// This node's object in the API.
#[async_trait]
pub trait NodeApi: Send + Sync {
    /// The node as the API server has it; `fresh` asks past any cache of its own.
    async fn get(&self, name: &str, fresh: bool) -> Result<Node, ApiError>;
    /// Makes it.
    async fn create(&self, node: &Node) -> Result<Node, ApiError>;
    /// Changes labels, annotations and spec by a strategic merge patch (JSON text).
    async fn patch(&self, name: &str, patch: &str) -> Result<Node, ApiError>;
    /// Changes the status by a strategic merge patch (JSON text).
    async fn patch_status(&self, name: &str, patch: &str) -> Result<Node, ApiError>;
}

/// This node's lease, in `kube-node-lease`. On a connection of its own: a heartbeat must not wait behind anything.
#[async_trait]
pub trait LeaseApi: Send + Sync {
    /// The lease as the API server has it.
    async fn get(&self, name: &str) -> Result<Lease, ApiError>;
    /// Makes it.
    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError>;
    /// Replaces it; refused as `Conflict` if it changed meanwhile.
    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError>;
}

/// Config maps and secrets, held up to date by watching those that pods on this node use.
#[async_trait]
#[doc(alias = "secretManager")]
#[doc(alias = "configMapManager")]
pub trait Objects: Send + Sync {
    /// The config map as it is now; `NotFound` if there is none. One that no pod is known to use is asked for directly.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ApiError>;
    /// The secret as it is now.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ApiError>;
    /// Watches the objects that the pod's spec refers to, until [`release`](Self::release). A second call replaces the
    /// first.
    #[doc(alias = "RegisterPod")]
    fn keep(&self, pod: &Arc<Pod>);
    /// Stops watching for this pod.
    #[doc(alias = "UnregisterPod")]
    fn release(&self, uid: &PodUid);
}

/// What the cluster is like: all that is watched as a whole.
#[async_trait]
pub trait ClusterView: Send + Sync {
    /// Every service; `None` until they have been read once (ENV-03).
    fn services(&self) -> Option<Arc<Vec<Service>>>;
    /// Follows this node's object; `None` until it has been read, and when there is none.
    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>>;
    /// This node's object, as last read.
    fn node(&self) -> Option<Arc<Node>> {
        self.node_changes().borrow().clone()
    }
    /// The runtime handler of a RuntimeClass; `NotFound` if there is no such class.
    async fn runtime_handler(&self, class: &str) -> Result<String, ApiError>;
}

/// Tokens of service accounts, made for one pod.
#[async_trait]
#[doc(alias = "tokenManager")]
pub trait Tokens: Send + Sync {
    /// A token that is good for a while yet: a kept one, or a new one (TOK rows).
    async fn token(&self, pod: &PodRef, wish: &TokenWish) -> Result<Token, ApiError>;
    /// The pod is gone: its tokens are forgotten.
    fn forget(&self, uid: &PodUid);
}

/// A token that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenWish {
    /// Name of the service account, in the pod's namespace.
    pub service_account: String,
    /// Whom it is for; empty for the API server.
    pub audiences: Vec<String>,
    /// How long it should be good, in seconds.
    pub expiration_seconds: i64,
}

/// A token. Its `Debug` hides it: no log may hold one.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub token: String,
    /// When it must be replaced at the latest.
    pub expires: Timestamp,
    /// When it should be replaced: well before it expires.
    pub renew_at: Timestamp,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Questions of the node's own server about who asks and what they may do.
#[async_trait]
pub trait Reviews: Send + Sync {
    /// Whose token it is; `None` if it is nobody's.
    #[doc(alias = "TokenReview")]
    async fn who_is(&self, token: &str) -> Result<Option<Caller>, ApiError>;
    /// Whether they may do that.
    #[doc(alias = "SubjectAccessReview")]
    async fn may(&self, caller: &Caller, access: &NodeAccess) -> Result<bool, ApiError>;
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// Name of the user.
    pub name: String,
    /// Its UID, where there is one.
    pub uid: String,
    /// Groups that it is in.
    pub groups: Vec<String>,
    /// What else its credentials say.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// What is asked of the node's server: a verb on a subresource of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAccess {
    /// `get`, `create`, `update`, `patch` or `delete`.
    pub verb: String,
    /// Name of the node.
    pub node: String,
    /// `proxy`, `log`, `stats`, `metrics`, …
    pub subresource: String,
}

/// The API server, for a node that has one.
#[derive(Clone)]
pub struct ClusterPorts {
    /// Pods.
    pub pods: Arc<dyn PodApi>,
    /// Config maps and secrets.
    pub objects: Arc<dyn Objects>,
    /// Services, classes, this node.
    pub view: Arc<dyn ClusterView>,
    /// Tokens.
    pub tokens: Arc<dyn Tokens>,
}
