//! Raw lines: one JSON object per figure and case.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

/// What was measured so far.
#[derive(Debug)]
pub(crate) struct Raw {
    agent: String,
    round: u32,
    file: PathBuf,
    lines: BTreeMap<(String, String), (&'static str, Vec<f64>)>,
}

impl Raw {
    pub(crate) fn new(agent: &str, round: u32, file: PathBuf) -> Self {
        Self { agent: agent.to_owned(), round, file, lines: BTreeMap::new() }
    }

    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// Adds to the values of a figure.
    pub(crate) fn add(&mut self, figure: &str, case: &str, unit: &'static str, values: impl IntoIterator<Item = f64>) {
        let line = self.lines.entry((figure.to_owned(), case.to_owned())).or_insert((unit, Vec::new()));
        line.1.extend(values.into_iter().map(|value| (value * 1000.0).round() / 1000.0));
    }

    /// Adds times and prints them.
    pub(crate) fn times(&mut self, figure: &str, case: &str, times: &[Duration]) {
        let values: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        say_times(figure, case, &values);
        self.add(figure, case, "ms", values);
    }

    /// Adds a single value and prints it.
    pub(crate) fn value(&mut self, figure: &str, case: &str, unit: &'static str, value: f64) {
        println!("      {figure:<16} {case:<11} {value:>9.2} {unit}");
        self.add(figure, case, unit, [value]);
    }

    /// Only what is whole is written: a run that failed leaves nothing behind.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for ((figure, case), (unit, values)) in &self.lines {
            let line = json!({
                "agent": self.agent, "round": self.round, "figure": figure, "case": case, "unit": unit, "values": values,
            });
            writeln!(text, "{line}")?;
        }
        fs::write(&self.file, text).with_context(|| format!("write {}", self.file.display()))
    }
}

fn say_times(figure: &str, case: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted.get((sorted.len() * part / 100).min(sorted.len().saturating_sub(1)));
    let at = |part: usize| at(part).copied().unwrap_or_default();
    println!(
        "      {figure:<16} {case:<11} p50 {:>8.1}  p90 {:>8.1}  most {:>8.1} ms  ({})",
        at(50),
        at(90),
        at(100),
        sorted.len()
    );
}

/// Prints what begins, and at the end how long it took.
pub(crate) struct Phase {
    name: String,
    since: Instant,
}

impl Phase {
    pub(crate) fn begin(name: &str) -> Self {
        println!("    {name}");
        Self { name: name.to_owned(), since: Instant::now() }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        println!("    … {}: {:.1} s", self.name, self.since.elapsed().as_secs_f64());
    }
}
