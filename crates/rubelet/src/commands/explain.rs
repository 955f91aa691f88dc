//! `rubelet explain POD`: what happened to a pod, and what it waits for.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use rubelet_server::documents::{
    CallDocument, ContainerStory, EndDocument, PodState, PodStory, PullDocument, Step, WaitingDocument,
};
use rubelet_server::local::Client;

use super::human::{age, clean, hang, took};
use super::pods::tone;
use super::style::{Style, Tone};
use super::{Document, Report, json};
use crate::flags::{Output, Query};

/// Where values begin, after their names.
const INDENT: usize = 12;

pub(super) async fn run(query: &Query, pod: &str, style: Style, zone: TimeZone) -> Result<Report, String> {
    let story = Client::new(&query.socket).story(pod).await.map_err(|err| err.to_string())?;
    let text = match query.output {
        Output::Json => json(&Document::new("Pod", &story))?,
        Output::Table => render(&story, style, &zone),
    };
    Ok(Report { text, ..Report::default() })
}

// Writing to a string cannot fail, so the results of `write!` below mean nothing.
fn render(story: &PodStory, style: Style, zone: &TimeZone) -> String {
    let mut text = header(story, style);
    if !story.containers.is_empty() {
        let _ = writeln!(text, "\n{}", style.paint(Tone::Strong, "Containers"));
        for container in &story.containers {
            text += &of_container(container, style);
        }
    }
    if !story.timeline.is_empty() {
        text += &timeline(story, style, zone);
    }
    let _ = writeln!(text, "\n{}", style.paint(Tone::Strong, &outlook(story)));
    text
}

fn header(story: &PodStory, style: Style) -> String {
    let pod = &story.line;
    let mut text = String::new();
    let mut field = |name: &str, value: String| {
        let _ = writeln!(text, "{}{value}", style.paint(Tone::Faint, &format!("{name:INDENT$}")));
    };
    let plain = |value: &str| hang(value, INDENT);
    if pod.state == PodState::Invalid {
        field("Manifest", plain(&pod.name));
    } else {
        field("Pod", plain(&format!("{}/{}", pod.namespace, pod.name)));
        field("UID", plain(&pod.uid));
    }
    let mut state = style.paint(tone(pod), pod.state.as_str());
    if pod.total > 0 && pod.state == PodState::Running {
        let _ = write!(state, ", {} of {} containers ready", pod.ready, pod.total);
    }
    if let Some(seconds) = pod.age_seconds {
        let _ = write!(state, ", here for {}", age(seconds));
    }
    field("State", state);
    if let Some(seconds) = story.facts.gone_seconds {
        field("Gone", format!("from this node for {}", age(seconds)));
    }
    if let Some(stage) = &pod.stage {
        let since = story.stage_seconds.map(|s| format!(" for {}", age(s))).unwrap_or_default();
        let grace = story.grace_seconds.map(|s| format!(", with {s} s of grace")).unwrap_or_default();
        field("Stage", plain(&format!("{stage}{since}{grace}")));
    }
    match (&pod.reason, &pod.message) {
        (Some(reason), Some(message)) => field("Reason", plain(&format!("{reason}: {message}"))),
        (Some(reason), None) => field("Reason", plain(reason)),
        (None, _) => {}
    }
    let shown = pod.message.as_ref().filter(|_| pod.reason.is_some());
    if let Some(problem) = story.problem.as_ref().filter(|problem| shown != Some(problem)) {
        let tries = match story.failures {
            0 | 1 => String::new(),
            tries => format!(" ({tries} tries failed)"),
        };
        field("Problem", plain(&format!("{problem}{tries}")));
    }
    for resize in &story.resize {
        field("Resize", plain(resize));
    }
    if let Some(source) = &story.source {
        field("Source", plain(source));
    }
    if let Some(ip) = &pod.ip {
        field("Address", plain(ip));
    }
    let facts = &story.facts;
    for (name, value) in [("QoS", &facts.qos), ("Cgroup", &facts.cgroup), ("Sandbox", &facts.sandbox_id)] {
        if let Some(value) = value {
            field(name, plain(value));
        }
    }
    if !facts.finalizers.is_empty() {
        field("Finalizers", plain(&facts.finalizers.join(", ")));
    }
    for pull in &facts.pulls {
        field("Pull", plain(&of_pull(pull)));
    }
    for call in &facts.calls {
        field("Call", plain(&of_call(call)));
    }
    text
}

