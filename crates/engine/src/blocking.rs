//! Pools of threads for blocking calls, one for each kind of call that can hang (ADR 14).
//!
//! A system call on a file system whose server does not answer never returns, and neither does its thread. Every kind of
//! work therefore has a [`Pool`] with its own bound, and within a pool each key, mostly a pod's UID, has a share. A hung
//! mount costs the threads of its pod's share; calls of other pods and of other pools go on.
//!
//! Invariants: a running call keeps its place until it returns, even if its future was dropped; a waiter that is dropped
//! leaves the queue; waiters of one key get their places in the order in which they came; the bounds of all
//! pools together are fewer threads than the runtime has ([`threads`]).

mod joined;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::{JoinError, JoinHandle};
use tracing::warn;

pub use self::joined::{Joined, TooMany};

/// Directories, files and mounts of pods, and host paths. By UID.
pub static POD_FILES: Pool = Pool::new("pod-files", 128, 4);
/// Cgroups. By path.
pub static CGROUPS: Pool = Pool::new("cgroups", 32, 2);
/// Log directories and links, and the ends of logs that a status quotes. By UID.
pub static LOGS: Pool = Pool::new("logs", 32, 4);
/// Logs that clients read. By the log's directory.
pub static LOG_READS: Pool = Pool::new("log-reads", 32, 4);
/// Lists of what is on the node. By what is listed: a list that hangs is not begun again beside itself.
pub static SURVEYS: Pool = Pool::new("surveys", 8, 1);
/// Files and facts of the host. By what is read.
pub static HOST: Pool = Pool::new("host", 8, 2);
/// Names that probes and hooks look up. By name.
pub static NAMES: Pool = Pool::new("names", 16, 1);
/// Files that the agent keeps for its own restart. By file.
pub static RECORDS: Pool = Pool::new("records", 8, 2);
/// Manifests of static pods. By path.
pub static MANIFESTS: Pool = Pool::new("manifests", 4, 2);
/// Certificates, keys, tokens and logins. By what is read.
pub static CREDENTIALS: Pool = Pool::new("credentials", 16, 4);
/// Chains of client certificates, whose verification computes for long. All under one key: the server bounds the
/// connections of an address before.
pub static VERIFICATIONS: Pool = Pool::new("verifications", 2, 2);
/// Connections of probes: closing one may wait for its peer. All under one key.
pub static CLOSES: Pool = Pool::new("closes", 32, 32);

/// Usage of cgroups and networks. By what is read: a look that hangs is not begun again beside itself.
pub static USAGE: Pool = Pool::new("usage", 8, 1);
/// Sizes of file systems, and of directories. By path: one that hangs costs a thread of its own.
pub static DISKS: Pool = Pool::new("disks", 16, 1);

/// Every pool.
static ALL: [&Pool; 14] = [
    &POD_FILES,
    &CGROUPS,
    &LOGS,
    &LOG_READS,
    &SURVEYS,
    &HOST,
    &NAMES,
    &RECORDS,
    &MANIFESTS,
    &CREDENTIALS,
    &VERIFICATIONS,
    &CLOSES,
    &USAGE,
    &DISKS,
];

/// Threads for blocking calls made by libraries: tokio resolves host names on one when it connects.
const FOR_LIBRARIES: usize = 64;

/// How long a call waits for its place before that is logged.
const LATE: Duration = Duration::from_secs(10);

/// How many threads for blocking calls the runtime needs, so that no pool ever waits for another.
pub fn threads() -> usize {
    ALL.iter().map(|pool| pool.total).sum::<usize>() + FOR_LIBRARIES
}

/// A bound on concurrent calls of one kind, and a smaller one for each key.
#[derive(Debug)]
pub struct Pool {
    name: &'static str,
    total: usize,
    each: usize,
    places: Semaphore,
    /// Keys of which a call runs or waits.
    shares: Mutex<BTreeMap<Box<str>, Share>>,
}

/// The share of one key.
#[derive(Debug)]
struct Share {
    places: Arc<Semaphore>,
    /// Calls that run or wait.
    users: usize,
    /// A warning that calls of this key wait was logged.
    late: bool,
}

impl Pool {
    /// A pool in which `total` calls run at once, `each` of them of one key.
    pub const fn new(name: &'static str, total: usize, each: usize) -> Self {
        let shares = Mutex::new(BTreeMap::new());
        Self { name, total, each, places: Semaphore::const_new(total), shares }
    }

