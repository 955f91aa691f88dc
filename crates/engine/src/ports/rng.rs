//! Randomness, so that a simulation can replay it.

/// A source of randomness for jitter and file names. Never for secrets.
pub trait Rng: Send + Sync {
    /// A number with all 64 bits random.
    fn next(&self) -> u64;

    /// A number from 0 up to 1.
    fn fraction(&self) -> f64 {
        // The top 53 bits fill an f64's mantissa exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let numerator = (self.next() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}
