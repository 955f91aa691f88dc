//! The backoff between attempts to watch.

use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::time::Instant;
use rubelet_engine::ports::{ApiError, ApiErrorKind};

/// Shortest pause after a first failure: most failures are a restarting server or a broken connection, and pass quickly.
const FIRST: Duration = Duration::from_millis(100);
/// Pause after a second failure, and after `Gone`: a list follows then, from all nodes at once if the server has lost its
/// history. The pause doubles from here.
///
/// upstream: client-go tools/cache/reflector.go NewReflectorWithOptions (v1.36): 800 ms to 30 s, factor 2, jitter 1, reset
/// after 2 minutes.
const AGAIN: Doubling = Doubling::new(Duration::from_millis(800), Duration::from_secs(30));
/// Failures further apart than this are not in a row.
const HEALTHY: Duration = Duration::from_secs(120);
/// Longest pause that a server may request by `Retry-After`.
const MOST_ASKED: Duration = Duration::from_secs(300);

/// Counts failures in a row and computes the pause after each. Pauses are jittered, so that clients that failed together
/// do not retry together.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Time over which first retries are spread.
    spread: Duration,
    failures: u32,
    last: Option<Instant>,
}

impl Pace {
    pub(super) fn new(spread: Duration) -> Self {
        Self { spread, failures: 0, last: None }
    }

    /// The pause after a failure at `now`. `random` is from 0 up to 1.
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

    /// A pause after a watch that ended without a failure together with many others.
    pub(super) fn spread(&self, random: f64) -> Duration {
        self.spread.mul_f64(random)
    }

    /// Number of failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the backoff.
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
    fn the_first_retry_is_fast_then_the_pause_doubles_up_to_30_seconds() {
        let mut pace = pace();
        let failed = error(ApiErrorKind::Failed);
        let waits: Vec<_> = (0..9).map(|_| pace.failed(&failed, 0.0, Instant::from_secs(1)).as_millis()).collect();
        assert_eq!(waits, [100, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        // The jitter adds up to 100 %.
        assert_eq!(pace.failed(&failed, 0.5, Instant::from_secs(2)), Duration::from_secs(45));
        // Two minutes without a failure.
        assert_eq!(pace.failed(&failed, 0.0, Instant::from_secs(122)), FIRST);
    }

    #[test]
    fn retry_after_is_honoured() {
        let busy = |seconds| error(ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(seconds)) });
        let mut pace = pace();
        assert_eq!(pace.failed(&busy(5), 0.0, Instant::START), Duration::from_secs(5));
        // But it is capped, and never shortens the backoff.
        assert_eq!(pace.failed(&busy(1_000_000), 0.0, Instant::START), MOST_ASKED);
        assert_eq!(pace.failed(&busy(1), 0.0, Instant::START), AGAIN.after(2));
    }

    #[test]
    fn clients_that_fail_together_do_not_retry_together() {
        let asked = ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(10)) };
        let rows = [
            // The failure, and the shortest and longest pause after it.
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
