//! The tables, and how numbers are written in them.

use crate::bars::judge;
use crate::data::{Data, FAKE, FLOOR, RUBELET, UPSTREAM, ratio};

/// What was not measured. Nothing is made up.
const UNKNOWN: &str = "–";

/// What the figures are called, in the order of the page.
const NAMES: &[(&str, &str)] = &[
    ("create-running", "create → Running"),
    ("create-ready", "create → Ready"),
    ("delete-gone", "delete → gone"),
    ("exit-status", "exit → status at the watch"),
    ("exit-restarted", "exit → running again, first restart"),
    ("configmap", "ConfigMap changed → new content in the container"),
    ("resize", "resize → cgroup"),
    ("node-ready", "exec → node Ready"),
    ("restart-synced", "restart → every pod synced"),
    ("restart-writes", "restart: status writes"),
    ("restart-flips", "restart: readiness flips"),
    ("restart-restarts", "restart: containers restarted"),
    ("rss", "RSS"),
    ("pss", "PSS"),
    ("rss-peak", "peak RSS"),
    ("cpu", "CPU, of a core"),
    ("probe-rate", "probes run, of 100 a second"),
    ("cpu-burst", "CPU from the first create to all ready"),
    ("api-requests", "API requests per pod over its life"),
    ("api-bytes", "bytes to and from the API server per pod over its life"),
    ("hold-up", "longest hold-up of the loop"),
    ("binary", "stripped binary"),
    ("growth-cpu", "CPU per pod per full resync, caches warm, fakes"),
    ("growth-cold", "CPU per pod per full resync, caches cold, fakes"),
    ("growth-memory", "memory per pod, fakes"),
    ("growth-latency", "one more pod: create → Running, fakes"),
];

/// Figures of which every pod or repetition has its own, so that percentiles say something.
const SPREAD: &[&str] =
    &["create-running", "create-ready", "delete-gone", "exit-status", "exit-restarted", "configmap", "resize"];

/// `100-grace30` as a person says it.
fn case_text(case: &str) -> String {
    match case.split_once('-') {
        Some(("", "")) => String::new(),
        Some((pods, "exec")) => format!("{pods}, exec probes"),
        Some((pods, "http")) => format!("{pods}, HTTP probes"),
        Some((pods, "scraped")) => format!("{pods}, pages scraped every 15 s"),
        Some((pods, rest)) => match rest.strip_prefix("grace") {
            Some(seconds) => format!("{pods}, grace {seconds} s"),
            None => format!("{pods}, {rest}"),
        },
        None => case.to_owned(),
    }
}

/// With as many digits as say something.
pub(crate) fn amount(value: Option<f64>, unit: &str) -> String {
    let Some(value) = value else { return UNKNOWN.to_owned() };
    match unit {
        "ms" if value >= 9_950.0 => format!("{:.1} s", value / 1000.0),
        "ms" if value >= 999.5 => format!("{:.2} s", value / 1000.0),
        "ms" if value >= 9.95 => format!("{value:.0} ms"),
        "ms" if value >= 0.995 => format!("{value:.1} ms"),
        "ms" => format!("{value:.3} ms"),
        "count" if value.fract() == 0.0 => format!("{value:.0}"),
        "count" => format!("{value:.1}"),
        "%" | "s" => format!("{value:.2} {unit}"),
        _ => format!("{value:.1} {unit}"),
    }
}

