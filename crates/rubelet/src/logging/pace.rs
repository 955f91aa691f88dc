//! Limits the rate of warnings and errors from each place in the code.
//!
//! An unauthenticated client, a failing probe or a misbehaving pod can cause the same warning a
//! thousand times a second. Each place in the code may write a burst, then a few lines a second; the rest is counted, and
//! the next line from that place is preceded by the number. Lines about what the node did (info and finer) are not limited.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Lines from one place that are written without pause: more than a node has pods, so that one line about each passes.
const BURST: u64 = 200;
/// Lines from one place that are written each second after that.
pub(super) const PER_SECOND: u64 = 10;

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is, after this many that were not.
    Write {
        /// Lines of the same place since the last one that was written.
        held_back: u64,
    },
    /// It is not.
    HoldBack,
}

/// How much each place in the code has written. There are as many entries as there are such places.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<Identifier, Place>>);

struct Place {
    /// What may be written at once, in thousandths of a line.
    credit: u64,
    since: Duration,
    held_back: u64,
}

impl Pace {
    /// Decides about a line; `now` is any clock that only goes forward.
    pub(super) fn admit(&self, metadata: &Metadata<'_>, now: Duration) -> Verdict {
        if *metadata.level() > Level::WARN {
            return Verdict::Write { held_back: 0 };
        }
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Place { credit: BURST * 1000, since: now, held_back: 0 };
        places.entry(metadata.callsite()).or_insert(fresh).admit(now)
    }
}

impl Place {
    fn admit(&mut self, now: Duration) -> Verdict {
        let millis = u64::try_from(now.saturating_sub(self.since).as_millis()).unwrap_or(u64::MAX);
        self.credit = self.credit.saturating_add(millis.saturating_mul(PER_SECOND)).min(BURST * 1000);
        self.since += Duration::from_millis(millis);
        match self.credit.checked_sub(1000) {
            Some(left) => {
                self.credit = left;
                Verdict::Write { held_back: std::mem::take(&mut self.held_back) }
            }
            None => {
                self.held_back += 1;
                Verdict::HoldBack
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_ten_a_second_and_the_rest_is_counted() {
        let mut place = Place { credit: BURST * 1000, since: Duration::ZERO, held_back: 0 };
        let mut written = 0;
        for milli in 0..2000 {
            written += u64::from(place.admit(Duration::from_millis(milli)) != Verdict::HoldBack);
        }
        assert_eq!(written, BURST + 19, "200 at once, then one each 100 ms for two seconds");
        let held_back = place.held_back;
        assert!(held_back > 0);
        assert_eq!(place.admit(Duration::from_secs(3)), Verdict::Write { held_back });
        assert_eq!(place.admit(Duration::from_secs(3)), Verdict::Write { held_back: 0 }, "it is reported once");
        for _ in 0..BURST {
            assert_ne!(place.admit(Duration::from_secs(60)), Verdict::HoldBack, "a quiet minute gives the burst back");
        }
        assert_eq!(place.admit(Duration::from_secs(60)), Verdict::HoldBack);
    }
}
