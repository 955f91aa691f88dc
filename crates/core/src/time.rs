//! Monotonic time as a plain number.
//!
//! `Instant` counts from the start of the process, so a table can say `Instant::from_secs(10)`. Only `engine::clock`
//! makes one from a real clock. Wall time, which may jump, is `jiff::Timestamp`.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment on the process's own clock, which never runs backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// When the process started.
    pub const START: Self = Self(Duration::ZERO);

    /// `secs` after the start.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// `millis` after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// `since_start` after the start.
    pub const fn from_duration(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long after the start this is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.0)
    }
}

/// Both clocks, read together: a decision that needs the wall clock as well as the monotonic one gets them in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Monotonic: for delays and deadlines.
    pub mono: Instant,
    /// Wall clock: for what people and the API read. May jump.
    pub wall: jiff::Timestamp,
}
