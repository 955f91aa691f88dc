//! When the token of a service account is to be replaced (TOK-01).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Age at which a token is replaced, whatever its expiry.
#[doc(alias = "maxTTL")]
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Jitter: each token is replaced up to this much earlier, so that nodes and pods do not all send requests at once.
#[doc(alias = "maxJitter")]
const LEAST_JITTER: Duration = Duration::from_secs(10);
/// Jitter as a share of the token's life; the larger of the two applies, so that pods that started together spread out.
const JITTER_SHARE: u64 = 20;

/// The largest jitter of a token that is valid for `seconds`.
pub fn max_jitter(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default() / JITTER_SHARE).max(LEAST_JITTER)
}

/// When a token that was asked for `seconds` and expires at `expires` is to be replaced: at four fifths of its life or
/// after a day, whichever comes first, `jitter` earlier.
///
/// upstream: kubelet/token/token_manager.go requiresRefresh (v1.36)
#[doc(alias = "requiresRefresh")]
pub fn renew_at(expires: Timestamp, seconds: i64, jitter: Duration) -> Timestamp {
    let jitter = SignedDuration::try_from(jitter).unwrap_or_default();
    let life = SignedDuration::from_secs(seconds);
    let margin = SignedDuration::from_secs(seconds.saturating_mul(20) / 100);
    let by_age = expires.checked_sub(life).and_then(|made| made.checked_add(MAX_AGE)).unwrap_or(expires);
    let by_life = expires.checked_sub(margin).unwrap_or(expires);
    by_age.min(by_life).checked_sub(jitter).unwrap_or(expires)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// upstream: kubelet/token/token_manager_test.go TestRequiresRefresh (v1.36)
    #[test]
    fn tok_01_when_a_token_is_replaced() {
        let made = Timestamp::from_second(1_767_225_600).expect("a time");
        let hours = |n: i64| n * 3600;
        let table = [
            // seconds good for, jitter, seconds after it was made
            (hours(1), 0, 2880),
            (hours(1), 10, 2870),
            (600, 0, 480),
            (hours(24), 0, hours(24) * 4 / 5),
            (hours(30), 0, hours(24)),
            (hours(24 * 365), 10, hours(24) - 10),
        ];
        for (seconds, jitter, expected) in table {
            let expires = made + SignedDuration::from_secs(seconds);
            let due = renew_at(expires, seconds, Duration::from_secs(jitter));
            assert_eq!(due.as_second() - made.as_second(), expected, "{seconds} s, jitter {jitter} s");
        }
        renew_at(Timestamp::MIN, i64::MAX, max_jitter(i64::MAX));
        renew_at(Timestamp::MAX, i64::MIN, max_jitter(i64::MIN));
    }

    #[test]
    fn tok_01_renewals_are_spread_over_a_share_of_the_life() {
        for (seconds, jitter) in [(-1, 10), (100, 10), (600, 30), (3607, 180), (86_400, 4_320)] {
            assert_eq!(max_jitter(seconds).as_secs(), jitter, "{seconds} s");
        }
    }
}
