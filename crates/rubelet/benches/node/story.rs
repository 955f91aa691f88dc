//! From rubelet's log to the times of one pod's start.
//!
//! Two kinds of lines are used: that the runtime answered (when, and how long it took), and that the pod's status
//! changed. What lies between the rename of the manifest and the status `Running`, and in no call, is rubelet's own.

use serde_json::Value;

/// What the log tells of one pod. Times are milliseconds since the epoch.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// Name, begin and end of every call on behalf of this pod.
    pub(crate) calls: Vec<(String, f64, f64)>,
    /// When its status became `Running`.
    pub(crate) running: Option<f64>,
}

/// The parts of a start, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) all: f64,
    pub(crate) in_calls: f64,
    pub(crate) to_first_call: f64,
    pub(crate) between_calls: f64,
    pub(crate) to_status: f64,
}

impl Parts {
    pub(crate) fn own(&self) -> f64 {
        self.all - self.in_calls
    }
}

/// The story of the pod called `name`.
pub(crate) fn story(log: &str, name: &str) -> Story {
    let mut story = Story::default();
    for line in log.lines().filter(|line| line.contains(name)) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| line.get(key).and_then(Value::as_f64).unwrap_or_default();
        if !text("pod").split(['/', '(', ' ']).any(|word| word == name) {
            continue;
        }
        let ts = number("ts");
        match text("msg") {
            "The runtime answered" => {
                story.calls.push((text("operation").to_owned(), ts - number("micros") / 1000.0, ts));
            }
            "The status changed" if text("phase") == "Running" => {
                story.running.get_or_insert(ts);
            }
            _ => {}
        }
    }
    story
}

/// Splits the time from `written` to `Running`. Calls that overlap count once.
pub(crate) fn parts(story: &Story, written: f64) -> Option<Parts> {
    let running = story.running?;
    let mut calls: Vec<(f64, f64)> =
        story.calls.iter().map(|(_, begin, end)| (*begin, *end)).filter(|(begin, _)| *begin < running).collect();
    calls.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, _) = *calls.first()?;
    let (mut in_calls, mut covered) = (0.0, first);
    for (begin, end) in calls {
        let end = end.min(running);
        in_calls += (end - begin.max(covered)).max(0.0);
        covered = covered.max(end);
    }
    let (to_first_call, to_status) = (first - written, running - covered);
    let all = running - written;
    Some(Parts { all, in_calls, to_first_call, between_calls: all - in_calls - to_first_call - to_status, to_status })
}
