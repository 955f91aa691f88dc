//! Pauses between attempts that fail one after another.

use std::time::Duration;

/// A pause that doubles with each failure in a row, from `first` up to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubling {
    /// After one failure.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

impl Doubling {
    /// From `first` up to `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most }
    }

    /// The pause after this many failures in a row; zero if there was none.
    pub fn after(self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(self.most),
        }
    }

    /// As [`after`](Self::after), longer by the part `jitter` of it, so that what failed together does not come again
    /// together.
    pub fn jittered(self, failures: u32, jitter: f64) -> Duration {
        self.after(failures).mul_f64(1.0 + jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest() {
        let pauses = Doubling::new(Duration::from_millis(100), Duration::from_secs(5));
        let millis = [0, 1, 2, 3, 6, 7, 33, u32::MAX].map(|failures| pauses.after(failures).as_millis());
        assert_eq!(millis, [0, 100, 200, 400, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn jitter_makes_a_pause_longer_by_a_part_of_it() {
        let pauses = Doubling::new(Duration::from_secs(1), Duration::from_secs(30));
        let millis = |failures, jitter| pauses.jittered(failures, jitter).as_millis();
        assert_eq!([millis(2, 0.0), millis(2, 0.5), millis(9, 1.0), millis(2, 7.0)], [2000, 3000, 60_000, 4000]);
    }
}
