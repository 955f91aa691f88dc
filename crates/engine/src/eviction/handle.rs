//! What others may read of the evictor.

use std::sync::Arc;

use rubelet_core::eviction::{Observations, Threshold};
use rubelet_core::node::Pressure;
use rubelet_core::time::Now;
use tokio::sync::watch;

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
    /// How much less was left than at the look before; negative if it was more.
    pub shrunk: Option<i64>,
}

impl EvictionView {
    pub(super) fn new(
        at: Now,
        pressure: Pressure,
        thresholds: impl Iterator<Item = Threshold>,
        (seen, before): (&Observations, &Observations),
    ) -> Self {
        let view = |threshold: Threshold| {
            let now = seen.get(threshold.signal);
            let then = before.get(threshold.signal);
            let shrunk = now.zip(then).map(|(now, then)| then.available.saturating_sub(now.available));
            SignalView { left: now.map(|now| (now.available, now.capacity)), shrunk, threshold }
        };
        Self { at, pressure, signals: thresholds.map(view).collect() }
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
