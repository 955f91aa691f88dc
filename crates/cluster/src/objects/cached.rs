//! Objects that are fetched again after their TTL (strategy `Cache`).

use std::sync::Arc;

use rubelet_engine::ports::ApiError;

use super::store::{Name, Seen, Store, not_found};
use super::{Kind, WatchedObjects};
use crate::requests::{Follow, Requests};

impl<R: Requests + Follow> WatchedObjects<R> {
    /// The fetched object within its TTL; otherwise it is fetched again. If the server does not respond, the last known
    /// object is returned.
    ///
    /// upstream: util/manager/cache_based_manager.go objectStore.Get (v1.36)
    pub(super) async fn cached<T: Kind>(&self, store: &Store<T>, name: &Name) -> Result<Arc<T>, ApiError> {
        let before = store.entries().get(name).map(|entry| entry.fetched.clone());
        // No pod uses the object.
        let Some(before) = before else { return self.fetch(name, "").await.map(Arc::new) };
        let now = self.shared.clock.mono();
        let fresh = before.as_ref().filter(|(at, _)| now.since(*at) < self.ttl()).map(|(_, seen)| seen.clone());
        if let Some(Some(object)) = fresh {
            return Ok(object);
        }
        let known: Option<Seen<T>> = before.map(|(_, seen)| seen);
        // A refresh may be answered from the API server's watch cache.
        let query = if matches!(known, Some(Some(_))) { "?resourceVersion=0" } else { "" };
        let seen = match self.fetch::<T>(name, query).await {
            Ok(object) => match known.flatten() {
                // That cache may be behind.
                Some(known) if is_older(&object, &known) => return Ok(known),
                _ => Some(Arc::new(object)),
            },
            Err(err) if err.is_not_found() => None,
            Err(err) => return known.flatten().ok_or(err),
        };
        if let Some(entry) = store.entries().get_mut(name) {
            entry.fetched = Some((now, seen.clone()));
        }
        seen.ok_or_else(|| not_found::<T>(name))
    }
}

fn is_older<T: Kind>(new: &T, old: &T) -> bool {
    let version = |object: &T| object.metadata().resource_version.as_ref().and_then(|text| text.parse::<u64>().ok());
    version(new).unwrap_or_default() < version(old).unwrap_or_default()
}
