//! Faults between a kubelet and its API server, drawn from a seed.

use std::time::Duration;

use rubelet_engine::ports::{ApiError, ApiErrorKind};

use crate::rng::{Odds, SeededRng};

/// How often each fault happens. Each request draws at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiFaults {
    /// The server is not reached; no effect.
    pub refused: Odds,
    /// The request takes effect, then the connection breaks.
    pub lost_reply: Odds,
    /// 429, with a pause of a second.
    pub busy: Odds,
    /// 500, no effect.
    pub failed: Odds,
    /// 409 on a patch, no effect.
    pub conflict: Odds,
    /// The request takes two seconds longer.
    pub slow: Odds,
}

impl ApiFaults {
    /// No faults.
    pub const NONE: Self = Self {
        refused: Odds::NEVER,
        lost_reply: Odds::NEVER,
        busy: Odds::NEVER,
        failed: Odds::NEVER,
        conflict: Odds::NEVER,
        slow: Odds::NEVER,
    };
    /// Many faults: about every third request.
    pub const MANY: Self = Self {
        refused: Odds::one_in(20),
        lost_reply: Odds::one_in(15),
        busy: Odds::one_in(15),
        failed: Odds::one_in(20),
        conflict: Odds::one_in(20),
        slow: Odds::one_in(10),
    };

    pub(super) fn draw(&self, rng: &SeededRng) -> ApiFault {
        if rng.hits(self.refused) {
            ApiFault::Before(error(ApiErrorKind::Unavailable))
        } else if rng.hits(self.lost_reply) {
            ApiFault::After(error(ApiErrorKind::Unavailable))
        } else if rng.hits(self.busy) {
            ApiFault::Before(error(ApiErrorKind::Busy { retry_after: Some(Duration::from_secs(1)) }))
        } else if rng.hits(self.failed) {
            ApiFault::Before(error(ApiErrorKind::Failed))
        } else if rng.hits(self.conflict) {
            ApiFault::Before(error(ApiErrorKind::Conflict))
        } else if rng.hits(self.slow) {
            ApiFault::Slow
        } else {
            ApiFault::None
        }
    }
}

/// The fault of one request.
pub(super) enum ApiFault {
    None,
    Before(ApiError),
    After(ApiError),
    Slow,
}

pub(super) fn error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, detail: format!("{kind:?}") }
}
