//! What happened to a pod on this node, step by step: the memory behind `rubelet explain`.
//!
//! Bounded, because a pod that crashes for a month must not grow it: repeated steps are counted, and the oldest go first.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::time::Instant;
use serde::Serialize;

/// How many steps are kept per pod.
const KEEP: usize = 32;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// When it happened last.
    pub at: Timestamp,
    /// What, in words for people.
    pub what: String,
    /// How often in a row.
    pub times: u32,
    /// How long it took, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took: Option<Duration>,
    /// It went wrong.
    pub bad: bool,
}

/// What a pod waits for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What for, in words for people.
    pub what: String,
    /// Since when.
    pub since: Instant,
    /// Until when, where that is known.
    pub until: Option<Instant>,
}

/// The steps of one pod, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Timeline {
    /// Adds a step; one that only repeats the last is counted.
    pub fn add(&mut self, entry: Entry) {
        if let Some(last) = self.entries.back_mut()
            && last.what == entry.what
        {
            last.at = entry.at;
            last.took = entry.took;
            last.times = last.times.saturating_add(1);
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

    /// How many older steps were let go.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: &str) -> Entry {
        Entry { at: Timestamp::UNIX_EPOCH, what: what.into(), times: 1, took: None, bad: false }
    }

    #[test]
    fn repeats_are_counted_and_the_oldest_go_first() {
        let mut timeline = Timeline::default();
        timeline.add(entry("a"));
        timeline.add(entry("a"));
        assert_eq!(timeline.entries().map(|e| (e.what.as_str(), e.times)).collect::<Vec<_>>(), [("a", 2)]);
        for n in 0..40 {
            timeline.add(entry(&n.to_string()));
        }
        assert_eq!(timeline.entries().count(), KEEP);
        assert_eq!(timeline.dropped(), 9);
        assert_eq!(timeline.entries().next().map(|e| e.what.as_str()), Some("8"));
    }
}
