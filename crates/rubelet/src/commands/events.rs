//! `rubelet events`: the recent events of the node.

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use rubelet_server::documents::{EventDocument, EventsDocument};
use rubelet_server::local::Client;

use super::human::{clean, hang};
use super::style::{Style, Tone};
use super::{Document, Report, json, write_on};
use crate::flags::{Output, Query};

/// Whether the command goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It shows what there is.
    No,
    /// It shows each new event, too.
    Yes,
}

pub(super) async fn run(
    query: &Query,
    namespace: Option<&str>,
    watch: Watch,
    style: Style,
    zone: TimeZone,
) -> Result<Report, String> {
    let client = Client::new(&query.socket);
    let mut seen = client.events(0).await.map_err(|err| err.to_string())?;
    if watch == Watch::No {
        keep(&mut seen, namespace);
        return match query.output {
            Output::Json => Ok(Report { text: json(&Document::new("Events", &seen))?, ..Report::default() }),
            Output::Table => Ok(Report { text: render(&seen, style, &zone), notes: notes(&seen), failed: false }),
        };
    }
    loop {
        let newest = seen.newest;
        keep(&mut seen, namespace);
        let text: String = match query.output {
            // One document per line, so that a program can read them as they come.
            Output::Json => seen.events.iter().map(one_line).collect::<Result<_, _>>()?,
            Output::Table => seen.events.iter().map(|event| line(event, style, &zone)).collect(),
        };
        if !write_on(text.as_bytes())? {
            return Ok(Report::default());
        }
        seen = client.next_events(newest).await.map_err(|err| err.to_string())?;
    }
}

fn keep(seen: &mut EventsDocument, namespace: Option<&str>) {
    if let Some(namespace) = namespace {
        seen.events.retain(|event| event.namespace.as_deref() == Some(namespace));
    }
}

fn one_line(event: &EventDocument) -> Result<String, String> {
    let text = serde_json::to_string(event).map_err(|err| format!("cannot print as JSON: {err}"))?;
    Ok(text + "\n")
}

fn notes(seen: &EventsDocument) -> Vec<String> {
    match (seen.events.is_empty(), seen.dropped) {
        (true, _) => vec!["no events since the start of rubelet".to_owned()],
        (false, 0) => Vec::new(),
        (false, dropped) => vec![format!("{dropped} older events are no longer kept")],
    }
}

fn render(seen: &EventsDocument, style: Style, zone: &TimeZone) -> String {
    let mut text = String::new();
    let mut day = None;
    for event in &seen.events {
        let at = event.at.to_zoned(zone.clone());
        if day != Some(at.date()) {
            day = Some(at.date());
            let heading = at.strftime("%Y-%m-%d, UTC%:z").to_string();
            text += &format!("{}\n", style.paint(Tone::Faint, &heading));
        }
        text += &line(event, style, zone);
    }
    text
}

fn line(event: &EventDocument, style: Style, zone: &TimeZone) -> String {
    let time = event.at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
    let subject = match (&event.namespace, &event.pod) {
        (Some(namespace), Some(pod)) if namespace == "default" => pod.clone(),
        (Some(namespace), Some(pod)) => format!("{namespace}/{pod}"),
        (_, _) => "node".to_owned(),
    };
    let part = event.part.as_deref().and_then(|part| part.split_once('{')?.1.strip_suffix('}'));
    let part = part.map(|name| format!(" [{}]", clean(name))).unwrap_or_default();
    let times = if event.times > 1 { format!(" ({} times)", event.times) } else { String::new() };
    let mark = if event.warning { style.paint(Tone::Doubtful, "!") } else { " ".to_owned() };
    let reason = style.paint(if event.warning { Tone::Doubtful } else { Tone::Strong }, &clean(&event.reason));
    format!("{time} {mark} {reason} {}{part}: {}{times}\n", clean(&subject), hang(&event.message, 11))
}
