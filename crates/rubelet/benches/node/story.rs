//! From rubelet's log to the times of one pod's start.
//!
//! Two kinds of lines are used: that the runtime answered (when, and how long it took), and that the pod's status
//! changed. What lies between the rename of the manifest and the status `Running`, and in no call, is rubelet's own.

use std::collections::BTreeMap;

/// The log lines of one pod. Times are milliseconds since the epoch.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// Name, begin and end of every call on behalf of this pod.
    pub(crate) calls: Vec<(String, f64, f64)>,
    /// When its status became `Running`.
    pub(crate) running: Option<f64>,
}

/// The parts of a start, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) all: f64,
    pub(crate) in_calls: f64,
    pub(crate) to_first_call: f64,
    pub(crate) between_calls: f64,
    pub(crate) to_status: f64,
    /// What passed between calls, by the call that came next.
    pub(crate) gaps: BTreeMap<String, f64>,
}

impl Parts {
    pub(crate) fn own(&self) -> f64 {
        self.all - self.in_calls
    }
}

/// The story of the pod called `name`. Lines are text: `TIME LEVEL span{pod=…}: module: message field=value …`.
pub(crate) fn story(log: &str, name: &str) -> Story {
    let mut story = Story::default();
    let pod = format!("pod={name}_default(");
    for line in log.lines().filter(|line| line.contains(&pod)) {
        let Some(ts) = line.split_whitespace().next().and_then(millis) else { continue };
        let field = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.unwrap_or_default().trim_matches('"')
        };
        if line.contains("The runtime answered") {
            let took: f64 = field("micros=").parse().unwrap_or_default();
            story.calls.push((field("operation=").to_owned(), ts - took / 1000.0, ts));
        } else if line.contains("The status changed") && field("phase=") == "Running" {
            story.running.get_or_insert(ts);
        }
    }
    story
}

fn millis(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    let micros = i32::try_from(time.as_microsecond().rem_euclid(1_000_000)).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch are far below 2^53")]
    let seconds = time.as_second() as f64;
    Some(seconds * 1000.0 + f64::from(micros) / 1000.0)
}

/// Splits the time from `written` to `Running`. Calls that overlap count once.
pub(crate) fn parts(story: &Story, written: f64) -> Option<Parts> {
    let running = story.running?;
    let mut calls: Vec<_> = story.calls.iter().filter(|(_, begin, _)| *begin < running).collect();
    calls.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (_, first, _) = calls.first()?;
    let mut parts = Parts { all: running - written, to_first_call: first - written, ..Parts::default() };
    let mut covered = *first;
    for (name, begin, end) in calls {
        let end = end.min(running);
        if *begin > covered {
            *parts.gaps.entry(name.clone()).or_default() += begin - covered;
        }
        parts.in_calls += (end - begin.max(covered)).max(0.0);
        covered = covered.max(end);
    }
    parts.to_status = running - covered;
    parts.between_calls = parts.own() - parts.to_first_call - parts.to_status;
    Some(parts)
}
