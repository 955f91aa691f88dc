//! Config maps and secrets that pods on this node use (SEC-01, SEC-02).
//!
//! By default each of them has a watch of its own, for the node may see no others: begun with the first pod that uses it,
//! ended with the last. What is mounted is watched all the time, so that a change reaches its pods at once; what is only
//! read when a container starts is no longer watched once nobody has asked for a while. What was seen last is kept, and
//! serves while the API server is away.
//!
//! Watches are bounded, for each pod and for all of them: what is beyond the bound is asked for again after a while.

mod cached;
mod connections;
mod shelf;
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
use shelf::{Name, Shelf, Sight, Use};
pub use watcher::ObjectWatcher;

/// How long what was fetched holds, unless the node's annotation says otherwise.
#[doc(alias = "defaultTTL")]
const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// The annotation of the node that says how long, in seconds.
#[doc(alias = "ObjectTTLAnnotationKey")]
const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// How many pods may wait to be told that an object of theirs changed; the rest is remembered here.
const CHANGES: usize = 64;

/// Most objects of a kind that are watched for one pod. Few pods use more than ten.
const MOST_OF_A_POD: usize = 200;

/// How objects are kept up to date: `configMapAndSecretChangeDetectionStrategy`.
#[doc(alias = "ResourceChangeDetectionStrategy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// By watching each.
    Watch,
    /// By asking again after a while.
    Cache,
    /// By asking every time.
    Get,
}

/// A kind of object that pods use.
pub trait Kind: Followed {
    /// Plural, as in paths.
    const PLURAL: &'static str;
    /// Singular, as in messages.
    const SINGULAR: &'static str;
    /// It will never change.
    fn is_immutable(&self) -> bool;
}

/// Objects that pods use. Clones are the same.
#[doc(alias = "secretManager")]
#[doc(alias = "configMapManager")]
pub struct WatchedObjects<R> {
    api: R,
    strategy: Strategy,
    view: Arc<dyn ClusterView>,
    shared: Arc<Shared>,
}

/// What the handle and the task share.
struct Shared {
    clock: Clock,
    config_maps: Shelf<ConfigMap>,
    secrets: Shelf<Secret>,
    /// What each pod was last said to use.
    pods: Mutex<BTreeMap<PodUid, (Arc<str>, ObjectNames)>>,
    /// Pods that are yet to be told of a change.
    changed: Mutex<BTreeSet<PodUid>>,
    /// There is something for the task to do.
    wake: Notify,
}

impl Shared {
    fn changed(&self) -> MutexGuard<'_, BTreeSet<PodUid>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, pods: impl IntoIterator<Item = PodUid>) {
        self.changed().extend(pods);
        self.wake.notify_one();
    }
}

impl<R: Requests + Follow> WatchedObjects<R> {
    /// Objects by way of `api`, the task that watches them, and the pods whose objects changed, each as often as it
    /// happens but never twice in a row while it waits to be read.
    ///
    /// A server allows so many watches on one connection: `connect` makes further ones. `view` tells how long what is
    /// cached holds.
    pub fn new(
        api: R,
        connect: Connect<R>,
        strategy: Strategy,
        view: Arc<dyn ClusterView>,
        clock: Clock,
    ) -> (Self, ObjectWatcher<R>, mpsc::Receiver<PodUid>) {
        let shared = Arc::new(Shared {
            clock,
            config_maps: Shelf::default(),
            secrets: Shelf::default(),
            pods: Mutex::default(),
            changed: Mutex::default(),
            wake: Notify::new(),
        });
        let (tell, changes) = mpsc::channel(CHANGES);
        let watcher = ObjectWatcher::new(Arc::clone(&shared), api.clone(), connect, tell);
        (Self { api, strategy, view, shared }, watcher, changes)
    }

    async fn object<T: Kind>(&self, shelf: &Shelf<T>, namespace: &str, name: &str) -> Result<Arc<T>, ApiError> {
        let name = Name::new(namespace, name);
        match self.strategy {
            Strategy::Get => self.fetch(&name, "").await.map(Arc::new),
            Strategy::Cache => self.cached(shelf, &name).await,
            Strategy::Watch => match shelf.wanted(&name, self.shared.clock.mono(), &self.shared.wake) {
                Some(Sight::Watched(slot)) => slot.read::<T>(&name).await,
                Some(Sight::Polled) => self.cached(shelf, &name).await,
                // Nobody said that it is used.
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

    /// How long what was fetched holds.
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
        // There may be room for others now.
        self.shared.wake.notify_one();
    }
}

/// What a pod does with each of the objects that it names. Those that it mounts are watched before the others.
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
    /// The list that it alone is in.
    fn collection<T: Kind>(&self) -> Collection {
        Collection {
            path: format!("/api/v1/namespaces/{}/{}", encode(&self.namespace), T::PLURAL),
            field_selector: format!("metadata.name={}", escaped(&self.name)),
            extent: Extent::One,
        }
    }
}

/// A value of a field selector: whoever writes a pod chooses the name, and must not choose another selector by it.
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

/// Of an object's metadata, who it is and which version; the rest can be as large as the object itself.
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
