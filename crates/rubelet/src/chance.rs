//! Chance from the operating system's, for jitter and file names. Never for secrets.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use rubelet_engine::ports::Chance;

/// A counter hashed with a key that the standard library draws from the operating system.
#[derive(Debug, Default)]
pub(crate) struct SystemChance {
    key: RandomState,
    count: AtomicU64,
}

impl Chance for SystemChance {
    fn next(&self) -> u64 {
        self.key.hash_one(self.count.fetch_add(1, Ordering::Relaxed))
    }
}
