//! Keeps what was reached: compares the ratios of a run with those that were written down, and says what fell back.
//!
//! A ratio to upstream in the same run cancels out most of what makes machines differ. Growth has no upstream: there it
//! is the ratio to the same figure with the fewest pods.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use crate::data::{Data, FAKE, Key, RUBELET, UPSTREAM};
use crate::text::{amount, ratio_text};

/// By how much a ratio may grow.
const SLACK: f64 = 1.25;

/// What must be nothing, whatever upstream's is.
const MUST_BE_ZERO: [&str; 3] = ["restart-writes", "restart-flips", "restart-restarts"];

/// Ratios that were reached, by figure and case.
pub(crate) type Ratios = BTreeMap<Key, f64>;

/// A value of ours and the one that it is compared with.
struct Pair {
    ours: f64,
    other: f64,
}

/// What the guard says.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) table: String,
    /// One sentence for each ratio that fell back.
    pub(crate) worse: Vec<String>,
    /// How many were compared.
    pub(crate) compared: usize,
}

/// A difference that is smaller is not seen among the disturbances of a machine, whatever its ratio.
fn unseen(figure: &str, unit: &str) -> f64 {
    match (figure, unit) {
        ("growth-cpu" | "growth-cold", _) => 0.02,
        ("growth-latency", _) => 2.0,
        (_, "ms") => 15.0,
        (_, "%") => 0.1,
        (_, "s") => 0.2,
        (_, "KiB") => 2.0,
        _ => 0.5,
    }
}

fn pair(data: &Data, key: &Key) -> Option<Pair> {
    let (figure, case) = (key.figure.as_str(), key.case.as_str());
    if let Some(ours) = data.p50(FAKE, figure, case) {
        let fewest = *data.cases(figure).first()?;
        let other = data.p50(FAKE, figure, fewest).filter(|_| fewest != case)?;
        return Some(Pair { ours, other });
    }
    Some(Pair { ours: data.p50(RUBELET, figure, case)?, other: data.p50(UPSTREAM, figure, case)? })
}

/// Every ratio of this run. Where the other is nothing there is none.
pub(crate) fn ratios(data: &Data) -> Ratios {
    let of = |key: &Key| pair(data, key).filter(|pair| pair.other > 0.0).map(|pair| pair.ours / pair.other);
    let keys = data.keys().filter(|key| !MUST_BE_ZERO.contains(&key.figure.as_str()));
    keys.filter_map(|key| Some((key.clone(), of(key)?))).collect()
}

/// The file that is committed: a line per ratio.
pub(crate) fn record(ratios: &Ratios) -> String {
    let mut text = "# Ratios to upstream that were reached; written by benches/report --record, read by --guard.\n\
                    # figure\tcase\tratio\n"
        .to_owned();
    for (key, ratio) in ratios {
        let _ = writeln!(text, "{}\t{}\t{ratio:.4}", key.figure, key.case);
    }
    text
}

pub(crate) fn parse(text: &str) -> Result<Ratios> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let mut cells = line.split('\t');
            let mut cell = |what| cells.next().with_context(|| format!("line {number} has no {what}"));
            let key = Key::new(cell("figure")?, cell("case")?);
            let ratio = cell("ratio")?.trim().parse().with_context(|| format!("line {number}: not a ratio"))?;
            Ok((key, ratio))
        })
        .collect()
}

/// Compares this run with what was reached before.
pub(crate) fn compare(data: &Data, reached: &Ratios) -> Verdict {
    let mut table = "| figure | case | reached before | now | change | |\n|---|---|---:|---:|---:|---|\n".to_owned();
    let (mut worse, mut compared) = (Vec::new(), 0);
    for (key, before) in reached {
        let Some(pair) = pair(data, key).filter(|pair| pair.other > 0.0) else {
            let _ = writeln!(
                table,
                "| {} | {} | {} | – | – | not measured |",
                key.figure,
                key.case,
                ratio_text(Some(*before))
            );
            continue;
        };
        compared += 1;
        let (now, unit) = (pair.ours / pair.other, data.unit(&key.figure));
        let excess = pair.ours - before * pair.other;
        let grown = now > before * SLACK;
        let verdict = match (grown, excess > unseen(&key.figure, unit)) {
            (false, _) => "kept",
            (true, false) => "kept: too small a difference to be seen",
            (true, true) => "**worse**",
        };
        let change = if *before > 0.0 { format!("{:+.0} %", 100.0 * (now / before - 1.0)) } else { "–".to_owned() };
        let (was, is) = (ratio_text(Some(*before)), ratio_text(Some(now)));
        let _ = writeln!(table, "| {} | {} | {was} | {is} | {change} | {verdict} |", key.figure, key.case);
        if verdict == "**worse**" {
            worse.push(format!(
                "{} ({}): {is} of {}, {was} before ({change}): {} more than that would be",
                key.figure,
                key.case,
                amount(Some(pair.other), unit),
                amount(Some(excess), unit),
            ));
        }
    }
    for figure in MUST_BE_ZERO {
        for case in data.cases(figure) {
            let Some(count) = data.worst(RUBELET, figure, case) else { continue };
            compared += 1;
            let verdict = if count > 0.0 { "**worse**" } else { "kept" };
            let _ = writeln!(table, "| {figure} | {case} | must be 0 | {count} | | {verdict} |");
            if count > 0.0 {
                worse.push(format!("{figure} ({case}): {count}, and must be 0"));
            }
        }
    }
    Verdict { table, worse, compared }
}
