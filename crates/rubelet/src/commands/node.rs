//! `rubelet explain node`: what the node has, what is kept from pods, requested and used, how far each eviction threshold
//! is, and what holds the disk.

#[cfg(test)]
mod tests;

use rubelet_server::documents::{
    DiskUseDocument, NodeStory, ResourceDocument, ThresholdDocument, ThresholdState, Unit,
};
use rubelet_server::local::Client;

use super::human::{bytes, clean, cpu, share};
use super::style::{Style, Tone};
use super::{Document, Report, json};
use crate::flags::{Output, Query};

pub(super) async fn run(query: &Query, style: Style) -> Result<Report, String> {
    let story = Client::new(&query.socket).node().await.map_err(|err| err.to_string())?;
    let text = match query.output {
        Output::Json => json(&Document::new("Node", &story))?,
        Output::Table => render(&story, style),
    };
    Ok(Report { text, ..Report::default() })
}

fn render(story: &NodeStory, style: Style) -> String {
    let mut text = format!("Node {}, {}\n", clean(&story.node), clean(&story.kubelet_version));
    if let Some(problem) = &story.usage_problem {
        text += &format!("{}\n", style.paint(Tone::Doubtful, &clean(problem)));
    }
    let headings = ["RESOURCE", "CAPACITY", "RESERVED", "ALLOCATABLE", "REQUESTED", "USED"].map(str::to_owned);
    text += &section("Resources", headings, story.resources.iter().map(resource).collect(), style);
    if !story.thresholds.is_empty() {
        let headings = ["SIGNAL", "EVICTS BELOW", "AVAILABLE", "LEFT", "TREND", "STATE"].map(str::to_owned);
        text += &section("Eviction thresholds", headings, story.thresholds.iter().map(threshold).collect(), style);
    }
    if !story.disks.is_empty() {
        let headings = ["DISK", "SIZE", "USED", "AVAILABLE", "FREE INODES"].map(str::to_owned);
        let row = |disk: &rubelet_server::documents::DiskDocument| {
            let size = |number: u64| bytes(whole(number));
            let inodes = match disk.inodes {
                0 => "-".to_owned(),
                all => share(whole(disk.inodes_free), whole(all)),
            };
            (Tone::Good, [clean(&disk.name), size(disk.capacity), size(disk.used), size(disk.available), inodes])
        };
        text += &section("File systems", headings, story.disks.iter().map(row).collect(), style);
    }
    if let Some(disk) = &story.disk_use {
        text += &disk_use(disk, style);
    }
    text
}

fn resource(resource: &ResourceDocument) -> (Tone, [String; 6]) {
    let show = |number: i64| amount(number, resource.unit);
    let part = |number: i64| match resource.allocatable {
        0 => show(number),
        all => format!("{} ({})", show(number), share(number, all)),
    };
    let used = resource.used.map_or_else(
        || "-".to_owned(),
        |used| match resource.capacity {
            0 => show(used),
            all => format!("{} ({})", show(used), share(used, all)),
        },
    );
    let row = [
        clean(&resource.name),
        show(resource.capacity),
        show(resource.reserved),
        show(resource.allocatable),
        part(resource.requested),
        used,
    ];
    (Tone::Good, row)
}

fn threshold(threshold: &ThresholdDocument) -> (Tone, [String; 6]) {
    let show = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| amount(whole(n), threshold.unit));
    let limit = match threshold.threshold {
        Some(_) if threshold.configured.ends_with('%') => {
            format!("{} ({})", show(threshold.threshold), clean(&threshold.configured))
        }
        Some(_) => show(threshold.threshold),
        None => clean(&threshold.configured),
    };
    let soft = match (threshold.hard, &threshold.grace) {
        (true, _) => String::new(),
        (false, Some(grace)) => format!(" for {}", clean(grace)),
        (false, None) => " (soft)".to_owned(),
    };
    let left = threshold.available.zip(threshold.threshold).map(|(has, limit)| has.saturating_sub(limit));
    let (tone, state) = match threshold.state {
        ThresholdState::Far => (Tone::Good, "far"),
        ThresholdState::Near => (Tone::Doubtful, "near"),
        ThresholdState::Crossed => (Tone::Bad, "crossed"),
        ThresholdState::Unknown => (Tone::Faint, "not measured"),
    };
    let available = show(threshold.available);
    (tone, [clean(&threshold.signal), limit + &soft, available, show(left), trend(threshold), state.to_owned()])
}

/// Changes of less than a thousandth of the whole in a minute are noise.
fn trend(threshold: &ThresholdDocument) -> String {
    let Some((taken, capacity)) = threshold.taken_per_minute.zip(threshold.capacity) else { return "-".to_owned() };
    let size = amount(whole(taken.unsigned_abs()), threshold.unit);
    match taken {
        _ if taken.unsigned_abs() <= capacity / 1000 => "steady".to_owned(),
        1.. => format!("-{size}/min"),
        _ => format!("+{size}/min"),
    }
}

fn disk_use(disk: &DiskUseDocument, style: Style) -> String {
    let optional = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| bytes(whole(n)));
    let sums = [
        ("images", optional(disk.images)),
        ("writable layers", optional(disk.layers)),
        ("volumes", bytes(whole(disk.volumes))),
        ("logs", bytes(whole(disk.logs))),
        ("other files of pods", bytes(whole(disk.own_files))),
    ];
    let rows = sums.map(|(name, size)| (Tone::Good, [name.to_owned(), size])).into();
    let mut text = section("What holds the disk", ["WHAT", "SIZE"].map(str::to_owned), rows, style);
    if !disk.pods.is_empty() {
        let headings = ["POD", "ALL", "LAYERS", "VOLUMES", "LOGS"].map(str::to_owned);
        let row = |pod: &rubelet_server::documents::PodDiskDocument| {
            let [all, layers, volumes, logs] = [pod.total, pod.layers, pod.volumes, pod.logs].map(|n| bytes(whole(n)));
            (Tone::Good, [clean(&format!("{}/{}", pod.namespace, pod.name)), all, layers, volumes, logs])
        };
        text += &section("Pods that hold most", headings, disk.pods.iter().map(row).collect(), style);
    }
    text
}

/// A heading and a table below it; the first column begins at the left, the others end at the right.
fn section<const N: usize>(title: &str, headings: [String; N], rows: Vec<(Tone, [String; N])>, style: Style) -> String {
    let rows: Vec<_> = std::iter::once((Tone::Faint, headings)).chain(rows).collect();
    let mut widths = [0; N];
    for (_, row) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, title));
    for (tone, row) in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
        text += &match tone {
            Tone::Good => line,
            tone => style.paint(tone, &line),
        };
        text.push('\n');
    }
    text
}

fn amount(number: i64, unit: Unit) -> String {
    match unit {
        Unit::Millicores => cpu(number),
        Unit::Bytes => bytes(number),
        Unit::Count => number.to_string(),
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
