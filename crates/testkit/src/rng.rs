//! Randomness from a seed: the same seed, the same run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rubelet_engine::ports::Rng;

/// The step of the generator's counter, from the published algorithm.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Splitmix64: small, good enough for tests, and its whole state is one number. Clones share it.
#[derive(Clone, Debug)]
pub struct SeededRng(Arc<AtomicU64>);

impl SeededRng {
    /// Randomness that follows from `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of the remainder is far below what any test could see.
        self.next().checked_rem(bound).unwrap_or_default()
    }

    /// Whether something with these odds happens now.
    pub fn hits(&self, odds: Odds) -> bool {
        odds.0 != 0 && self.below(u64::from(odds.0)) == 0
    }
}

impl Rng for SeededRng {
    fn next(&self) -> u64 {
        let mut x = self.0.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// How often something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odds(u32);

impl Odds {
    /// It never happens.
    pub const NEVER: Self = Self(0);
    /// It always happens.
    pub const ALWAYS: Self = Self(1);

    /// It happens once in `n` times on average.
    pub const fn one_in(n: u32) -> Self {
        Self(n)
    }
}
