//! Exponential back-off, as crash loops and image pulls have it (RT-60, IMG-04).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// How long to wait: doubling from `initial` to `max`, forgotten after `reset` without a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// First delay.
    pub initial: Duration,
    /// Longest delay.
    pub max: Duration,
    /// An entry is dropped when the next failure comes this long after the last one.
    pub reset: Duration,
}

/// Delays per key. Kept in memory only: a restart of ours forgets it (RST-07).
#[doc(alias = "flowcontrol.Backoff")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoffs {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    delay: Duration,
    updated: Timestamp,
}