pub(crate) fn ratio_text(ratio: Option<f64>) -> String {
    match ratio {
        None => UNKNOWN.to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(ratio) if ratio < 0.0995 => format!("{ratio:.3}"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

/// A heading; the first column is text, the others are numbers.
fn heading(cells: &[&str], text: usize) -> String {
    let line: Vec<&str> = (0..cells.len()).map(|n| if n < text { "---" } else { "---:" }).collect();
    format!("| {} |\n|{}|\n", cells.join(" | "), line.join("|"))
}

/// What must be reached, and whether it is.
pub(crate) fn bars_table(data: &Data) -> String {
    let mut table = heading(&["figure", "bar", "rubelet", "upstream", "floor", "ratio", ""], 2);
    for bar in judge(data) {
        let met = match bar.met {
            None => UNKNOWN,
            Some(true) => "met",
            Some(false) => "**missed**",
        };
        let number = |value| amount(value, bar.unit);
        table += &row([
            bar.what.to_owned(),
            bar.bar.to_owned(),
            number(bar.rubelet),
            number(bar.upstream),
            number(bar.floor),
            ratio_text(bar.ratio),
            met.to_owned(),
        ]);
    }
    table
}

/// The figures in the order of the page; what this program has no name for comes last, under its own.
fn figures(data: &Data) -> Vec<(&str, &str)> {
    let there = data.figures();
    let named = NAMES.iter().filter(|(figure, _)| there.contains(figure)).copied();
    let others = there.iter().filter(|figure| !NAMES.iter().any(|(name, _)| name == *figure));
    // The time until all are there has a column of its own.
    let others = others.filter(|figure| !figure.ends_with("-all")).map(|figure| (*figure, *figure));
    named.chain(others).collect()
}

/// How long things take: every percentile of both, and half of the floor's.
pub(crate) fn times_table(data: &Data) -> String {
    let columns = ["p50", "p90", "p99", "all"];
    let of = |agent: &str| columns.map(|column| format!("{agent} {column}"));
    let head: Vec<String> = ["figure".to_owned(), "pods".to_owned()]
        .into_iter()
        .chain(of("rubelet"))
        .chain(of("upstream"))
        .chain(["floor p50", "ratio p50", "ratio all"].map(str::to_owned))
        .collect();
    let mut table = heading(&head.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    for (figure, name) in figures(data).into_iter().filter(|(figure, _)| SPREAD.contains(figure)) {
        let (unit, all) = (data.unit(figure), format!("{figure}-all"));
        for case in data.cases(figure) {
            let parts = |agent: &str| {
                let shares = [50, 90, 99].map(|percent| data.percentile(agent, figure, case, percent));
                shares.into_iter().chain([data.p50(agent, &all, case)])
            };
            let half = |agent: &str| data.p50(agent, figure, case);
            let whole = |agent: &str| data.p50(agent, &all, case);
            let numbers = parts(RUBELET).chain(parts(UPSTREAM)).chain([half(FLOOR)]);
            let ratios = [ratio(half(RUBELET), half(UPSTREAM)), ratio(whole(RUBELET), whole(UPSTREAM))];
            table += &row([name.to_owned(), case_text(case)]
                .into_iter()
                .chain(numbers.map(|value| amount(value, unit)))
                .chain(ratios.map(ratio_text)));
        }
    }
    table
}

/// What has one value: memory, CPU, counts, sizes. Of rounds and samples the median.
pub(crate) fn costs_table(data: &Data) -> String {
    let mut table = heading(&["figure", "pods", "rubelet", "upstream", "ratio"], 2);
    for (figure, name) in figures(data).into_iter().filter(|(figure, _)| !SPREAD.contains(figure)) {
        let unit = data.unit(figure);
        for case in data.cases(figure) {
            // Of hold-ups the longest counts: each round has a few, most of them of a short life.
            let one = |agent: &str| match figure {
                "hold-up" => data.worst(agent, figure, case),
                _ => data.p50(agent, figure, case),
            };
            let rubelet = one(RUBELET).or_else(|| one(FAKE));
            let upstream = one(UPSTREAM);
            table += &row([
                name.to_owned(),
                case_text(case),
                amount(rubelet, unit),
                amount(upstream, unit),
                ratio_text(ratio(rubelet, upstream)),
            ]);
        }
    }
    table
}

/// Whence the figures come: the command, versions, machine, date, and what was thrown away.
pub(crate) fn origin(data: &Data) -> String {
    let meta = &data.meta;
    let parts = [
        ("rubelet ", &meta.rubelet),
        ("upstream's kubelet ", &meta.kubernetes),
        ("containerd ", &meta.containerd),
        ("runc ", &meta.runc),
    ];
    let known = |value: &str| if value.is_empty() { UNKNOWN.to_owned() } else { value.to_owned() };
    let versions: Vec<String> = parts.iter().map(|(name, value)| format!("{name}{}", known(value))).collect();
    let rounds = match meta.rounds {
        1 => "one round each".to_owned(),
        rounds => format!("{rounds} rounds each, in turn"),
    };
    let mut text =
        format!("`{}`, {}; {rounds}. {}. The machine: {}.", meta.command, meta.date, versions.join(", "), meta.machine);
    if meta.quick {
        text += " This is the short form: fewer pods and repetitions, so the figures are rougher.";
    }
    text += "\n";
    for note in &meta.notes {
        text += &format!("\n- {note}");
    }
    if !meta.notes.is_empty() {
        text += "\n";
    }
    text
}
