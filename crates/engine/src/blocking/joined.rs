//! Questions that many ask at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::Pool;

/// Asks each question once: while a call for a key is in flight, all who ask for the same key get its answer.
///
/// A call whose askers have all gone still runs, and keeps the share of its key: where a share is one place, no second
/// call for the key is begun beside it.
#[derive(Debug)]
pub struct Joined<T: Clone> {
    pool: &'static Pool,
    most: usize,
    asked: Mutex<BTreeMap<Box<str>, WeakShared<BoxFuture<'static, T>>>>,
}

/// So many keys are being asked for already that one more is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} others are pending")]
pub struct TooMany(pub usize);

impl<T: Clone + Send + Sync + 'static> Joined<T> {
    /// Questions on `pool`, of at most `most` keys at once.
    pub const fn new(pool: &'static Pool, most: usize) -> Self {
        Self { pool, most, asked: Mutex::new(BTreeMap::new()) }
    }

    /// The answer for `key`; `work` finds it unless somebody asks for the key already.
    ///
    /// # Errors
    /// If too many other keys are being asked for.
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
