//! The steps of a pod on this node, for `rubelet explain`.
//!
//! The timeline is bounded, because a pod may crash for a month. A step that repeats is kept once, at its last time, with
//! a count; beyond that the oldest steps are dropped. A crash loop is therefore a few steps, and its beginning is kept.

use std::collections::VecDeque;
use std::time::Duration;

use crate::status::cut;
use crate::time::Instant;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many steps are kept per pod.
const KEEP: usize = 32;
/// How long the text of a step may be, in bytes: runtimes and registries may answer with pages.
const LONGEST: usize = 1024;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it happened last.
    pub at: Timestamp,
    /// What happened, as text for people.
    pub what: String,
    /// When it happened first.
    pub first: Timestamp,
    /// How often it happened.
    pub times: u32,
    /// How long it took, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub took: Option<Duration>,
    /// The step failed.
    pub bad: bool,
}

/// What a pod waits for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What for, as text for people.
    pub what: String,
    /// Since when.
    pub since: Instant,
    /// Until when, if known.
    pub until: Option<Instant>,
}

/// The steps of one pod, ordered by their last time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Timeline {
    /// Adds a step; one that was there before moves to the end and is counted.
    pub fn add(&mut self, entry: Entry) {
        let entry = Entry { what: brief(&entry.what), ..entry };
        let before = self.entries.iter().position(|old| old.what == entry.what && old.bad == entry.bad);
        if let Some(old) = before.and_then(|index| self.entries.remove(index)) {
            let times = old.times.saturating_add(entry.times);
            self.entries.push_back(Entry { first: old.first, times, ..entry });
            return;
        }
        if self.entries.len() == KEEP {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }

    /// The steps, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// How many older steps were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// `text`, cut to the longest text that is kept.
pub fn brief(text: &str) -> String {
    if text.len() <= LONGEST { text.to_owned() } else { format!("{}…", cut(text, LONGEST)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: &str) -> Entry {
        let at = Timestamp::UNIX_EPOCH;
        Entry { at, first: at, what: what.into(), times: 1, took: None, bad: false }
    }

    #[test]
    fn repeats_are_counted_and_the_oldest_go_first() {
        let mut timeline = Timeline::default();
        timeline.add(entry("a"));
        timeline.add(entry("a"));
        timeline.add(entry("b"));
        timeline.add(entry("a"));
        assert_eq!(timeline.entries().map(|e| (e.what.as_str(), e.times)).collect::<Vec<_>>(), [("b", 1), ("a", 3)]);
        for n in 0..40 {
            timeline.add(entry(&n.to_string()));
        }
        assert_eq!(timeline.entries().count(), KEEP);
        assert_eq!(timeline.dropped(), 10);
        assert_eq!(timeline.entries().next().map(|e| e.what.as_str()), Some("8"));
    }

    #[test]
    fn a_failure_that_repeats_several_steps_keeps_the_first_steps() {
        let mut timeline = Timeline::default();
        timeline.add(entry("Accepted"));
        for _ in 0..100 {
            for step in ["Pulling", "Failed", "BackOff"] {
                timeline.add(entry(step));
            }
        }
        let steps: Vec<_> = timeline.entries().map(|e| (e.what.as_str(), e.times)).collect();
        assert_eq!(steps, [("Accepted", 1), ("Pulling", 100), ("Failed", 100), ("BackOff", 100)]);
        assert_eq!(timeline.dropped(), 0);
    }

    #[test]
    fn a_text_of_pages_is_cut() {
        let mut timeline = Timeline::default();
        timeline.add(entry(&"ä".repeat(10_000)));
        assert!(timeline.entries().all(|e| e.what.len() <= LONGEST + '…'.len_utf8()));
    }
}
