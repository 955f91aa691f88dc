//! What others may read of the evictor.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::eviction::{Observations, Threshold};
use rubelet_core::node::Pressure;
use rubelet_core::time::{Instant, Now};
use tokio::sync::watch;

/// Over how long a trend is measured at least, once the agent has run for that long; at most it is twice as long.
const TREND: Duration = Duration::from_secs(30);
/// A trend over less is chance.
const SHORTEST_TREND: Duration = Duration::from_secs(1);

/// The newest look of the evictor, for people.
#[derive(Clone, Debug)]
pub struct EvictionView {
    /// When it was made.
    pub at: Now,
    /// What the node is short of.
    pub pressure: Pressure,
    /// Each threshold, with what was measured.
    pub signals: Vec<SignalView>,
}

/// One threshold and its signal.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalView {
    /// The threshold.
    pub threshold: Threshold,
    /// What is left and all there is; `None` if it could not be measured.
    pub left: Option<(i64, i64)>,
    /// How much less is left each minute; negative if it is more. `None` until it was measured twice.
    pub per_minute: Option<i64>,
}

impl EvictionView {
    pub(super) fn new(
        at: Now,
        pressure: Pressure,
        thresholds: impl Iterator<Item = Threshold>,
        seen: &Observations,
        trend: &Trend,
    ) -> Self {
        let view = |threshold: Threshold| {
            let now = seen.get(threshold.signal);
            let then = trend.base().filter(|(_, since)| at.mono.since(*since) >= SHORTEST_TREND);
            let per_minute = now.zip(then).and_then(|(now, (then, since))| {
                let shrunk = then.get(threshold.signal)?.available.saturating_sub(now.available);
                let millis = i64::try_from(at.mono.since(*since).as_millis()).ok()?;
                Some(shrunk.saturating_mul(60_000) / millis.max(1))
            });
            SignalView { left: now.map(|now| (now.available, now.capacity)), per_minute, threshold }
        };
        Self { at, pressure, signals: thresholds.map(view).collect() }
    }
}

/// Two looks of the last minute, with which a new one is compared.
#[derive(Debug, Default)]
pub(super) struct Trend {
    /// The older first.
    looks: Vec<(Observations, Instant)>,
}

impl Trend {
    fn base(&self) -> Option<&(Observations, Instant)> {
        self.looks.first()
    }

    /// Keeps this look if the last one that was kept is old enough.
    pub(super) fn note(&mut self, seen: &Observations, now: Instant) {
        if self.looks.last().is_some_and(|(_, since)| now.since(*since) < TREND) {
            return;
        }
        if self.looks.len() > 1 {
            self.looks.remove(0);
        }
        self.looks.push((seen.clone(), now));
    }
}

/// The cloneable handle.
#[derive(Clone, Debug)]
pub struct EvictionHandle {
    view: watch::Receiver<Option<Arc<EvictionView>>>,
}

impl EvictionHandle {
    /// A handle, and the end into which the evictor writes. Without an evictor the view stays `None`.
    pub(crate) fn new() -> (watch::Sender<Option<Arc<EvictionView>>>, Self) {
        let (publish, view) = watch::channel(None);
        (publish, Self { view })
    }

    /// The newest look; `None` before the first.
    pub fn view(&self) -> Option<Arc<EvictionView>> {
        self.view.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rubelet_core::eviction::{Observation, Signal, parse_thresholds};

    use super::*;

    /// What a view shows of memory at these looks: seconds and how much is left.
    fn trends(looks: &[(u64, i64)]) -> Vec<Option<i64>> {
        let hard = BTreeMap::from([("memory.available".to_owned(), "10".to_owned())]);
        let none = BTreeMap::new();
        let thresholds = parse_thresholds(&[], &hard, &none, &none, &none).expect("a threshold");
        let mut trend = Trend::default();
        let mut look = |&(secs, available): &(u64, i64)| {
            let at = Now { mono: Instant::from_secs(secs), wall: jiff::Timestamp::UNIX_EPOCH };
            let mut seen = Observations::default();
            seen.insert(Signal::MemoryAvailable, Observation { available, capacity: 1000, at: at.mono });
            let view = EvictionView::new(at, Pressure::default(), thresholds.iter().cloned(), &seen, &trend);
            trend.note(&seen, at.mono);
            view.signals.first().expect("one").per_minute
        };
        looks.iter().map(&mut look).collect()
    }

    #[test]
    fn a_trend_is_measured_over_the_last_half_minute_at_least() {
        assert_eq!(trends(&[(0, 900), (0, 800), (10, 880), (20, 860)]), [None, None, Some(120), Some(120)]);
        // The look of second 0 counts until that of second 60 is kept.
        assert_eq!(trends(&[(0, 900), (30, 900), (60, 900), (70, 500)]), [None, Some(0), Some(0), Some(600)]);
        assert_eq!(trends(&[(0, 100), (60, 400)]), [None, Some(-300)]);
    }
}
