//! Pods that have ended, for `rubelet explain`: the newest, for an hour, as lines of a small file.
//!
//! Nothing is decided from them. Each is a line of its own, so that one that cannot be read costs no other.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodStatus;
use serde::{Deserialize, Serialize};

use crate::timeline::Entry;

/// How long a pod is remembered after its end.
const REMEMBER: SignedDuration = SignedDuration::from_hours(1);
/// How many pods are remembered.
const MOST: usize = 64;
/// How large all lines together may be: a crash loop with long messages takes a few kilobytes.
const LARGEST: usize = 256 * 1024;

/// A pod that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedPod {
    /// When nothing was left of it.
    pub ended: Timestamp,
    /// When it came to this node.
    pub arrived: Timestamp,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its last status.
    pub status: PodStatus,
    /// Its last steps.
    pub timeline: Vec<Entry>,
}

/// The pods that have ended lately, oldest first, each as its line.
#[derive(Clone, Debug, Default)]
pub struct EndedPods {
    lines: VecDeque<(Timestamp, String)>,
    size: usize,
}

impl EndedPods {
    /// Reads a file, as far as its lines can be read.
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            if let Ok(pod) = serde_json::from_str::<EndedPod>(line) {
                all.push(pod.ended, line.to_owned());
            }
        }
        all
    }

    /// Adds a pod, and forgets those that are too many or too old.
    pub fn add(&mut self, pod: &EndedPod) {
        // Plain data with string keys always serializes.
        if let Ok(line) = serde_json::to_string(pod) {
            self.push(pod.ended, line);
            self.forget(pod.ended);
        }
    }

    /// The pods, newest first, that are not too old.
    pub fn pods(&self, now: Timestamp) -> Vec<EndedPod> {
        let young = self.lines.iter().rev().filter(|(ended, _)| !is_old(*ended, now));
        young.filter_map(|(_, line)| serde_json::from_str(line).ok()).collect()
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.lines.iter().map(|(_, line)| format!("{line}\n")).collect()
    }

    fn push(&mut self, ended: Timestamp, line: String) {
        self.size += line.len();
        self.lines.push_back((ended, line));
        while self.lines.len() > MOST || self.size > LARGEST {
            self.pop();
        }
    }

    fn forget(&mut self, now: Timestamp) {
        while self.lines.front().is_some_and(|(ended, _)| is_old(*ended, now)) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, line)) = self.lines.pop_front() {
            self.size = self.size.saturating_sub(line.len());
        }
    }
}

fn is_old(ended: Timestamp, now: Timestamp) -> bool {
    now.duration_since(ended) > REMEMBER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, at: i64, message: &str) -> EndedPod {
        let at = Timestamp::from_second(at).expect("a time");
        EndedPod {
            ended: at,
            arrived: at,
            namespace: "default".into(),
            name: name.into(),
            uid: format!("{name}-uid"),
            status: PodStatus { message: Some(message.into()), ..PodStatus::default() },
            timeline: Vec::new(),
        }
    }

    fn names(all: &EndedPods, now: i64) -> Vec<String> {
        all.pods(Timestamp::from_second(now).expect("a time")).into_iter().map(|pod| pod.name).collect()
    }

    #[test]
    fn pods_are_remembered_for_an_hour_and_over_a_restart() {
        let mut all = EndedPods::default();
        all.add(&ended("a", 0, ""));
        all.add(&ended("b", 1800, ""));
        assert_eq!(names(&all, 3600), ["b", "a"]);
        assert_eq!(names(&all, 3601), ["b"]);
        let mut again = EndedPods::parse(&(all.text() + "not a pod\n{\"half"));
        assert_eq!(names(&again, 1800), ["b", "a"]);
        again.add(&ended("c", 5000, ""));
        assert_eq!(again.text().lines().count(), 2, "a is too old and forgotten");
    }

    #[test]
    fn the_file_is_bounded() {
        let mut all = EndedPods::default();
        for number in 0..1000 {
            all.add(&ended(&number.to_string(), 0, ""));
        }
        assert_eq!((all.lines.len(), all.pods(Timestamp::UNIX_EPOCH)[0].name.as_str()), (MOST, "999"));
        for number in 0..10 {
            all.add(&ended(&number.to_string(), 0, &"x".repeat(LARGEST / 2)));
        }
        assert!(all.text().len() <= LARGEST + MOST, "{}", all.text().len());
        all.add(&ended("huge", 0, &"x".repeat(2 * LARGEST)));
        assert!(all.text().is_empty(), "one that is too large is not kept");
    }
}
