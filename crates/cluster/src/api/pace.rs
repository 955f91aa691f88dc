//! When to try again.

use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::ports::{ApiError, ApiErrorKind};

/// After a first failure: most losses are a server that restarts or a connection that was cut, and a second later all is
/// well.
const FIRST: Duration = Duration::from_millis(100);
/// After a second failure. Doubles from here.
///
/// upstream: client-go tools/cache/reflector.go NewReflectorWithOptions (v1.36): 800 ms to 30 s, factor 2, jitter 1, reset
/// after 2 minutes.
const BASE: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(30);
/// What has worked for so long starts anew.
const HEALTHY: Duration = Duration::from_secs(120);
/// Longest pause that a server may ask for.
const MOST_ASKED: Duration = Duration::from_secs(300);

/// Counts failures in a row and says how long to wait after each.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    failures: u32,
    last: Option<Instant>,
}

impl Pace {
    /// Something failed at `now`. `chance` is from 0 up to 1.
    pub(super) fn failed(&mut self, error: &ApiError, chance: f64, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.since(last) >= HEALTHY) {
            self.failures = 0;
        }
        self.last = Some(now);
        let wait = match self.failures {
            0 => FIRST,
            again => BASE.saturating_mul(2_u32.saturating_pow(again.saturating_sub(1))).min(MOST),
        };
        self.failures = self.failures.saturating_add(1);
        let wait = wait.mul_f64(1.0 + chance);
        match error.kind {
            ApiErrorKind::Busy { retry_after: Some(asked) } => wait.max(asked.min(MOST_ASKED)),
            _ => wait,
        }
    }

    /// How many failures there were in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// All is well: the next failure is a first one.
    pub(super) fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ApiErrorKind) -> ApiError {
        ApiError { kind, detail: String::new() }
    }

    #[test]
    fn the_first_retry_is_fast_then_it_doubles_up_to_half_a_minute() {
        let mut pace = Pace::default();
        let failed = error(ApiErrorKind::Failed);
        let waits: Vec<_> = (0..9).map(|_| pace.failed(&failed, 0.0, Instant::from_secs(1)).as_millis()).collect();
        assert_eq!(waits, [100, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        // Jitter up to as much again.
        assert_eq!(pace.failed(&failed, 0.5, Instant::from_secs(2)), Duration::from_secs(45));
        // Two healthy minutes.
        assert_eq!(pace.failed(&failed, 0.0, Instant::from_secs(122)), FIRST);
    }

    #[test]
    fn a_server_that_asks_for_a_pause_gets_it() {
        let busy = |seconds| error(ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(seconds)) });
        let mut pace = Pace::default();
        assert_eq!(pace.failed(&busy(5), 0.0, Instant::START), Duration::from_secs(5));
        // But not for ever, and not a shorter one than ours.
        assert_eq!(pace.failed(&busy(1_000_000), 0.0, Instant::START), MOST_ASKED);
        assert_eq!(pace.failed(&busy(1), 0.0, Instant::START), BASE * 2);
    }
}
