//! When to try again.

use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::time::Instant;
use rubelet_engine::ports::{ApiError, ApiErrorKind};

/// Shortest pause after a first failure: most losses are a server that restarts or a connection that was cut, and a moment
/// later all is well.
const FIRST: Duration = Duration::from_millis(100);
/// After a second failure, and after a version that is too old: then a list is due, and of every node at once when a server
/// has lost its history. Doubles from here.
///
/// upstream: client-go tools/cache/reflector.go NewReflectorWithOptions (v1.36): 800 ms to 30 s, factor 2, jitter 1, reset
/// after 2 minutes.
const AGAIN: Doubling = Doubling::new(Duration::from_millis(800), Duration::from_secs(30));
/// What has worked for so long starts anew.
const HEALTHY: Duration = Duration::from_secs(120);
/// Longest pause that a server may ask for.
const MOST_ASKED: Duration = Duration::from_secs(300);

/// Counts failures in a row and says how long to wait after each. No pause is the same twice: what failed together must
/// not come again together.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// How far first attempts after a failure lie apart.
    spread: Duration,
    failures: u32,
    last: Option<Instant>,
}

impl Pace {
    pub(super) fn new(spread: Duration) -> Self {
        Self { spread, failures: 0, last: None }
    }

    /// Something failed at `now`. `random` is from 0 up to 1.
    pub(super) fn failed(&mut self, error: &ApiError, random: f64, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.since(last) >= HEALTHY) {
            self.failures = 0;
        }
        self.last = Some(now);
        let wait = match self.failures {
            0 => FIRST.saturating_add(self.spread(random)),
            again => AGAIN.jittered(again, random),
        };
        self.failures = self.failures.saturating_add(1);
        match error.kind {
            ApiErrorKind::Busy { retry_after: Some(asked) } => {
                wait.max(asked.min(MOST_ASKED).mul_f64(1.0 + random / 2.0))
            }
            ApiErrorKind::Gone => {
                wait.max(AGAIN.first.saturating_add(self.spread(random).max(AGAIN.first.mul_f64(random))))
            }
            _ => wait,
        }
    }

    /// A pause for something that ended for many in the same moment, though nothing failed.
    pub(super) fn spread(&self, random: f64) -> Duration {
        self.spread.mul_f64(random)
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

    fn pace() -> Pace {
        Pace::new(Duration::from_secs(3))
    }

    #[test]
    fn the_first_retry_is_fast_then_it_doubles_up_to_half_a_minute() {
        let mut pace = pace();
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
        let mut pace = pace();
        assert_eq!(pace.failed(&busy(5), 0.0, Instant::START), Duration::from_secs(5));
        // But not for ever, and not a shorter one than ours.
        assert_eq!(pace.failed(&busy(1_000_000), 0.0, Instant::START), MOST_ASKED);
        assert_eq!(pace.failed(&busy(1), 0.0, Instant::START), AGAIN.after(2));
    }

    #[test]
    fn what_failed_together_does_not_come_again_together() {
        let asked = ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(10)) };
        let rows = [
            // What failed, and the shortest and the longest pause after it.
            (ApiErrorKind::Unavailable, 100, 3_100),
            (ApiErrorKind::Gone, 800, 3_800),
            (asked, 10_000, 15_000),
        ];
        for (kind, shortest, longest) in rows {
            let wait = |random| pace().failed(&error(kind), random, Instant::START).as_millis();
            assert_eq!((wait(0.0), wait(1.0)), (shortest, longest), "{kind:?}");
            assert!(wait(0.25) < wait(0.75), "{kind:?}");
        }
    }
}
