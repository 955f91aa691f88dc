//! Exponential back-off, as crash loops and image pulls have it (RT-60 … RT-63, IMG-04).
//!
//! The count goes up when a try is allowed (`next`), not when it fails. So the first restart is immediate and starts
//! the clock for the second. Time is the wall clock, because a container's end is known in wall time only.
//! upstream: client-go util/flowcontrol/backoff.go `Backoff` (v0.36), kubelet.go `newCrashLoopBackOff` (v1.36)

mod doubling;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::config::GoDuration;
use crate::id::PodRef;

pub use doubling::Doubling;

/// First delay of crash loops and image pulls.
const INITIAL: Duration = Duration::from_secs(10);
/// Longest delay of crash loops and image pulls, unless configured.
const MAX: Duration = Duration::from_secs(300);
/// A container that has run this long is no longer in a crash loop. Fixed, whatever the longest delay is (RT-60).
const CRASH_RESET: Duration = Duration::from_secs(600);
/// First and longest delay under the gate `ReduceDefaultCrashLoopBackOffDecay` (RT-62).
const REDUCED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

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

impl Default for BackoffPolicy {
    /// Crash loops, with nothing configured.
    fn default() -> Self {
        Self { initial: INITIAL, max: MAX, reset: CRASH_RESET }
    }
}

impl BackoffPolicy {
    /// Crash loops. `max` is `crashLoopBackOff.maxContainerRestartPeriod` if its gate is on and it is set; `reduced`
    /// is the gate `ReduceDefaultCrashLoopBackOffDecay` (RT-62).
    #[doc(alias = "newCrashLoopBackOff")]
    pub fn crash(max: Option<Duration>, reduced: bool) -> Self {
        let (initial, default_max) = if reduced { REDUCED } else { (INITIAL, MAX) };
        let max = max.unwrap_or(default_max);
        Self { initial: initial.min(max), max, reset: CRASH_RESET }
    }

    /// Image pulls.
    pub fn image() -> Self {
        Self { initial: INITIAL, max: MAX, reset: MAX * 2 }
    }
}

/// Delays per key. Kept in memory only: a restart of ours forgets it (RST-07).
#[doc(alias = "flowcontrol.Backoff")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoffs {
    policy: BackoffPolicy,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    tries: u32,
    updated: Timestamp,
}

impl Backoffs {
    /// Nothing waits yet.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, entries: BTreeMap::new() }
    }

    /// The current delay of `key`; zero if it has none.
    pub fn delay(&self, key: &str) -> Duration {
        self.entries.get(key).map_or(Duration::ZERO, |entry| self.delay_of(entry))
    }

    /// How long `key` still has to wait, counted from `since` (for a container: when its newest instance ended).
    /// `None` means that it may go on now; call `next` when it does.
    #[doc(alias = "IsInBackOffSince")]
    pub fn wait_left(&self, key: &str, since: Timestamp, now: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        if self.expired(entry, since) {
            return None;
        }
        let ahead = since.duration_since(now);
        // An end that lies further ahead than any delay was written before the clock was set back. Upstream waits until
        // the clock has caught up, which may take days.
        if ahead > signed(self.policy.max) {
            return None;
        }
        Duration::try_from(ahead.saturating_add(signed(self.delay_of(entry)))).ok().filter(|left| !left.is_zero())
    }

    /// As `wait_left`, counted from the last `next`: the form that image pulls use (IMG-04).
    #[doc(alias = "IsInBackOffSinceUpdate")]
    pub fn wait_left_since_update(&self, key: &str, now: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        if self.expired(entry, now) {
            return None;
        }
        // A clock set back must not lengthen the delay, which would last until it has caught up: nobody knows how much
        // of it has passed, so all of it. Upstream's clock does not go back here.
        let passed = now.duration_since(entry.updated);
        if passed.is_negative() {
            return None;
        }
        Duration::try_from(signed(self.delay_of(entry)).saturating_sub(passed)).ok().filter(|left| !left.is_zero())
    }

    /// `key` goes on now, because of what happened at `event_time`: its next delay is twice as long, or the first one
    /// if it had none or was well for long enough.
    pub fn next(&mut self, key: &str, event_time: Timestamp, now: Timestamp) {
        let tries = match self.entries.get(key) {
            Some(entry) if !self.expired(entry, event_time) => entry.tries.saturating_add(1),
            Some(_) | None => 1,
        };
        self.entries.insert(key.to_owned(), Entry { tries, updated: now });
    }

    /// Forgets `key`.
    pub fn reset(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Forgets what would count as well by `now`, so that the map does not grow for ever.
    pub fn gc(&mut self, now: Timestamp) {
        let reset = self.policy.reset;
        self.entries.retain(|_, entry| now.duration_since(entry.updated) <= signed(reset));
    }

    fn delay_of(&self, entry: &Entry) -> Duration {
        Doubling::new(self.policy.initial, self.policy.max).after(entry.tries)
    }

    fn expired(&self, entry: &Entry, event_time: Timestamp) -> bool {
        event_time.duration_since(entry.updated) > signed(self.policy.reset)
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The `waiting` message of a container in back-off (RT-61).
pub fn crash_message(delay: Duration, container: &str, pod: &PodRef) -> String {
    format!("back-off {} restarting failed container={container} pod={pod}", GoDuration::from(delay))
}

/// The message of the `BackOff` event (RT-61).
pub fn crash_event_message(container: &str, pod: &PodRef) -> String {
    format!("Back-off restarting failed container {container} in pod {pod}")
}

#[cfg(test)]
mod tests;
