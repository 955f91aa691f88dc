//! The objects of one kind that pods use, with their users and their last known content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rubelet_core::id::PodUid;
use rubelet_core::time::Instant;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Kind;

/// How long a read waits for an object whose watch has just started. Upstream waits one second; a busy API server may take
/// longer, and only this pod waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watch of an object that is not mounted runs after the last read.
#[doc(alias = "maxIdleTime")]
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// Most watched objects of a kind. Each watch is a stream on a connection, for this node and for the API server. Further
/// objects are fetched again after their TTL, as with the strategy `Cache`.
pub(super) const MOST_WATCHED: usize = 2_000;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Name {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// How a pod uses an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// As a volume: a change is applied to the running pod.
    Mounted,
    /// In an environment: it is read when a container starts.
    Read,
    /// Either, by a pod that uses more objects than are watched per pod: this one is fetched again after its TTL.
    Polled,
}

/// The last known object; `None` if it does not exist.
pub(super) type Seen<T> = Option<Arc<T>>;

/// The last known state of a watched object. `current` is empty until the watch has delivered.
#[derive(Debug)]
pub(super) struct Slot<T> {
    current: watch::Sender<Option<Seen<T>>>,
    /// The state from before the watch started, used when the server does not respond.
    earlier: Option<Seen<T>>,
}

/// The watch of an object.
#[derive(Debug)]
enum Watching {
    /// To be started.
    Wanted,
    /// Running.
    Running(CancellationToken),
    /// Stopped: nothing has read the object for a while.
    Idle,
    /// Not needed: the object is immutable.
    Immutable,
    /// None: there are too many watches. The object is fetched again after its TTL.
    Polled,
}

/// Where an object in use is read from.
pub(super) enum ReadFrom<T> {
    Watched(Arc<Slot<T>>),
    Polled,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    users: BTreeMap<PodUid, Use>,
    slot: Arc<Slot<T>>,
    watching: Watching,
    read_at: Instant,
    /// The last fetched state and its time, for an object that is not watched.
    pub(super) fetched: Option<(Instant, Seen<T>)>,
}

#[derive(Debug)]
pub(super) struct Store<T> {
    entries: Mutex<BTreeMap<Name, Entry<T>>>,
    /// The warning about too many objects was logged.
    limit_logged: AtomicBool,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), limit_logged: AtomicBool::new(false) }
    }
}

/// A watch to be started.
pub(super) struct Start<T> {
    pub(super) name: Name,
    pub(super) slot: Arc<Slot<T>>,
    pub(super) cancel: CancellationToken,
}

impl<T> Slot<T> {
    fn new(earlier: Option<Seen<T>>) -> Arc<Self> {
        Arc::new(Self { current: watch::Sender::new(None), earlier })
    }

    /// The object, once its state is known.
    pub(super) async fn read<K>(&self, name: &Name) -> Result<Arc<T>, ApiError>
    where
        K: Kind,
    {
        let mut current = self.current.subscribe();
        let seen = match tokio::time::timeout(PATIENCE, current.wait_for(Option::is_some)).await {
            Ok(Ok(seen)) => seen.clone(),
            Ok(Err(_)) | Err(_) => self.earlier.clone(),
        };
        match seen {
            Some(Some(object)) => Ok(object),
            Some(None) => Err(not_found::<K>(name)),
            None => {
                let detail = format!("failed to sync {} cache: timed out waiting for the condition", K::SINGULAR);
                Err(ApiError { kind: ApiErrorKind::Timeout, detail })
            }
        }
    }
}

pub(super) fn not_found<K: Kind>(name: &Name) -> ApiError {
    ApiError { kind: ApiErrorKind::NotFound, detail: format!("{} {:?} not found", K::PLURAL, name.name) }
}

impl<T: Kind> Store<T> {
    pub(super) fn entries(&self) -> MutexGuard<'_, BTreeMap<Name, Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the pod's use of the object changed from `before` to `after`.
    pub(super) fn change_user(
        &self,
        namespace: &str,
        uid: &PodUid,
        before: &BTreeSet<String>,
        after: &BTreeSet<String>,
        how: impl Fn(&str) -> Use,
    ) {
        let mut entries = self.entries();
        let mut room = room(&entries);
        for name in after {
            let entry = entries.entry(Name::new(namespace, name)).or_insert_with(|| Entry {
                users: BTreeMap::new(),
                slot: Slot::new(None),
                watching: Watching::Polled,
                read_at: Instant::START,
                fetched: None,
            });
            if entry.users.insert(uid.clone(), how(name)).is_none() {
                // A new pod sees the current object, not the one fetched for another pod a minute ago (SEC-02).
                entry.fetched = None;
            }
            let promoted = how(name) != Use::Polled && self.promote(entry, &mut room);
            if !promoted && how(name) == Use::Mounted && entry.wake(room) {
                room = room.saturating_sub(1);
            }
        }
        for name in before.difference(after) {
            let name = Name::new(namespace, name);
            let Some(entry) = entries.get_mut(&name) else { continue };
            entry.users.remove(uid);
            if entry.users.is_empty() {
                entry.stop(Watching::Idle);
                entries.remove(&name);
            }
        }
    }