    /// Runs `work` once there is a place for it. A panic of `work` is resumed in the caller.
    pub async fn run<T: Send + 'static>(&'static self, key: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.spawn(key, work).await {
            Ok(value) => value,
            Err(err) => match err.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down: the work never ran, and its result is not needed.
                Err(_cancelled) => std::future::pending().await,
            },
        }
    }

    /// As [`Pool::run`], for callers that treat a panic as a failure.
    ///
    /// # Errors
    /// If `work` panicked, or the runtime is shutting down.
    pub async fn spawn<T: Send + 'static>(
        &'static self,
        key: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.place(key).await.begin(work).await
    }

    /// A place that is free right now: for destructors, which cannot wait. `None` outside of a runtime, too.
    pub fn free_place(&'static self, key: &str) -> Option<Place> {
        tokio::runtime::Handle::try_current().ok()?;
        self.place_now(self.claim(key)).ok()
    }

    async fn place(&'static self, key: &str) -> Place {
        let claim = match self.place_now(self.claim(key)) {
            Ok(place) => return place,
            Err(claim) => claim,
        };
        let places = Arc::clone(&claim.places);
        let wait = async move {
            // The share first: a call that waits for its share must not keep a place from other keys.
            let share = places.acquire_owned().await;
            (share, self.places.acquire().await)
        };
        tokio::pin!(wait);
        let (share, total) = match tokio::time::timeout(LATE, &mut wait).await {
            Ok(permits) => permits,
            Err(_) => {
                self.report_late(&claim.key);
                wait.await
            }
        };
        let (share, total) = (share.expect(NEVER_CLOSED), total.expect(NEVER_CLOSED));
        Place { _total: total, _share: share, _claim: claim }
    }

    fn place_now(&'static self, claim: Claim) -> Result<Place, Claim> {
        let Ok(share) = Arc::clone(&claim.places).try_acquire_owned() else { return Err(claim) };
        match self.places.try_acquire() {
            Ok(total) => Ok(Place { _total: total, _share: share, _claim: claim }),
            Err(_) => Err(claim),
        }
    }

    fn claim(&'static self, key: &str) -> Claim {
        let mut shares = self.shares();
        let fresh = || Share { places: Arc::new(Semaphore::new(self.each)), users: 0, late: false };
        let share = shares.entry(key.into()).or_insert_with(fresh);
        share.users += 1;
        Claim { pool: self, key: key.into(), places: Arc::clone(&share.places) }
    }

    /// Logs once for each key, until all of its calls have returned.
    fn report_late(&self, key: &str) {
        let logged = self.shares().get_mut(key).is_none_or(|share| std::mem::replace(&mut share.late, true));
        if !logged {
            let running = self.total.saturating_sub(self.places.available_permits());
            let (pool, most, each) = (self.name, self.total, self.each);
            warn!(
                pool,
                key,
                running,
                most,
                each,
                "Calls wait because earlier ones have not returned: a file system, disk or name server may not answer"
            );
        }
    }

    fn shares(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Share>> {
        // Every change of the map is complete in itself, so a panic elsewhere leaves nothing half done.
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NEVER_CLOSED: &str = "the semaphores of a pool are never closed";

/// A key's entry in the map, for as long as a call of it runs or waits.
#[derive(Debug)]
struct Claim {
    pool: &'static Pool,
    key: Box<str>,
    places: Arc<Semaphore>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut shares = self.pool.shares();
        if let Some(share) = shares.get_mut(&self.key) {
            share.users -= 1;
            if share.users == 0 {
                shares.remove(&self.key);
            }
        }
    }
}

/// The right to run one call.
#[derive(Debug)]
pub struct Place {
    _total: SemaphorePermit<'static>,
    _share: OwnedSemaphorePermit,
    _claim: Claim,
}

impl Place {
    /// Begins `work` at once. The place is kept until it returns or panics, whatever becomes of the caller.
    #[expect(clippy::disallowed_methods, reason = "the one place from which blocking calls are begun: within a bound")]
    pub fn begin<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        tokio::task::spawn_blocking(move || {
            let _place = self;
            work()
        })
    }
}

#[cfg(test)]
mod tests;
