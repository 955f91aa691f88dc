//! The objects of one kind that are in use, each with who uses it and what was last seen of it.

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

/// How long a reader waits for an object whose watch has just begun. Upstream waits a second; a busy API server may take
/// longer, and nobody but this pod waits here.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watch that serves no mount goes on after the last reader.
#[doc(alias = "maxIdleTime")]
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// Most objects of a kind that are watched at a time, whatever pods ask for: each watch is a stream of a connection, at
/// this node and at the API server. Further ones are asked for again after a while, as with the strategy `Cache`.
pub(super) const MOST_WATCHED: usize = 2_000;

/// Which object.
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

/// What a pod does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A change shows in the running pod.
    Mounted,
    /// It is read when a container starts.
    Read,
    /// Either, by a pod that uses more objects than are watched for one pod: this one is asked for.
    Polled,
}

/// What is known of an object: there it is, or there is none.
pub(super) type Seen<T> = Option<Arc<T>>;

/// Where an object is seen. `current` is empty until its watch has told it once.
#[derive(Debug)]
pub(super) struct Slot<T> {
    current: watch::Sender<Option<Seen<T>>>,
    /// From before the watch began, for when the server cannot be asked.
    earlier: Option<Seen<T>>,
}

/// Whether an object is watched.
#[derive(Debug)]
enum Watching {
    /// It is to be.
    Wanted,
    /// It is.
    Running(CancellationToken),
    /// It was: nobody asked for a while.
    Idle,
    /// It needs not: it never changes.
    Immutable,
    /// It is not: too many are. It is asked for again after a while.
    Polled,
}

/// How an object that is in use is seen.
pub(super) enum Sight<T> {
    Watched(Arc<Slot<T>>),
    Polled,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    users: BTreeMap<PodUid, Use>,
    slot: Arc<Slot<T>>,
    watching: Watching,
    read_at: Instant,
    /// When it was last fetched, if it is not watched.
    pub(super) fetched: Option<(Instant, Seen<T>)>,
}

#[derive(Debug)]
pub(super) struct Shelf<T> {
    entries: Mutex<BTreeMap<Name, Entry<T>>>,
    /// It has been logged that not all are watched.
    told_full: AtomicBool,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), told_full: AtomicBool::new(false) }
    }
}

/// A watch that is to be started.
pub(super) struct Start<T> {
    pub(super) name: Name,
    pub(super) slot: Arc<Slot<T>>,
    pub(super) cancel: CancellationToken,
}

impl<T> Slot<T> {
    fn new(earlier: Option<Seen<T>>) -> Arc<Self> {
        Arc::new(Self { current: watch::Sender::new(None), earlier })
    }

    /// The object, once it is known.
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

impl<T: Kind> Shelf<T> {
    pub(super) fn entries(&self) -> MutexGuard<'_, BTreeMap<Name, Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod used `before` and uses `after` now.
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
                // A pod that is new here sees what is there now, not what another was given a minute ago (SEC-02).
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

    /// How the object is seen, if somebody said that it is used. It is watched from now on, if there is room.
    pub(super) fn wanted(&self, name: &Name, now: Instant, wake: &Notify) -> Option<Sight<T>> {
        let mut entries = self.entries();
        let idle = matches!(entries.get(name)?.watching, Watching::Idle);
        let room = if idle { room(&entries) } else { 0 };
        let entry = entries.get_mut(name)?;
        entry.read_at = now;
        if entry.wake(room) {
            wake.notify_one();
        }
        Some(match entry.watching {
            Watching::Polled => Sight::Polled,
            Watching::Wanted | Watching::Running(_) | Watching::Idle | Watching::Immutable => {
                Sight::Watched(Arc::clone(&entry.slot))
            }
        })
    }

    /// Has an object watched that was not, if there is room.
    fn promote(&self, entry: &mut Entry<T>, room: &mut usize) -> bool {
        if !matches!(entry.watching, Watching::Polled) {
            return false;
        }
        if *room == 0 {
            if !self.told_full.swap(true, Ordering::Relaxed) {
                warn!(
                    kind = T::PLURAL,
                    most = MOST_WATCHED,
                    "Pods use more objects than are watched; changes of the others are seen a minute later"
                );
            }
            return false;
        }
        *room -= 1;
        entry.watching = Watching::Wanted;
        true
    }

    /// The watches that are to be started; they count as running from now on.
    pub(super) fn take_wanted(&self) -> Vec<Start<T>> {
        let mut starts = Vec::new();
        let mut entries = self.entries();
        let mut room = room(&entries);
        for (name, entry) in &mut *entries {
            // Whatever had no room before may have it now.
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

    /// Takes what a watch has seen, and says which pods should look again: those that mount an object that is not as it
    /// was. Those that only read it read it when they start, or are waiting for it to appear.
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

    /// Ends the watches that nobody needs any more; what they saw is kept.
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

/// How many more may be watched.
fn room<T>(entries: &BTreeMap<Name, Entry<T>>) -> usize {
    let watched = |entry: &&Entry<T>| matches!(entry.watching, Watching::Wanted | Watching::Running(_));
    MOST_WATCHED.saturating_sub(entries.values().filter(watched).count())
}

impl<T> Entry<T> {
    /// It is to be watched again, if it was idle; without room it is asked for from now on.
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

/// What tells one state of an object from another.
fn version<T: Kind>(seen: &Seen<T>) -> Option<(Option<String>, Option<String>)> {
    let meta = seen.as_ref()?.metadata();
    Some((meta.uid.clone(), meta.resource_version.clone()))
}