fn of_container(container: &ContainerStory, style: Style) -> String {
    let mut state = container.state.clone();
    if let Some(reason) = &container.reason {
        let _ = write!(state, " ({reason})");
    }
    if let Some(code) = container.exit_code {
        let _ = write!(state, ", exit code {code}");
    }
    match (container.state.as_str(), container.since_seconds) {
        ("Terminated", Some(seconds)) => {
            let _ = write!(state, ", {} ago", age(seconds));
        }
        (_, Some(seconds)) => {
            let _ = write!(state, " for {}", age(seconds));
        }
        (_, None) => {}
    }
    if container.state == "Running" {
        state += if container.ready { ", ready" } else { ", not ready" };
    }
    if container.restarts > 0 {
        let _ = write!(state, ", restarted {}", times(container.restarts));
    }
    let role = if container.role == "regular" { String::new() } else { format!(" ({})", container.role) };
    let mut text = format!("  {}{role}: {}\n", clean(&container.name), clean(&state));
    let mut detail = |line: &str| {
        let _ = writeln!(text, "    {}", style.paint(Tone::Faint, &hang(line, 4)));
    };
    detail(&format!("image {}", container.image));
    for (name, value) in [("id", &container.facts.id), ("log", &container.facts.log_path)] {
        if let Some(value) = value {
            detail(&format!("{name} {value}"));
        }
    }
    for probe in &container.facts.probes {
        detail(&format!("{} probe: {}", probe.kind, probe.settings));
        if !probe.history.is_empty() {
            detail(&format!("  {}", probe.history.join("; then ")));
        }
    }
    if let Some(message) = &container.message {
        detail(message);
    }
    if let Some(end) = &container.last_end {
        detail(&last_end(end));
    }
    for probe in &container.failing_probes {
        let times = if probe.times > 1 { format!(" {} times in a row", probe.times) } else { String::new() };
        let how = if probe.times == 0 { "could not be run" } else { "failed" };
        detail(&format!("{} probe {how}{times}; its last output: {}", probe.kind, probe.said));
    }
    if let Some(seconds) = container.next_start_in_seconds {
        detail(&format!("next try in {}", age(seconds)));
    }
    text
}

fn of_pull(pull: &PullDocument) -> String {
    match (pull.pulling_seconds, &pull.behind[..]) {
        (Some(seconds), _) => format!("{}, pulled by the runtime for {}", pull.image, age(seconds)),
        (None, []) => format!("{}, next", pull.image),
        (None, behind) => format!("{}, for {} behind {}", pull.image, age(pull.asked_seconds), behind.join(", ")),
    }
}

fn of_call(call: &CallDocument) -> String {
    let CallDocument { operation, subject, since_seconds, until_in_seconds } = call;
    format!("{operation} of {subject}, unanswered for {}, given up in {}", age(*since_seconds), age(*until_in_seconds))
}

fn last_end(end: &EndDocument) -> String {
    let when = end.seconds_ago.map(|s| format!(" {} ago", age(s))).unwrap_or_default();
    let reason = end.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
    let said = end.message.as_deref().map(|m| format!(", message: {m}")).unwrap_or_default();
    format!("last ended{when} with exit code {}{reason}{said}", end.exit_code)
}

fn timeline(story: &PodStory, style: Style, zone: &TimeZone) -> String {
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, "Timeline"));
    if story.steps_dropped > 0 {
        let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &format!("({} older steps)", story.steps_dropped)));
    }
    let mut day = None;
    for step in &story.timeline {
        let at = step.at.to_zoned(zone.clone());
        if day != Some(at.date()) {
            day = Some(at.date());
            let heading = at.strftime("%Y-%m-%d, UTC%:z").to_string();
            let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &heading));
        }
        text += &of_step(step, &at.strftime("%H:%M:%S%.3f").to_string(), style);
    }
    text
}

fn of_step(step: &Step, time: &str, style: Style) -> String {
    let mark = if step.bad { "!" } else { " " };
    let mut what = hang(&step.what, 18);
    if let Some(seconds) = step.took_seconds {
        let _ = write!(what, " ({})", took(seconds));
    }
    if step.times > 1 {
        let over = u64::try_from(step.at.duration_since(step.first).as_secs()).unwrap_or_default();
        let _ = write!(what, " ({} over {})", times(step.times), age(over));
    }
    let what = if step.bad { style.paint(Tone::Bad, &what) } else { what };
    format!("  {time}  {}  {what}\n", style.paint(Tone::Bad, mark))
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn outlook(story: &PodStory) -> String {
    if let Some(waiting) = &story.waiting {
        return of_waiting(waiting);
    }
    let pod = &story.line;
    let text = match pod.state {
        PodState::Running if pod.ready == pod.total && story.problem.is_none() => "Waiting for nothing: it is running",
        PodState::Succeeded => "Waiting for nothing: it has succeeded",
        PodState::Failed => "Waiting for nothing: it has failed and is not restarted",
        PodState::Rejected => "Waiting for nothing: it was rejected, and is admitted again only after a change",
        PodState::Invalid => "Waiting for: its manifest to be fixed",
        PodState::Terminated => "Waiting for nothing: it was terminated, and its source still has it",
        PodState::Running | PodState::Waiting | PodState::Pending | PodState::Terminating => "It is being worked on",
    };
    text.to_owned()
}

fn of_waiting(waiting: &WaitingDocument) -> String {
    let since = waiting.since_seconds.map(|s| format!(", since {}", age(s))).unwrap_or_default();
    let until = waiting.until_in_seconds.map(|s| format!(" (next try in {})", age(s))).unwrap_or_default();
    format!("Waiting for: {}{since}{until}", hang(&waiting.what, 2))
}
