//! `rubelet pods`: one line per pod.

#[cfg(test)]
mod tests;

use rubelet_server::documents::{NodeDocument, PodLine, PodState};
use rubelet_server::local::Client;

use super::human::{age, clean};
use super::style::{Style, Tone};
use super::{Document, Report, json};
use crate::flags::{Output, Query};

const HEADINGS: [&str; 6] = ["POD", "STATE", "READY", "REASON", "RESTARTS", "AGE"];

pub(super) async fn run(query: &Query, namespace: Option<&str>, style: Style) -> Result<Report, String> {
    let mut node = Client::new(&query.socket).pods().await.map_err(|err| err.to_string())?;
    if let Some(namespace) = namespace {
        node.pods.retain(|pod| pod.namespace == namespace);
    }
    match query.output {
        Output::Json => Ok(Report { text: json(&Document::new("Pods", &node))?, ..Report::default() }),
        Output::Table => Ok(Report { text: table(&node.pods, style), notes: notes(&node, namespace), failed: false }),
    }
}

fn table(pods: &[PodLine], style: Style) -> String {
    if pods.is_empty() {
        return String::new();
    }
    let rows: Vec<[String; 6]> = pods.iter().map(cells).collect();
    let mut widths = HEADINGS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&HEADINGS.map(str::to_owned), &widths, |_, cell| style.paint(Tone::Faint, cell));
    for (pod, row) in pods.iter().zip(&rows) {
        text += &line(row, &widths, |column, cell| match column {
            1 => style.paint(tone(pod), cell),
            _ => cell.to_owned(),
        });
    }
    text
}

fn line(cells: &[String; 6], widths: &[usize; 6], dress: impl Fn(usize, &str) -> String) -> String {
    let dressed = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
        // Nothing follows the last column.
        let padded = if column + 1 == cells.len() { cell.clone() } else { format!("{cell:width$}") };
        dress(column, &padded)
    });
    dressed.collect::<Vec<_>>().join("  ") + "\n"
}

fn cells(pod: &PodLine) -> [String; 6] {
    // A cell is one word, so that tools can split lines.
    let word =
        |text: &str| if text.is_empty() { "-".to_owned() } else { clean(text).replace(char::is_whitespace, "_") };
    let ready = match pod.state {
        PodState::Invalid => String::new(),
        _ => format!("{}/{}", pod.ready, pod.total),
    };
    [
        word(&full_name(pod)),
        pod.state.as_str().to_owned(),
        word(&ready),
        word(pod.reason.as_deref().unwrap_or_default()),
        pod.restarts.to_string(),
        word(&pod.age_seconds.map(age).unwrap_or_default()),
    ]
}

/// The name to type for `rubelet explain`: the namespace `default` is left out.
pub(super) fn full_name(pod: &PodLine) -> String {
    match pod.namespace.as_str() {
        "" | "default" => pod.name.clone(),
        namespace => format!("{namespace}/{}", pod.name),
    }
}

pub(super) fn tone(pod: &PodLine) -> Tone {
    match pod.state {
        PodState::Running if pod.reason.is_none() && pod.ready == pod.total => Tone::Good,
        PodState::Succeeded => Tone::Good,
        PodState::Failed | PodState::Rejected | PodState::Invalid => Tone::Bad,
        PodState::Running | PodState::Waiting | PodState::Pending | PodState::Terminating | PodState::Terminated => {
            Tone::Doubtful
        }
    }
}

/// Notes that explain the table.
fn notes(node: &NodeDocument, namespace: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    if !node.runtime.up {
        let problem = node.runtime.problem.as_deref().unwrap_or("it has not answered yet");
        notes.push(format!("the container runtime is not ready, all pods wait for it: {}", clean(problem)));
    } else if let Some(problem) = &node.runtime.network_problem {
        notes.push(format!("the pod network is not ready, new pods wait for it: {}", clean(problem)));
    }
    if !node.unread_sources.is_empty() {
        notes.push(format!("not read yet, so pods may be missing here: {}", node.unread_sources.join(", ")));
    }
    if node.job_panics > 0 {
        notes.push(format!("internal errors since the start: {}; see rubelet's log", node.job_panics));
    }
    if node.pods.is_empty() && notes.is_empty() {
        let within = namespace.map(|namespace| format!(" in namespace {}", clean(namespace))).unwrap_or_default();
        notes.push(format!("no pods on this node{within}"));
    }
    let odd = node.pods.iter().find(|pod| matches!(pod.state, PodState::Invalid | PodState::Rejected));
    if let Some(pod) = odd {
        let name = clean(&full_name(pod));
        notes.push(format!("to see why {name} does not run: rubelet explain {name}"));
    }
    notes
}
