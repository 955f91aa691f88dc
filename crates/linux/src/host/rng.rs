//! Randomness, from the kernel.

use std::sync::atomic::{AtomicU64, Ordering};

use rubelet_engine::ports::Rng;
use rustix::rand::{GetRandomFlags, getrandom};

/// The kernel's randomness.
#[derive(Debug, Default)]
pub struct KernelRng {
    /// Counts on, should the kernel ever refuse: jitter may be poor, two names must not be equal.
    fallback: AtomicU64,
}

impl Rng for KernelRng {
    fn next(&self) -> u64 {
        let mut bytes = [0_u8; 8];
        match getrandom(&mut bytes, GetRandomFlags::NONBLOCK) {
            Ok(8) => u64::from_ne_bytes(bytes),
            // An odd multiplier keeps the count's values apart and spreads them over all bits.
            Ok(_) | Err(_) => {
                let count =
                    self.fallback.fetch_add(1, Ordering::Relaxed).wrapping_add(u64::from(std::process::id()) << 32);
                count.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        let rng = KernelRng::default();
        let numbers: std::collections::BTreeSet<u64> = (0..100).map(|_| rng.next()).collect();
        assert_eq!(numbers.len(), 100);
        assert!((0..100).all(|_| (0.0..1.0).contains(&rng.fraction())));
    }
}
