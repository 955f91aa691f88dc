//! The raw data of a run, and what is asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The agent that is measured.
pub(crate) const RUBELET: &str = "rubelet";
/// The one that it is measured against.
pub(crate) const UPSTREAM: &str = "upstream";
/// Bare calls to the runtime: no agent can be faster.
pub(crate) const FLOOR: &str = "cri";
/// Our engine on fakes; upstream has no such thing.
pub(crate) const FAKE: &str = "fake";

/// One line of a raw file.
#[derive(Debug, Deserialize)]
struct Line {
    agent: String,
    figure: String,
    case: String,
    unit: String,
    values: Vec<f64>,
}

/// What a run was: read from `meta.json`. What it does not say is left out of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Meta {
    pub(crate) command: String,
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) containerd: String,
    pub(crate) runc: String,
    pub(crate) kubernetes: String,
    pub(crate) rubelet: String,
    pub(crate) rounds: u32,
    pub(crate) quick: bool,
    pub(crate) notes: Vec<String>,
}

/// A figure and one of its cases, such as `create-ready` of `100` pods. In the order in which a person counts: 30 before
/// 100.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) figure: String,
    number: u64,
    pub(crate) case: String,
}

impl Key {
    pub(crate) fn new(figure: &str, case: &str) -> Self {
        let digits: String = case.chars().take_while(char::is_ascii_digit).collect();
        Self { figure: figure.to_owned(), number: digits.parse().unwrap_or_default(), case: case.to_owned() }
    }
}

/// All rounds, pooled.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) meta: Meta,
    values: BTreeMap<Key, BTreeMap<String, Vec<f64>>>,
    units: BTreeMap<String, String>,
}

impl Data {
    /// Everything in this directory.
    pub(crate) fn read(raw: &Path) -> Result<Self> {
        let mut data = Self::default();
        let meta = raw.join("meta.json");
        let text = std::fs::read_to_string(&meta).with_context(|| format!("read {}", meta.display()))?;
        data.meta = serde_json::from_str(&text).with_context(|| format!("understand {}", meta.display()))?;
        let mut files: Vec<_> = std::fs::read_dir(raw)
            .with_context(|| format!("list {}", raw.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .collect();
        files.sort();
        for file in &files {
            let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
            data.take(&text).with_context(|| format!("understand {}", file.display()))?;
        }
        if data.values.is_empty() {
            bail!("nothing was measured: {} files in {}", files.len(), raw.display());
        }
        Ok(data)
    }

    /// Takes in the lines of one file.
    pub(crate) fn take(&mut self, text: &str) -> Result<()> {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let line: Line = serde_json::from_str(line).with_context(|| format!("line {number}"))?;
            let unit = self.units.entry(line.figure.clone()).or_insert_with(|| line.unit.clone());
            if *unit != line.unit {
                bail!("line {number}: {} is in {unit}, and here in {}", line.figure, line.unit);
            }
            let agents = self.values.entry(Key::new(&line.figure, &line.case)).or_default();
            agents.entry(line.agent).or_default().extend(line.values);
        }
        for values in self.values.values_mut().flat_map(BTreeMap::values_mut) {
            values.sort_by(f64::total_cmp);
        }
        Ok(())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.values.keys()
    }

    pub(crate) fn figures(&self) -> BTreeSet<&str> {
        self.keys().map(|key| key.figure.as_str()).collect()
    }

    /// The cases of a figure, the smallest first.
    pub(crate) fn cases(&self, figure: &str) -> Vec<&str> {
        self.keys().filter(|key| key.figure == figure).map(|key| key.case.as_str()).collect()
    }

    pub(crate) fn unit(&self, figure: &str) -> &str {
        self.units.get(figure).map_or("", String::as_str)
    }

    /// Every value of every round, sorted; none if it was not measured.
    pub(crate) fn values(&self, agent: &str, figure: &str, case: &str) -> &[f64] {
        let agents = self.values.get(&Key::new(figure, case));
        agents.and_then(|agents| agents.get(agent)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn percentile(&self, agent: &str, figure: &str, case: &str, percent: usize) -> Option<f64> {
        percentile(self.values(agent, figure, case), percent)
    }

    pub(crate) fn p50(&self, agent: &str, figure: &str, case: &str) -> Option<f64> {
        self.percentile(agent, figure, case, 50)
    }

    pub(crate) fn worst(&self, agent: &str, figure: &str, case: &str) -> Option<f64> {
        self.values(agent, figure, case).last().copied()
    }
}

/// The smallest of these sorted values that this share of them does not exceed (nearest rank).
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// How much of the other; nothing to say where the other is nothing.
pub(crate) fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).filter(|(_, other)| *other > 0.0).map(|(one, other)| one / other)
}
