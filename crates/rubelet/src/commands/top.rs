//! `rubelet top`: pods and containers by CPU and memory; live on a terminal, once elsewhere.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::io::IsTerminal;
use std::time::Duration;

use rubelet_linux::host::terminal;
use rubelet_server::documents::{TopDocument, TopPod, Used};
use rubelet_server::local::Client;

use super::human::{bytes, clean, cpu, share};
use super::style::{Style, Tone};
use super::{Document, Report, json, write_on};
use crate::flags::{Output, Query};

/// From one frame to the next.
const REFRESH: Duration = Duration::from_secs(2);
/// CPU in use is the difference of two looks: without an earlier one, the second comes after this.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// The alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) async fn run(query: &Query, style: Style) -> Result<Report, String> {
    let client = Client::new(&query.socket);
    let top = measured(&client).await?;
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    match query.output {
        Output::Json => Ok(Report { text: json(&Document::new("Top", &top))?, ..Report::default() }),
        Output::Table if std::io::stdout().is_terminal() && !dumb => {
            let shown = live(&client, top, style).await;
            write_on(LEAVE.as_bytes())?;
            shown.map(|()| Report::default())
        }
        Output::Table => Ok(Report { text: render(&top, style), ..Report::default() }),
    }
}

async fn measured(client: &Client) -> Result<TopDocument, String> {
    let ask = async || client.top().await.map_err(|err| err.to_string());
    let top = ask().await?;
    if top.node.cpu_nanocores.is_some() {
        return Ok(top);
    }
    tokio::time::sleep(SECOND_LOOK).await;
    ask().await
}

/// Redraws in place until Ctrl-C.
async fn live(client: &Client, mut top: TopDocument, style: Style) -> Result<(), String> {
    write_on(ENTER.as_bytes())?;
    loop {
        let size = terminal::size().unwrap_or(terminal::Size { rows: 24, columns: 80 });
        if !write_on(frame(&render(&top, style), size).as_bytes())? {
            return Ok(());
        }
        tokio::select! {
            biased;
            interrupted = tokio::signal::ctrl_c() => {
                return interrupted.map_err(|err| format!("cannot wait for Ctrl-C: {err}"));
            }
            () = tokio::time::sleep(REFRESH) => {}
        }
        top = client.top().await.map_err(|err| err.to_string())?;
    }
}

/// The lines that fit, each over what the screen had there.
fn frame(text: &str, size: terminal::Size) -> String {
    let rows = usize::from(size.rows).saturating_sub(1);
    let lines = text.lines().take(rows).map(|line| format!("{}\x1b[0m\x1b[K\n", cut(line, size.columns.into())));
    format!("\x1b[H{}\x1b[J", lines.collect::<String>())
}

/// The beginning of a line; escape sequences take no place.
fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut width, mut escape) = (String::new(), 0, false);
    for letter in line.chars() {
        escape = escape || letter == '\x1b';
        if !escape {
            width += 1;
            if width > columns {
                break;
            }
        }
        out.push(letter);
        escape = escape && letter != 'm';
    }
    out
}

fn render(top: &TopDocument, style: Style) -> String {
    let whole = |used: Option<u64>| used.map(|used| i64::try_from(used).unwrap_or(i64::MAX));
    let cores = whole(top.node.cpu_nanocores.map(|nanos| nanos / 1_000_000));
    let mut text = format!(
        "{} {}   {} {}\n\n",
        style.paint(Tone::Faint, "CPU"),
        of(cores, top.cpu_capacity_millis, cpu),
        style.paint(Tone::Faint, "memory"),
        of(whole(top.node.memory_bytes), top.memory_capacity_bytes, bytes),
    );
    if top.pods.is_empty() {
        return text + "no pod runs on this node\n";
    }
    let mut pods: Vec<&TopPod> = top.pods.iter().collect();
    pods.sort_by_key(|pod| {
        (Reverse(pod.used.cpu_nanocores), Reverse(pod.used.memory_bytes), &pod.namespace, &pod.name)
    });
    let rows: Vec<(Tone, [String; 4])> = pods.into_iter().flat_map(rows).collect();
    let headings = ["POD", "CPU", "MEMORY", "OF LIMIT"].map(str::to_owned);
    let mut widths = headings.each_ref().map(|cell| cell.chars().count());
    for (_, row) in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for (tone, [name, cpu, memory, limit]) in std::iter::once((Tone::Faint, headings)).chain(rows) {
        let [a, b, c, _] = widths;
        let line = format!("{name:a$}  {cpu:>b$}  {memory:>c$}  {limit}");
        let line = line.trim_end();
        text += &match tone {
            Tone::Good => line.to_owned(),
            tone => style.paint(tone, line),
        };
        text.push('\n');
    }
    text
}

/// A pod, and its containers if there are several.
fn rows(pod: &TopPod) -> Vec<(Tone, [String; 4])> {
    let name = match pod.namespace.as_str() {
        "default" => clean(&pod.name),
        namespace => clean(&format!("{namespace}/{}", pod.name)),
    };
    let only = match &pod.containers[..] {
        [only] => only.memory_limit_bytes,
        _ => None,
    };
    let mut rows = vec![(Tone::Good, cells(name, pod.used, only))];
    if pod.containers.len() > 1 {
        rows.extend(pod.containers.iter().map(|container| {
            let name = format!("  {}", clean(&container.name));
            (Tone::Faint, cells(name, container.used, container.memory_limit_bytes))
        }));
    }
    rows
}

fn cells(name: String, used: Used, limit: Option<u64>) -> [String; 4] {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let none = || "-".to_owned();
    let millis = used.cpu_nanocores.map(|nanos| cpu(whole(nanos / 1_000_000)));
    let of_limit = used.memory_bytes.zip(limit).map(|(used, limit)| share(whole(used), whole(limit)));
    [
        name,
        millis.unwrap_or_else(none),
        used.memory_bytes.map_or_else(none, |used| bytes(whole(used))),
        of_limit.unwrap_or_default(),
    ]
}

/// `312m of 2 cores (16%)`.
fn of(used: Option<i64>, capacity: i64, show: fn(i64) -> String) -> String {
    match used {
        Some(used) => format!("{} of {} ({})", show(used), show(capacity), share(used, capacity)),
        None => format!("not measured, of {}", show(capacity)),
    }
}
