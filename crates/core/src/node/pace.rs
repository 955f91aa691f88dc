//! When a report is due without a change (NODE-10).

use std::time::Duration;

use crate::time::Instant;

/// Remembers when the last report was sent, and when the next is due at the latest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportPace {
    every: Duration,
    due: Option<Instant>,
}

impl ReportPace {
    /// Reports every `nodeStatusReportFrequency`; the first is due at once.
    pub fn new(every: Duration) -> Self {
        Self { every, due: None }
    }

    /// Whether a report is due without a change.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| now >= due)
    }

    /// One was sent. After a change, and after the first, the next comes between half and one and a half periods later,
    /// so that nodes which changed together do not report together for ever; `chance` is from 0 up to 1.
    /// upstream: kubelet_node_status.go calculateDelay (v1.36)
    #[doc(alias = "delayAfterNodeStatusChange")]
    pub fn sent(&mut self, changed: bool, chance: f64, now: Instant) {
        let spread = changed || self.due.is_none();
        let pause = if spread { self.every.mul_f64((0.5 + chance).clamp(0.5, 1.5)) } else { self.every };
        self.due = Some(now + pause);
    }
}
