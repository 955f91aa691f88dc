//! The clock of the fakes: tokio's, so that a paused clock controls all of them.

use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::time::{Instant, Now};

/// The wall clock of a test at its start: 2026-01-01T00:00:00Z.
const WALL_AT_START: i64 = 1_767_225_600;

/// Both clocks of a test, counted from its own start. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct TestClock {
    start: tokio::time::Instant,
}

impl TestClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: real_now() }
    }

    /// The current time.
    pub fn now(&self) -> Now {
        let mono = real_now().saturating_duration_since(self.start);
        Now { mono: Instant::from_duration(mono), wall: self.wall_at(mono) }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now().mono.since_start()
    }

    /// Waits until this time since the start.
    pub async fn sleep_until(&self, since_start: Duration) {
        tokio::time::sleep_until(self.start + since_start).await;
    }

    pub(crate) fn wall_at(&self, since_start: Duration) -> Timestamp {
        Timestamp::from_second(WALL_AT_START).unwrap_or(Timestamp::UNIX_EPOCH) + since_start
    }
}

#[expect(clippy::disallowed_methods, reason = "the fakes' world is outside the engine and has a clock of its own")]
fn real_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
