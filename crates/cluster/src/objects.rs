//! The config maps and secrets that pods on this node use (SEC-01, SEC-02).
//!
//! By default each object has a watch of its own, because the node authorizer grants access to single objects only. The watch
//! starts with the first pod that uses the object and ends with the last. Mounted objects are watched all the time, so
//! that a change reaches their pods at once; the watch of an object that is only read at container start ends when nothing
//! has read it for a while. The last known object is kept and served while the API server does not respond.
//!
//! The number of watches is bounded, per pod and in total. Objects beyond the bound are fetched again after their TTL.

mod cached;
mod connections;
mod store;
#[cfg(test)]
mod tests;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::references::{ObjectNames, mounted_by, objects_of};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ClusterView, Objects};
use tokio::sync::{Notify, mpsc};

use crate::api::{Extent, encode};
use crate::requests::{Collection, Follow, Followed, Requests};
pub use connections::Connect;
use store::{Name, ReadFrom, Store, Use};
pub use watcher::ObjectWatcher;

/// TTL of a fetched object, unless the node's annotation sets another.
#[doc(alias = "defaultTTL")]
const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// Annotation of the Node object with the TTL in seconds.
#[doc(alias = "ObjectTTLAnnotationKey")]
const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// Capacity of the channel of pods whose objects changed; further pods wait in `Shared::changed`.
const CHANGES: usize = 64;

/// Most watched objects of a kind per pod. Few pods use more than ten.
const MOST_OF_A_POD: usize = 200;

/// How objects are kept up to date: `configMapAndSecretChangeDetectionStrategy`.
#[doc(alias = "ResourceChangeDetectionStrategy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A watch per object.
    Watch,
    /// Fetched again after a TTL.
    Cache,
    /// Fetched at every use.
    Get,
}

/// A kind of object that pods use.
pub trait Kind: Followed {
    /// Plural, as in paths.
    const PLURAL: &'static str;
    /// Singular, as in messages.
    const SINGULAR: &'static str;
    /// Whether the object can never change.
    fn is_immutable(&self) -> bool;
}

/// The objects that pods use. Clones share them.
#[doc(alias = "secretManager")]
#[doc(alias = "configMapManager")]
pub struct WatchedObjects<R> {
    api: R,
    strategy: Strategy,
    view: Arc<dyn ClusterView>,
    shared: Arc<Shared>,
}

/// State shared by the handle and the task.
struct Shared {
    clock: Clock,
    config_maps: Store<ConfigMap>,
    secrets: Store<Secret>,
    /// The objects of each pod, as last registered.
    pods: Mutex<BTreeMap<PodUid, (Arc<str>, ObjectNames)>>,
    /// Pods with changed objects that have not been sent to the receiver yet.
    changed: Mutex<BTreeSet<PodUid>>,
    /// Wakes the task.
    wake: Notify,
}

impl Shared {
    fn changed(&self) -> MutexGuard<'_, BTreeSet<PodUid>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, pods: impl IntoIterator<Item = PodUid>) {
        self.changed().extend(pods);
        self.wake.notify_one();
    }
}

impl<R: Requests + Follow> WatchedObjects<R> {
    /// Returns the objects, the task that watches them through `api`, and the channel of pods whose objects changed. A pod
    /// that is still waiting in the channel is not added again.
    ///
    /// `connect` makes further connections when one has as many watches as the API server allows. `view` has the node's
    /// annotation with the TTL.
    pub fn new(
        api: R,
        connect: Connect<R>,
        strategy: Strategy,
        view: Arc<dyn ClusterView>,
        clock: Clock,
    ) -> (Self, ObjectWatcher<R>, mpsc::Receiver<PodUid>) {
        let shared = Arc::new(Shared {
            clock,
            config_maps: Store::default(),
            secrets: Store::default(),
            pods: Mutex::default(),
            changed: Mutex::default(),
            wake: Notify::new(),
        });
        let (sender, changes) = mpsc::channel(CHANGES);
        let watcher = ObjectWatcher::new(Arc::clone(&shared), api.clone(), connect, sender);
        (Self { api, strategy, view, shared }, watcher, changes)
    }

    async fn object<T: Kind>(&self, store: &Store<T>, namespace: &str, name: &str) -> Result<Arc<T>, ApiError> {
        let name = Name::new(namespace, name);
        match self.strategy {
            Strategy::Get => self.fetch(&name, "").await.map(Arc::new),
            Strategy::Cache => self.cached(store, &name).await,
            Strategy::Watch => match store.wanted(&name, self.shared.clock.mono(), &self.shared.wake) {
                Some(ReadFrom::Watched(slot)) => slot.read::<T>(&name).await,
                Some(ReadFrom::Polled) => self.cached(store, &name).await,
                // No pod uses the object.
                None => self.fetch(&name, "").await.map(Arc::new),
            },
        }
    }