    /// Where to read the object from, if a pod uses it. It is watched from now on, if the limit allows.
    pub(super) fn wanted(&self, name: &Name, now: Instant, wake: &Notify) -> Option<ReadFrom<T>> {
        let mut entries = self.entries();
        let idle = matches!(entries.get(name)?.watching, Watching::Idle);
        let room = if idle { room(&entries) } else { 0 };
        let entry = entries.get_mut(name)?;
        entry.read_at = now;
        if entry.wake(room) {
            wake.notify_one();
        }
        Some(match entry.watching {
            Watching::Polled => ReadFrom::Polled,
            Watching::Wanted | Watching::Running(_) | Watching::Idle | Watching::Immutable => {
                ReadFrom::Watched(Arc::clone(&entry.slot))
            }
        })
    }

    /// Requests a watch for an object without one, if the limit allows.
    fn promote(&self, entry: &mut Entry<T>, room: &mut usize) -> bool {
        if !matches!(entry.watching, Watching::Polled) {
            return false;
        }
        if *room == 0 {
            if !self.limit_logged.swap(true, Ordering::Relaxed) {
                warn!(
                    kind = T::PLURAL,
                    most = MOST_WATCHED,
                    "Pods use more objects than can be watched; changes of the others are seen up to a minute later"
                );
            }
            return false;
        }
        *room -= 1;
        entry.watching = Watching::Wanted;
        true
    }

    /// The watches to be started; they count as running from now on.
    pub(super) fn take_wanted(&self) -> Vec<Start<T>> {
        let mut starts = Vec::new();
        let mut entries = self.entries();
        let mut room = room(&entries);
        for (name, entry) in &mut *entries {
            // Objects that were over the limit before may be watched now.
            if room > 0 && entry.users.values().any(|how| *how != Use::Polled) {
                self.promote(entry, &mut room);
            }
            if matches!(entry.watching, Watching::Wanted) {
                let cancel = CancellationToken::new();
                entry.watching = Watching::Running(cancel.clone());
                starts.push(Start { name: name.clone(), slot: Arc::clone(&entry.slot), cancel });
            }
        }
        starts
    }

    /// Stores the state that a watch delivered, and returns the pods to be synced: those that mount the object, if it
    /// changed. Other users read the object at container start, or wait for it to appear.
    pub(super) fn saw(&self, name: &Name, slot: &Slot<T>, seen: Seen<T>) -> Vec<PodUid> {
        let mut entries = self.entries();
        let before = slot.current.send_replace(Some(seen.clone())).or_else(|| slot.earlier.clone());
        let Some(entry) = entries.get_mut(name).filter(|entry| std::ptr::eq(&*entry.slot, slot)) else {
            return Vec::new();
        };
        if seen.as_ref().is_some_and(|object| object.is_immutable()) {
            entry.stop(Watching::Immutable);
        }
        let Some(before) = before else { return Vec::new() };
        if version(&before) == version(&seen) {
            return Vec::new();
        }
        let appeared = before.is_none();
        entry.users.iter().filter(|(_, how)| appeared || **how == Use::Mounted).map(|(uid, _)| uid.clone()).collect()
    }

    /// Stops idle watches. The last known objects are kept.
    #[doc(alias = "startRecycleIdleWatch")]
    pub(super) fn stop_idle(&self, now: Instant) {
        for entry in self.entries().values_mut() {
            let mounted = entry.users.values().any(|how| *how == Use::Mounted);
            let running = matches!(entry.watching, Watching::Running(_));
            let known = entry.slot.current.borrow().clone();
            if running && !mounted && known.is_some() && now.since(entry.read_at) > IDLE {
                entry.stop(Watching::Idle);
                entry.slot = Slot::new(known);
            }
        }
    }
}

/// How many more objects may be watched.
fn room<T>(entries: &BTreeMap<Name, Entry<T>>) -> usize {
    let watched = |entry: &&Entry<T>| matches!(entry.watching, Watching::Wanted | Watching::Running(_));
    MOST_WATCHED.saturating_sub(entries.values().filter(watched).count())
}

impl<T> Entry<T> {
    /// Requests the watch of an idle object again; over the limit the object is fetched from now on.
    fn wake(&mut self, room: usize) -> bool {
        let idle = matches!(self.watching, Watching::Idle);
        if idle {
            self.watching = if room > 0 { Watching::Wanted } else { Watching::Polled };
        }
        idle && room > 0
    }

    fn stop(&mut self, then: Watching) {
        if let Watching::Running(cancel) = std::mem::replace(&mut self.watching, then) {
            cancel.cancel();
        }
    }
}

/// Identifies a state of an object: its UID and resource version.
fn version<T: Kind>(seen: &Seen<T>) -> Option<(Option<String>, Option<String>)> {
    let meta = seen.as_ref()?.metadata();
    Some((meta.uid.clone(), meta.resource_version.clone()))
}
