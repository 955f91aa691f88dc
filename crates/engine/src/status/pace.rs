//! How many status writes are in flight: as many as the API server keeps up with.

use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::time::Instant;

use crate::ports::{ApiError, ApiErrorKind};

/// Requests in flight at once. Each is a few kilobytes on one connection; more would only queue at the server.
pub(super) const MOST: usize = 16;
/// The pause after an answer without `Retry-After` from an overloaded server.
const BUSY: Duration = Duration::from_secs(1);
/// The longest `Retry-After` that is honoured: one header must not stop the node's status writes.
const BUSY_AT_MOST: Duration = Duration::from_secs(60);
/// Pauses while the server cannot be reached.
const AWAY: Doubling = Doubling::new(Duration::from_millis(200), Duration::from_secs(5));
/// Pauses of one pod whose requests fail. The longest is as often as upstream tries everything again (STAT-01).
const POD: Doubling = Doubling::new(Duration::from_millis(250), Duration::from_secs(10));

/// How many requests may be in flight, and whether all are paused.
#[derive(Debug)]
pub(super) struct Pace {
    limit: usize,
    paused_until: Option<Instant>,
    /// How often in a row the server could not be reached.
    away: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { limit: MOST, paused_until: None, away: 0 }
    }
}

impl Pace {
    /// How many requests may be in flight now.
    pub(super) fn limit(&self, now: Instant) -> usize {
        if self.paused_until.is_some_and(|until| now < until) { 0 } else { self.limit }
    }

    /// When the current pause ends.
    pub(super) fn resumes(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    /// The server answered: one more request may be in flight.
    pub(super) fn answered(&mut self) {
        self.away = 0;
        self.limit = self.limit.saturating_add(1).min(MOST);
    }

    /// A request failed. Returns whether the failure concerns all pods; then the pod itself is not paused.
    pub(super) fn failed(&mut self, err: &ApiError, now: Instant) -> bool {
        match err.kind {
            ApiErrorKind::Busy { retry_after } => {
                self.away = 0;
                self.limit = (self.limit / 2).max(1);
                self.pause(now + retry_after.unwrap_or(BUSY).min(BUSY_AT_MOST));
                true
            }
            ApiErrorKind::Unavailable | ApiErrorKind::Unauthorized => {
                // Requests that fail together count once.
                if self.limit(now) > 0 {
                    self.away = self.away.saturating_add(1);
                    self.pause(now + AWAY.after(self.away));
                }
                self.limit = 1;
                true
            }
            // The server answered with an error, or this request alone is slow.
            ApiErrorKind::Timeout | ApiErrorKind::Failed => {
                self.limit = (self.limit / 2).max(1);
                false
            }
            ApiErrorKind::Forbidden
            | ApiErrorKind::NotFound
            | ApiErrorKind::AlreadyExists
            | ApiErrorKind::Conflict
            | ApiErrorKind::Gone
            | ApiErrorKind::Invalid
            | ApiErrorKind::Garbage => {
                self.answered();
                false
            }
        }
    }

    fn pause(&mut self, until: Instant) {
        self.paused_until = Some(self.paused_until.map_or(until, |old| old.max(until)));
    }
}

/// The pause of a pod after this many failed requests in a row.
pub(super) fn pod_pause(failures: u32) -> Duration {
    POD.after(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn err(kind: ApiErrorKind) -> ApiError {
        ApiError { kind, detail: String::new() }
    }

    #[test]
    fn a_busy_server_pauses_all_writes_for_its_retry_after() {
        let mut pace = Pace::default();
        let now = Instant::from_secs(10);
        assert_eq!(pace.limit(now), MOST);
        let busy = |secs| err(ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(secs)) });
        assert!(pace.failed(&busy(7), now));
        assert!(pace.failed(&busy(3), now));
        assert_eq!((pace.limit(now), pace.resumes(now)), (0, Some(Instant::from_secs(17))));
        assert_eq!(pace.limit(Instant::from_secs(17)), MOST / 4);
        for _ in 0..MOST {
            pace.answered();
        }
        assert_eq!(pace.limit(Instant::from_secs(17)), MOST, "no rate limit while the server answers");
    }

    #[test]
    fn an_unreachable_server_gets_one_request_with_growing_pauses() {
        let mut pace = Pace::default();
        let mut now = Instant::from_secs(1);
        let mut waits = Vec::new();
        for _ in 0..8 {
            // Sixteen fail together: that counts once.
            for _ in 0..MOST {
                assert!(pace.failed(&err(ApiErrorKind::Unavailable), now));
            }
            let next = pace.resumes(now).expect("a pause");
            waits.push(next.since(now).as_millis());
            now = next;
            assert_eq!(pace.limit(now), 1);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn an_error_of_one_pod_pauses_no_other_pod() {
        let mut pace = Pace::default();
        let now = Instant::from_secs(1);
        for kind in [ApiErrorKind::Invalid, ApiErrorKind::Conflict, ApiErrorKind::Forbidden, ApiErrorKind::Failed] {
            assert!(!pace.failed(&err(kind), now));
            assert!(pace.limit(now) >= MOST / 2);
        }
        assert_eq!([1, 2, 4, 9].map(|n| pod_pause(n).as_millis()), [250, 500, 2000, 10000]);
    }
}