    async fn fetch<T: Kind>(&self, name: &Name, query: &str) -> Result<T, ApiError> {
        let path = format!("{}/{}{query}", name.collection::<T>().path, encode(&name.name));
        let mut object: T = self.api.get(&path).await?;
        object.trim();
        Ok(object)
    }

    /// TTL of a fetched object.
    #[doc(alias = "GetObjectTTLFromNodeFunc")]
    fn ttl(&self) -> Duration {
        let node = self.view.node();
        let annotations = node.as_ref().and_then(|node| node.metadata.annotations.as_ref());
        let seconds = annotations.and_then(|all| all.get(TTL_ANNOTATION)).and_then(|text| text.parse().ok());
        seconds.map_or(DEFAULT_TTL, Duration::from_secs)
    }
}

#[async_trait]
impl<R: Requests + Follow> Objects for WatchedObjects<R> {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ApiError> {
        self.object(&self.shared.config_maps, namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ApiError> {
        self.object(&self.shared.secrets, namespace, name).await
    }

    fn keep(&self, pod: &Arc<Pod>) {
        let reference = PodRef::of(pod);
        let (names, mounted) = (objects_of(pod), mounted_by(pod));
        let mut pods = self.shared.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pods.get(&reference.uid).map(|(_, names)| names.clone()).unwrap_or_default();
        if before == names {
            return;
        }
        let shared = &self.shared;
        let (namespace, uid) = (&reference.namespace, &reference.uid);
        let uses = uses(&names.config_maps, &mounted.config_maps);
        shared.config_maps.change_user(namespace, uid, &before.config_maps, &names.config_maps, uses);
        let uses = self::uses(&names.secrets, &mounted.secrets);
        shared.secrets.change_user(namespace, uid, &before.secrets, &names.secrets, uses);
        pods.insert(reference.uid.clone(), (Arc::clone(namespace), names));
        shared.wake.notify_one();
    }

    fn release(&self, uid: &PodUid) {
        let mut pods = self.shared.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((namespace, names)) = pods.remove(uid) else { return };
        let (none, read) = (BTreeSet::new(), |_: &str| Use::Read);
        self.shared.config_maps.change_user(&namespace, uid, &names.config_maps, &none, read);
        self.shared.secrets.change_user(&namespace, uid, &names.secrets, &none, read);
        self.shared.changed().remove(uid);
        // Other objects may be watched now.
        self.shared.wake.notify_one();
    }
}

/// How a pod uses each of its objects. Mounted objects are watched first.
fn uses<'a>(all: &'a BTreeSet<String>, mounted: &'a BTreeSet<String>) -> impl Fn(&str) -> Use + 'a {
    let first = mounted.intersection(all);
    let watched: BTreeSet<&str> =
        first.chain(all.difference(mounted)).take(MOST_OF_A_POD).map(String::as_str).collect();
    move |name| match (watched.contains(name), mounted.contains(name)) {
        (false, _) => Use::Polled,
        (true, true) => Use::Mounted,
        (true, false) => Use::Read,
    }
}

impl Name {
    /// The collection that holds this object alone.
    fn collection<T: Kind>(&self) -> Collection {
        Collection {
            path: format!("/api/v1/namespaces/{}/{}", encode(&self.namespace), T::PLURAL),
            field_selector: format!("metadata.name={}", escaped(&self.name)),
            extent: Extent::One,
        }
    }
}

/// A value in a field selector. The author of a pod chooses the name, and must not be able to change the selector with it.
///
/// upstream: apimachinery fields/selector.go EscapeValue (v1.36)
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Reduces the metadata to identity and version; the rest can be as large as the object itself.
fn slim(meta: &mut ObjectMeta) {
    let whole = std::mem::take(meta);
    meta.name = whole.name;
    meta.namespace = whole.namespace;
    meta.uid = whole.uid;
    meta.resource_version = whole.resource_version;
}

impl Followed for ConfigMap {
    fn trim(&mut self) {
        slim(&mut self.metadata);
    }
}

impl Kind for ConfigMap {
    const PLURAL: &'static str = "configmaps";
    const SINGULAR: &'static str = "configmap";

    fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or_default()
    }
}

impl Followed for Secret {
    fn trim(&mut self) {
        slim(&mut self.metadata);
    }
}

impl Kind for Secret {
    const PLURAL: &'static str = "secrets";
    const SINGULAR: &'static str = "secret";

    fn is_immutable(&self) -> bool {
        self.immutable.unwrap_or_default()
    }
}
