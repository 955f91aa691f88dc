//! `rubelet check`: is this machine fit to be a node?
//!
//! `linux::preflight` checks the host; the files of this module check the configuration, the runtime, systemd, the way to the
//! API server and certificates. Each reads at its edge and judges by a function. Nothing is changed, and no running rubelet is
//! needed.

mod api_server;
mod certificates;
mod configuration;
mod containerd;
mod driver;
mod eviction;
mod network;
mod runtime;
mod systemd;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use rubelet_core::config::{CgroupVersion, KubeletConfiguration};
use rubelet_core::shutdown::ShutdownPlan;
use rubelet_engine::clock::Clock;
use rubelet_linux::cgroups::Layout;
use rubelet_linux::preflight::{Finding, Grade, HostCheck, check_host};
use serde::Serialize;

use super::human::hang;
use super::style::{Style, Tone};
use super::{Report, json};
use crate::flags::{Output, RunOptions};
use configuration::Settings;
use driver::DriverSeen;
use systemd::Systemd;

/// All findings as `-o json` prints them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckDocument<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// Whether nothing failed.
    ready: bool,
    findings: Vec<FindingDocument<'a>>,
}

/// One of them.
#[derive(Serialize)]
struct FindingDocument<'a> {
    name: &'a str,
    grade: &'static str,
    what: &'a str,
    mend: &'a str,
}

pub(super) async fn run(options: &RunOptions, output: Output, style: Style) -> Result<Report, String> {
    let findings = findings(options).await;
    let failed = findings.iter().any(|finding| finding.grade == Grade::Fail);
    let text = match output {
        Output::Table => render(&findings, style),
        Output::Json => json(&document(&findings))?,
    };
    Ok(Report { text, notes: Vec::new(), failed })
}

async fn findings(options: &RunOptions) -> Vec<Finding> {
    let (settings, mut found) = configuration::load_settings(options);
    let config = &settings.config;
    found.extend(check_host(request(options, config)).await);
    found.extend(runtime_and_systemd(options, &settings).await);
    let kubeconfig = api_server::Seen::read(&options.flags.kubeconfig);
    let bootstrap = api_server::Seen::read(&options.flags.bootstrap_kubeconfig);
    found.extend(api_server::files(&kubeconfig, &bootstrap));
    found.extend(api_server::reach(&kubeconfig, &bootstrap).await);
    let used = kubeconfig.good().map(|good| &good.kubeconfig);
    let cert_dir = Path::new(&options.flags.cert_dir);
    found.extend(certificates::findings(config, used, cert_dir, Clock::real().wall()));
    let capacity = eviction::Capacity::read(Path::new("/proc"), Path::new(&options.flags.root_dir)).await;
    found.push(eviction::finding(config, capacity));
    found.push(configuration::not_yet());
    found
}

/// The runtime, its network, its cgroup driver, and systemd as far as one of them or the configuration needs it.
async fn runtime_and_systemd(options: &RunOptions, settings: &Settings) -> Vec<Finding> {
    let config = &settings.config;
    let (runtime, mut found) = runtime::findings(config).await;
    let containerd = read_containerd(&config.container_runtime_endpoint);
    if runtime.network != Some(true) {
        found.push(network::finding(&containerd));
    }
    let seen = DriverSeen {
        configured: driver::configured(config.cgroup_driver),
        set_in: settings.given.has("cgroupDriver").then(|| place(options)),
        runtime: runtime.driver,
        containerd: containerd.driver.map(|driver| (containerd::USUAL.to_owned(), driver)),
    };
    let systemd = Systemd::look().await;
    found.push(driver::finding(&seen, &systemd));
    found.push(systemd::finding(&systemd, seen.needs_systemd()));
    if let Some(plan) = ShutdownPlan::of(config, &settings.gates) {
        found.push(systemd::shutdown(&plan).await);
    }
    found
}

/// What containerd's own configuration says, if it is containerd that is configured.
fn read_containerd(endpoint: &str) -> containerd::Containerd {
    if !endpoint.contains("containerd") {
        return containerd::Containerd::default();
    }
    std::fs::read_to_string(containerd::USUAL).map(|text| containerd::parse(&text)).unwrap_or_default()
}

/// Where a setting is to be changed.
fn place(options: &RunOptions) -> String {
    match options.flags.config.as_str() {
        "" => "the configuration".to_owned(),
        path => path.to_owned(),
    }
}

/// The host's cgroup version, which the validation of a configuration depends on. If unknown, v2 is assumed.
pub(super) fn cgroup_version() -> CgroupVersion {
    Layout::discover(Path::new("/proc")).map_or(CgroupVersion::V2, |layout| layout.version())
}

fn request(options: &RunOptions, config: &KubeletConfiguration) -> HostCheck {
    HostCheck {
        root: PathBuf::from(&options.flags.root_dir),
        pod_logs: Path::new(&config.pod_logs_dir).to_owned(),
        static_pods: Some(&config.static_pod_path).filter(|path| !path.is_empty()).map(PathBuf::from),
        listen: configuration::listens(config),
        hostname_override: options.flags.hostname_override.clone(),
        fail_swap_on: config.fail_swap_on,
        fail_cgroup_v1: config.fail_cgroup_v1,
        protect_kernel_defaults: config.protect_kernel_defaults,
        files: Default::default(),
    }
}

fn tone(grade: Grade) -> Tone {
    match grade {
        Grade::Ok => Tone::Good,
        Grade::Warn => Tone::Doubtful,
        Grade::Fail => Tone::Bad,
    }
}

fn document(findings: &[Finding]) -> CheckDocument<'_> {
    CheckDocument {
        api_version: "rubelet/v1",
        kind: "Check",
        ready: findings.iter().all(|finding| finding.grade != Grade::Fail),
        findings: findings.iter().map(finding_document).collect(),
    }
}

fn finding_document(finding: &Finding) -> FindingDocument<'_> {
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
