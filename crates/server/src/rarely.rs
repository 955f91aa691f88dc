//! Warnings that others can cause, at a bounded rate.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;

/// How often one kind of warning is logged at most.
const EVERY: Duration = Duration::from_secs(10);

/// Says when a warning may be logged. Clients choose how often its cause occurs, and the log is not theirs to fill.
pub(crate) struct Rarely {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Rarely {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// How many were left out since the last one that was logged, if this one may be logged.
    pub(crate) fn turn(&self) -> Option<u64> {
        let now = self.clock.mono();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.since(last) < EVERY) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ago;

    #[tokio::test(start_paused = true)]
    async fn one_warning_in_a_while_says_how_many_were_left_out() {
        let rarely = Rarely::new(Clock::virtual_from(ago(0)));
        assert_eq!(rarely.turn(), Some(0));
        for _ in 0..1000 {
            assert_eq!(rarely.turn(), None);
        }
        tokio::time::advance(EVERY).await;
        assert_eq!((rarely.turn(), rarely.turn()), (Some(1000), None));
    }
}
