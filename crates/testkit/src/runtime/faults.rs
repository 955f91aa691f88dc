//! Faults between the kubelet and its runtime, drawn from a seed.

use std::time::Duration;

use crate::rng::{Odds, SeededRng};

/// How often each fault happens. Each call draws at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Fails with `Unavailable` and has no effect.
    pub refused: Odds,
    /// Takes effect, then fails with `Timeout`.
    pub lost_reply_after_effect: Odds,
    /// Fails with `Timeout` and takes effect some time later; until then its name is reserved.
    pub late_effect: Odds,
    /// Takes `slow_by` longer.
    pub slow: Odds,
    /// How much longer a slow call takes.
    pub slow_by: Duration,
    /// Takes effect, but its answer is malformed.
    pub garbage: Odds,
    /// A hint is not sent.
    pub hint_lost: Odds,
}

impl Faults {
    /// No faults.
    pub const NONE: Self = Self {
        refused: Odds::NEVER,
        lost_reply_after_effect: Odds::NEVER,
        late_effect: Odds::NEVER,
        slow: Odds::NEVER,
        slow_by: Duration::ZERO,
        garbage: Odds::NEVER,
        hint_lost: Odds::NEVER,
    };

    /// Many faults: about every fifth call.
    pub const MANY: Self = Self {
        refused: Odds::one_in(20),
        lost_reply_after_effect: Odds::one_in(20),
        late_effect: Odds::one_in(40),
        slow: Odds::one_in(10),
        slow_by: Duration::from_secs(3),
        garbage: Odds::one_in(60),
        hint_lost: Odds::one_in(5),
    };

    pub(super) fn draw(&self, rng: &SeededRng) -> Fault {
        if rng.hits(self.refused) {
            Fault::Refused
        } else if rng.hits(self.lost_reply_after_effect) {
            Fault::LostReply
        } else if rng.hits(self.late_effect) {
            Fault::Late
        } else if rng.hits(self.garbage) {
            Fault::Garbage
        } else if rng.hits(self.slow) {
            Fault::Slow(self.slow_by)
        } else {
            Fault::None
        }
    }
}

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Refused,
    LostReply,
    Late,
    Garbage,
    Slow(Duration),
}
