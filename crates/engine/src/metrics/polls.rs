//! How long polls of tasks blocked the thread. Upstream has many threads, and no such metric.

use std::fmt::Write as _;

use super::histogram::{head, sample};
use crate::task::{Polls, TaskPolls};

const LONGEST: &str = "rubelet_longest_poll_seconds";
const LONG: &str = "rubelet_long_polls_total";

/// Writes the measurements in Prometheus' text format. A series appears with its first measurement.
pub(super) fn write(polls: &Polls, out: &mut String) {
    let tasks: Vec<TaskPolls> = polls.tasks().collect();
    if !tasks.is_empty() {
        head(out, LONGEST, "gauge", "The longest poll of a task of this kind; all other tasks waited.");
    }
    for task in &tasks {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{LONGEST}{{task=\"{}\"}} {}", task.task, task.longest.as_secs_f64());
    }
    let long = tasks.iter().flat_map(|task| {
        [("0.01", task.over_10_ms), ("0.1", task.over_100_ms)].map(|(over, count)| (over, task.task, count))
    });
    let long: Vec<_> = long.filter(|(.., count)| *count > 0).collect();
    if !long.is_empty() {
        head(out, LONG, "counter", "Polls of tasks of this kind that took longer than so many seconds.");
    }
    for (over, task, count) in long {
        sample(out, LONG, &format!("over=\"{over}\",task=\"{task}\""), count);
    }
}
