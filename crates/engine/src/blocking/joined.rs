//! Calls that concurrent callers share.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::Pool;

/// One call for each key at a time: callers that ask for the same key while it is in flight get its answer.
///
/// A call whose callers were all dropped still runs and keeps the share of its key. If a share is one place, no second
/// call for that key starts beside it.
#[derive(Debug)]
pub struct Joined<T: Clone> {
    pool: &'static Pool,
    most: usize,
    asked: Mutex<BTreeMap<Box<str>, WeakShared<BoxFuture<'static, T>>>>,
}

/// Too many keys are in flight already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} others are pending")]
pub struct TooMany(pub usize);

impl<T: Clone + Send + Sync + 'static> Joined<T> {
    /// Shared calls on `pool`, for at most `most` keys at once.
    pub const fn new(pool: &'static Pool, most: usize) -> Self {
        Self { pool, most, asked: Mutex::new(BTreeMap::new()) }
    }

    /// The answer for `key`: from the call in flight, or from `work`.
    ///
    /// # Errors
    /// If too many other keys are in flight.
    pub async fn ask(&self, key: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TooMany> {
        let answer = self.join(key, work)?;
        Ok(answer.await)
    }

    fn join(
        &self,
        key: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Shared<BoxFuture<'static, T>>, TooMany> {
        // Every change of the map is complete in itself, so a panic elsewhere leaves nothing half done.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = asked.get(key).and_then(WeakShared::upgrade) {
            return Ok(answer);
        }
        asked.retain(|_, answer| answer.upgrade().is_some());
        if asked.len() >= self.most {
            return Err(TooMany(asked.len()));
        }
        let (pool, name) = (self.pool, key.to_owned());
        let answer = async move { pool.run(&name, work).await }.boxed().shared();
        if let Some(weak) = answer.downgrade() {
            asked.insert(key.into(), weak);
        }
        Ok(answer)
    }
}
