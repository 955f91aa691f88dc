//! `rubelet check`: is this machine fit to be a node?
//!
//! `linux::preflight` checks the host; this module checks the configuration and the container runtime, and prints all
//! findings. It changes nothing, and needs no running rubelet.

mod runtime;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rubelet_core::config::{CgroupVersion, KubeletConfiguration, MISSING, Missing, When};
use rubelet_engine::chain::Chain;
use rubelet_linux::cgroups::Layout;
use rubelet_linux::preflight::{Finding, Grade, HostCheck, check_host};
use serde::Serialize;

use super::human::hang;
use super::style::{Style, Tone};
use super::{Report, json};
use crate::config_load::load;
use crate::flags::{Output, RunOptions};

/// A finding as `-o json` prints it.
#[derive(Serialize)]
struct FindingDocument<'a> {
    name: &'a str,
    grade: &'static str,
    what: &'a str,
    mend: &'a str,
}

pub(super) async fn run(options: &RunOptions, output: Output, style: Style) -> Result<Report, String> {
    let (configuration, config) = configuration(options);
    let mut findings = vec![configuration];
    findings.extend(check_host(request(options, &config)).await);
    findings.extend(runtime::findings(&config).await);
    findings.push(not_yet());
    let failed = findings.iter().any(|finding| finding.grade == Grade::Fail);
    let text = match output {
        Output::Table => render(&findings, style),
        Output::Json => json(&findings.iter().map(document).collect::<Vec<_>>())?,
    };
    Ok(Report { text, notes: Vec::new(), failed })
}

/// The host's cgroup version, which the validation of a configuration depends on. If unknown, v2 is assumed.
pub(super) fn cgroup_version() -> CgroupVersion {
    Layout::discover(Path::new("/proc")).map_or(CgroupVersion::V2, |layout| layout.version())
}

/// The configuration in effect. If it cannot be loaded, the other checks use flags and defaults alone.
fn configuration(options: &RunOptions) -> (Finding, KubeletConfiguration) {
    let name = "configuration".to_owned();
    // A forbidden cgroup version of the host is reported as a separate finding, not as an error of the configuration.
    let loaded = load(options, cgroup_version()).or_else(|err| match load(options, CgroupVersion::V2) {
        Ok(loaded) if loaded.config.fail_cgroup_v1 => Ok(loaded),
        Ok(_) | Err(_) => Err(err),
    });
    match loaded {
        Ok(loaded) if !loaded.tolerated.is_empty() => {
            let mend = "fix or remove these: the node starts, but ignores them";
            let what = loaded.tolerated.join("\n");
            (Finding { name, grade: Grade::Fail, what, mend: mend.to_owned() }, loaded.config)
        }
        Ok(loaded) if loaded.warnings.is_empty() => {
            let what = match loaded.flags.config.as_str() {
                "" => "flags and defaults".to_owned(),
                path => path.to_owned(),
            };
            (Finding { name, grade: Grade::Ok, what, mend: String::new() }, loaded.config)
        }
        Ok(loaded) => {
            let (what, mend) =
                (loaded.warnings.join("\n"), "change these settings, or accept that they have no effect".to_owned());
            (Finding { name, grade: Grade::Warn, what, mend }, loaded.config)
        }
        Err(err) => {
            let what = Chain(&err).to_string();
            let mend = "fix this first; the checks below use flags and defaults alone".to_owned();
            (Finding { name, grade: Grade::Fail, what, mend }, options.config.clone())
        }
    }
}

/// Capabilities of upstream's kubelet that rubelet lacks.
fn not_yet() -> Finding {
    let line = |missing: &Missing| {
        let fields = missing.fields.first().map(|field| format!(" ({field})")).unwrap_or_default();
        let asked = match missing.when {
            When::ByDefault => "",
            When::Asked => "only if configured: ",
        };
        format!("{asked}{}{fields}: {}", missing.what, missing.instead)
    };
    let what: Vec<String> = MISSING.iter().map(line).collect();
    Finding {
        name: "not-yet".to_owned(),
        grade: Grade::Warn,
        what: what.join("\n"),
        mend: "keep pods that need one of these off this node; leave the fields out of the configuration".to_owned(),
    }
}

fn request(options: &RunOptions, config: &KubeletConfiguration) -> HostCheck {
    HostCheck {
        root: PathBuf::from(&options.flags.root_dir),
        pod_logs: Path::new(&config.pod_logs_dir).to_owned(),
        listen: listens(config),
        hostname_override: options.flags.hostname_override.clone(),
        fail_swap_on: config.fail_swap_on,
        fail_cgroup_v1: config.fail_cgroup_v1,
        protect_kernel_defaults: config.protect_kernel_defaults,
        files: Default::default(),
    }
}

/// Every address that a run listens on. A port of 0 is off; an invalid address was reported with the configuration.
fn listens(config: &KubeletConfiguration) -> Vec<(String, SocketAddr)> {
    let ports = [
        ("healthzPort", &config.healthz_bind_address, config.healthz_port),
        ("port", &config.address, config.port),
        ("readOnlyPort", &config.address, config.read_only_port),
    ];
    ports
        .into_iter()
        .filter_map(|(field, address, port)| {
            let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
            let address = address.parse::<IpAddr>().ok()?;
            Some((field.to_owned(), SocketAddr::new(address, port)))
        })
        .collect()
}

fn tone(grade: Grade) -> Tone {
    match grade {
        Grade::Ok => Tone::Good,
        Grade::Warn => Tone::Doubtful,
        Grade::Fail => Tone::Bad,
    }
}

fn document(finding: &Finding) -> FindingDocument<'_> {
    let grade = match finding.grade {
        Grade::Ok => "ok",
        Grade::Warn => "warn",
        Grade::Fail => "fail",
    };
    FindingDocument { name: &finding.name, grade, what: &finding.what, mend: &finding.mend }
}

fn render(findings: &[Finding], style: Style) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or_default();
    let indent = style.sign(Tone::Good).chars().count() + 1 + width + 2;
    let mut text = String::new();
    for finding in findings {
        let tone = tone(finding.grade);
        let sign = style.paint(tone, style.sign(tone));
        text += &format!("{sign} {:width$}  {}\n", finding.name, hang(&finding.what, indent));
        if !finding.mend.is_empty() {
            let mend = format!("fix: {}", hang(&finding.mend, indent));
            text += &format!("{:indent$}{}\n", "", style.paint(Tone::Strong, &mend));
        }
    }
    let count = |grade: Grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let warnings = plural(count(Grade::Warn), "warning");
    text += &match (count(Grade::Fail), count(Grade::Warn)) {
        (0, 0) => "\nThis machine is ready.\n".to_owned(),
        (0, _) => format!("\nThis machine is ready, with {warnings}.\n"),
        (failed, 0) => format!("\nThis machine is not ready: {} failed.\n", plural(failed, "check")),
        (failed, _) => format!("\nThis machine is not ready: {} failed, {warnings}.\n", plural(failed, "check")),
    };
    text
}
