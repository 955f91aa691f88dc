//! The metrics of adapters, for `/metrics`: adapters must not import each other, so the binary joins them. And the metrics of
//! the program itself.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use rubelet_cluster::ClusterMetrics;
use rubelet_core::certs::{InUse, Purpose};
use rubelet_core::config::FeatureGates;
use rubelet_cri::OperationMetrics;
use rubelet_engine::clock::Clock;
use rubelet_engine::metrics::{head, label, number, sample};
use rubelet_engine::ports::CgroupVersion;
use rubelet_linux::host::KernelFiles;
use rubelet_linux::host::own_usage::{OwnUsage, own_usage};
use rubelet_server::api::MetricsPage;

use crate::flags::KUBERNETES_VERSION;
use crate::logging::{DropCause, Queue};

/// Lines that are missing from the log. Upstream has no such metric: its log blocks.
pub(crate) struct LogPage(pub(crate) Arc<Queue>);

const LOG_DROPPED: &str = "rubelet_log_dropped_lines_total";

#[async_trait]
impl MetricsPage for LogPage {
    async fn write(&self, out: &mut String) {
        head(out, LOG_DROPPED, "counter", "Log lines that were not written.");
        for cause in DropCause::ALL {
            sample(out, LOG_DROPPED, &label("reason", cause.as_str()), self.0.dropped(cause));
        }
    }
}

/// Calls to the runtime (CRI-04).
pub(crate) struct RuntimePage(pub(crate) Arc<OperationMetrics>);

#[async_trait]
impl MetricsPage for RuntimePage {
    async fn write(&self, out: &mut String) {
        self.0.write(out);
    }
}

/// Certificates in use now.
pub(crate) type CertificatesNow = Arc<dyn Fn() -> Vec<InUse> + Send + Sync>;

/// Requests to the API server, credential providers, and the certificates that the cluster signs.
pub(crate) struct ClusterPage {
    pub(crate) metrics: Arc<ClusterMetrics>,
    pub(crate) certificates: CertificatesNow,
    /// Those that the cluster signs.
    pub(crate) signed: Vec<Purpose>,
    pub(crate) clock: Clock,
}

#[async_trait]
impl MetricsPage for ClusterPage {
    async fn write(&self, out: &mut String) {
        self.metrics.write(out);
        let (now, certificates) = (self.clock.wall(), (self.certificates)());
        for purpose in &self.signed {
            let used = certificates.iter().find(|used| used.purpose == *purpose);
            let left = used.map(|used| seconds_left(used.leaf.validity.not_after, now));
            self.metrics.write_certificate(*purpose, left, out);
        }
    }
}

fn seconds_left(end: Timestamp, now: Timestamp) -> i64 {
    end.as_second().saturating_sub(now.as_second())
}

/// The program: its version, its feature gates, what it uses of the machine.
pub(crate) struct ProgramPage {
    pub(crate) files: KernelFiles,
    pub(crate) gates: FeatureGates,
    pub(crate) cgroups: CgroupVersion,
}

#[async_trait]
impl MetricsPage for ProgramPage {
    async fn write(&self, out: &mut String) {
        let version = match self.cgroups {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        };
        number(out, ("kubelet_cgroup_version", "gauge"), "The version of cgroups.", version);
        let name = "kubelet_metrics_provider";
        head(
            out,
            name,
            "gauge",
            "Where the usage of containers is read: cadvisor is their cgroups, cri is the runtime.",
        );
        sample(out, name, &label("provider", "cadvisor"), 1);
        write_build(out);
        let name = "kubernetes_feature_enabled";
        head(out, name, "gauge", "Feature gates, and whether they are on.");
        for (gate, stage, on) in self.gates.all() {
            sample(out, name, &format!("name=\"{gate}\",stage=\"{}\"", stage.as_str()), u8::from(on));
        }
        if let Ok(usage) = own_usage(&self.files).await {
            write_usage(&usage, out);
        }
    }
}

/// The version of Kubernetes that this program is. Labels that are about Go name rustc, and the rubelet that it is.
fn write_build(out: &mut String) {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = [
        ("build_date", ""),
        ("compiler", "rustc"),
        ("git_commit", concat!("rubelet-", env!("CARGO_PKG_VERSION"))),
        ("git_tree_state", ""),
        ("git_version", KUBERNETES_VERSION),
        ("go_version", ""),
        ("major", major),
        ("minor", minor),
        ("platform", &format!("linux/{arch}")),
    ];
    let labels = labels.map(|(name, value)| label(name, value)).join(",");
    let name = "kubernetes_build_info";
    head(out, name, "gauge", "What this program is; always 1.");
    sample(out, name, &labels, 1);
}

fn write_usage(usage: &OwnUsage, out: &mut String) {
    // As Go writes the largest number.
    let most =
        |limit: Option<u64>| limit.map_or_else(|| "1.8446744073709552e+19".to_owned(), |limit| limit.to_string());
    let seconds = usage.cpu.as_secs_f64();
    number(out, ("process_cpu_seconds_total", "counter"), "CPU time of this process, in seconds.", seconds);
    number(out, ("process_max_fds", "gauge"), "How many files this process may open.", most(usage.open_files_max));
    let help = "Bytes that came to the network of this process by IP.";
    number(out, ("process_network_receive_bytes_total", "counter"), help, usage.received);
    let help = "Bytes that left the network of this process by IP.";
    number(out, ("process_network_transmit_bytes_total", "counter"), help, usage.sent);
    number(out, ("process_open_fds", "gauge"), "Open files of this process.", usage.open_files);
    let help = "Bytes of memory of this process.";
    number(out, ("process_resident_memory_bytes", "gauge"), help, usage.resident_memory);
    let help = "Bytes of address space of this process.";
    number(out, ("process_virtual_memory_bytes", "gauge"), help, usage.virtual_memory);
    let help = "How many of these it may have.";
    number(out, ("process_virtual_memory_max_bytes", "gauge"), help, most(usage.virtual_memory_max));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_program_shows_its_version_its_gates_and_what_it_uses() {
        let page =
            ProgramPage { files: KernelFiles::default(), gates: FeatureGates::default(), cgroups: CgroupVersion::V1 };
        let mut out = String::new();
        page.write(&mut out).await;
        for line in [
            "kubelet_cgroup_version 1",
            "kubelet_metrics_provider{provider=\"cadvisor\"} 1",
            "kubernetes_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"} 0",
            "kubernetes_feature_enabled{name=\"NodeSwap\",stage=\"\"} 1",
            "# TYPE process_cpu_seconds_total counter",
            "# TYPE process_virtual_memory_max_bytes gauge",
        ] {
            assert!(out.lines().any(|found| found == line), "{line} in\n{out}");
        }
        let build = out.lines().find(|line| line.starts_with("kubernetes_build_info{")).expect("a line");
        assert!(build.contains(r#"git_version="v1.36.4""#) && build.contains(r#"major="1",minor="36""#), "{build}");
    }

    #[test]
    fn an_expired_certificate_has_less_than_no_time_left() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!([seconds_left(at(10), at(3)), seconds_left(at(10), at(15))], [7, -5]);
    }
}
