//! `rubelet status`: the state of the running agent.

#[cfg(test)]
mod tests;

use rubelet_server::documents::{
    ApiServerDocument, CertificateDocument, ConditionDocument, PodCounts, StatusDocument, StatusRuntimeDocument,
};
use rubelet_server::local::Client;

use super::human::{age, clean, hang};
use super::style::{Style, Tone};
use super::{Document, Report, json};
use crate::flags::{Output, Query};

/// Where values begin, after their names.
const INDENT: usize = 14;
/// A certificate with fewer days left is marked.
const FEW_DAYS: i64 = 7;

pub(super) async fn run(query: &Query, style: Style) -> Result<Report, String> {
    let status = Client::new(&query.socket).status().await.map_err(|err| err.to_string())?;
    let text = match query.output {
        Output::Json => json(&Document::new("Status", &status))?,
        Output::Table => render(&status, style),
    };
    Ok(Report { text, ..Report::default() })
}

fn render(status: &StatusDocument, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.field("Node", Tone::Good, &status.node);
    page.text.pop();
    page.text += &format!(", {}, running for {}\n", clean(&status.kubelet_version), age(status.uptime_seconds));
    if status.shutting_down {
        page.field("Shutdown", Tone::Doubtful, "the machine is going down: pods are ended, and none is started");
    }
    match &status.api_server {
        Some(server) => api_server(&mut page, server),
        None => page.field("API server", Tone::Faint, "none: a standalone node"),
    }
    runtime(&mut page, &status.runtime);
    pods(&mut page, status);
    for certificate in &status.certificates {
        one_certificate(&mut page, certificate);
    }
    if !status.conditions.is_empty() {
        page.text += &format!("\n{}\n", style.paint(Tone::Strong, "Conditions"));
        let width = status.conditions.iter().map(|condition| condition.kind.chars().count()).max().unwrap_or_default();
        for condition in &status.conditions {
            page.text += &of_condition(condition, width, style);
        }
    }
    page.text
}

/// The lines of the output so far.
struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn field(&mut self, name: &str, tone: Tone, value: &str) {
        let name = self.style.paint(Tone::Faint, &format!("{name:INDENT$}"));
        let value = hang(value, INDENT);
        // Good news needs no colour.
        let value = if matches!(tone, Tone::Good | Tone::Faint) { value } else { self.style.paint(tone, &value) };
        self.text += &format!("{name}{value}\n");
    }
}

fn api_server(page: &mut Page, server: &ApiServerDocument) {
    let since = server.since_seconds.map(|seconds| format!(" for {}", age(seconds))).unwrap_or_default();
    let (tone, state) = match server.reachable {
        Some(true) => (Tone::Good, format!("reachable{since}")),
        Some(false) => (Tone::Bad, format!("unreachable{since}")),
        None => (Tone::Doubtful, "not asked yet".to_owned()),
    };
    page.field("API server", tone, &format!("{}, {state}", server.url));
    if let Some(problem) = &server.problem {
        page.field("", Tone::Bad, problem);
    }
    match server.lease_renewed_seconds_ago {
        Some(seconds) => page.field("Lease", Tone::Good, &format!("renewed {} ago", age(seconds))),
        None => page.field("Lease", Tone::Doubtful, "not renewed since the start"),
    }
    match server.unsent_status_writes {
        0 => page.field("Status writes", Tone::Good, "all sent"),
        count => page.field("Status writes", Tone::Doubtful, &format!("{count} not sent yet")),
    }
}

fn runtime(page: &mut Page, runtime: &StatusRuntimeDocument) {
    let name = format!("{} {} at {}", runtime.name, runtime.version, runtime.endpoint);
    if runtime.up {
        page.field("Runtime", Tone::Good, &format!("{name}, answers"));
    } else {
        page.field("Runtime", Tone::Bad, &format!("{name}, does not answer"));
    }
    for problem in [&runtime.problem, &runtime.network_problem].into_iter().flatten() {
        page.field("", Tone::Bad, problem);
    }
    page.field("Cgroup driver", Tone::Good, &runtime.cgroup_driver);
}

fn pods(page: &mut Page, status: &StatusDocument) {
    let PodCounts { running, waiting, terminating, ended, rejected, invalid } = status.pods;
    let always = [(running, "running"), (waiting, "waiting")].map(|(count, word)| format!("{count} {word}"));
    let some = [(terminating, "terminating"), (ended, "ended"), (rejected, "rejected"), (invalid, "invalid")];
    let some = some.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let line = always.into_iter().chain(some).collect::<Vec<_>>().join(", ");
    page.field("Pods", if rejected + invalid > 0 { Tone::Doubtful } else { Tone::Good }, &line);
    if !status.unread_sources.is_empty() {
        page.field("", Tone::Doubtful, &format!("not read yet: {}", status.unread_sources.join(", ")));
    }
    if status.job_panics > 0 {
        page.field("", Tone::Bad, &format!("internal errors since the start: {}; see the log", status.job_panics));
    }
}

fn one_certificate(page: &mut Page, certificate: &CertificateDocument) {
    let name = match certificate.purpose.as_str() {
        "client" => "Client cert",
        _ => "Serving cert",
    };
    let day = |at: &jiff::Timestamp| at.strftime("%Y-%m-%d").to_string();
    let (tone, end) = match certificate.days_left {
        days if days < 0 => (Tone::Bad, format!("expired on {}", day(&certificate.not_after))),
        days if days < FEW_DAYS => {
            (Tone::Doubtful, format!("expires on {}, in {days} days", day(&certificate.not_after)))
        }
        days => (Tone::Good, format!("expires on {}, in {days} days", day(&certificate.not_after))),
    };
    let rotation = certificate.next_rotation.as_ref().map(|at| format!(", rotated on {}", day(at)));
    let rotation = rotation.unwrap_or_else(|| ", not rotated by rubelet".to_owned());
    page.field(name, tone, &format!("{}, {end}{rotation}", certificate.subject));
}

fn of_condition(condition: &ConditionDocument, width: usize, style: Style) -> String {
    let good = (condition.status == "True") == (condition.kind == "Ready") && condition.status != "Unknown";
    let status = style.paint(if good { Tone::Good } else { Tone::Bad }, &format!("{:7}", clean(&condition.status)));
    let message = hang(&condition.message, width + 13);
    format!("  {:width$}  {status}  {}: {message}\n", clean(&condition.kind), clean(&condition.reason))
}
