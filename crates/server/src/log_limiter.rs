//! A rate limit for warnings that clients can cause.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;

/// Shortest time between two warnings of a kind.
const EVERY: Duration = Duration::from_secs(10);

/// Decides whether a warning may be logged. Clients control how often its cause occurs, and must not fill the log.
pub(crate) struct LogLimiter {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogLimiter {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// If the warning may be logged, the number of warnings suppressed since the last one.
    pub(crate) fn permit(&self) -> Option<u64> {
        let now = self.clock.mono();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.since(last) < EVERY) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ago;

    #[tokio::test(start_paused = true)]
    async fn warnings_are_limited_and_suppressed_ones_are_counted() {
        let limiter = LogLimiter::new(Clock::virtual_from(ago(0)));
        assert_eq!(limiter.permit(), Some(0));
        for _ in 0..1000 {
            assert_eq!(limiter.permit(), None);
        }
        tokio::time::advance(EVERY).await;
        assert_eq!((limiter.permit(), limiter.permit()), (Some(1000), None));
    }
}
