//! The metrics of adapters, for `/metrics`: adapters must not import each other, so the binary joins them.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_cri::{OperationCounts, OperationMetrics};
use rubelet_server::api::MetricsPage;

use crate::logging::{DropCause, Queue};

/// Lines that are missing from the log. Upstream has no such metric: its log blocks.
pub(crate) struct LogPage(pub(crate) Arc<Queue>);

const LOG_DROPPED: &str = "rubelet_log_dropped_lines_total";

#[async_trait]
impl MetricsPage for LogPage {
    async fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {LOG_DROPPED} Log lines that were not written.\n# TYPE {LOG_DROPPED} counter");
        for cause in DropCause::ALL {
            let _ = writeln!(out, "{LOG_DROPPED}{{reason=\"{}\"}} {}", cause.as_str(), self.0.dropped(cause));
        }
    }
}

/// Calls to the runtime (CRI-04).
pub(crate) struct RuntimePage(pub(crate) Arc<OperationMetrics>);

const TOTAL: &str = "kubelet_runtime_operations_total";
const ERRORS: &str = "kubelet_runtime_operations_errors_total";
const DURATION: &str = "kubelet_runtime_operations_duration_seconds";

/// `rubelet_cri::BUCKETS_MICROS` in seconds, to the last digit as upstream writes them.
const BOUNDS: [&str; 14] = [
    "0.005",
    "0.0125",
    "0.03125",
    "0.078125",
    "0.1953125",
    "0.48828125",
    "1.220703125",
    "3.0517578125",
    "7.62939453125",
    "19.073486328125",
    "47.6837158203125",
    "119.20928955078125",
    "298.0232238769531",
    "745.0580596923828",
];

#[async_trait]
impl MetricsPage for RuntimePage {
    async fn write(&self, out: &mut String) {
        write_calls(&self.0.snapshot(), out);
    }
}

fn write_calls(counts: &[OperationCounts], out: &mut String) {
    if counts.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {DURATION} How long calls to the runtime took, in seconds.");
    let _ = writeln!(out, "# TYPE {DURATION} histogram");
    for of in counts {
        let labels = format!("operation_type=\"{}\"", of.operation);
        let bounds = BOUNDS.into_iter().chain(["+Inf"]);
        let mut total = 0_u64;
        for (count, bound) in of.buckets.iter().zip(bounds) {
            total = total.saturating_add(*count);
            let _ = writeln!(out, "{DURATION}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(out, "{DURATION}_sum{{{labels}}} {}", of.duration.as_secs_f64());
        let _ = writeln!(out, "{DURATION}_count{{{labels}}} {total}");
    }
    if counts.iter().any(|of| of.errors > 0) {
        let _ = writeln!(out, "# HELP {ERRORS} Calls to the runtime that failed.\n# TYPE {ERRORS} counter");
    }
    for of in counts.iter().filter(|of| of.errors > 0) {
        let _ = writeln!(out, "{ERRORS}{{operation_type=\"{}\"}} {}", of.operation, of.errors);
    }
    let _ = writeln!(out, "# HELP {TOTAL} Calls to the runtime.\n# TYPE {TOTAL} counter");
    for of in counts {
        let _ = writeln!(out, "{TOTAL}{{operation_type=\"{}\"}} {}", of.operation, of.total);
    }
}

#[cfg(test)]
mod tests {
    use rubelet_cri::BUCKETS_MICROS;

    use super::*;

    #[test]
    fn cri_04_bounds_are_upstreams() {
        for (text, micros) in BOUNDS.into_iter().zip(BUCKETS_MICROS) {
            let seconds: f64 = text.parse().expect("a number");
            let exact = std::time::Duration::from_micros(micros).as_secs_f64();
            assert!((seconds - exact).abs() <= 0.000_001, "{text} {exact}");
        }
    }

    #[test]
    fn cri_04_calls_are_on_the_page_under_upstreams_names() {
        let counts = |operation, total, errors, millis, bucket: usize| {
            let mut of = OperationCounts {
                operation,
                total,
                errors,
                duration: std::time::Duration::from_millis(millis),
                buckets: [0; BUCKETS_MICROS.len() + 1],
            };
            of.buckets[bucket] = total;
            of
        };
        let mut page = String::new();
        write_calls(&[counts("run_podsandbox", 2, 1, 40, 2), counts("pull_image", 1, 0, 2000, 7)], &mut page);
        for line in [
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 2",
            "kubelet_runtime_operations_total{operation_type=\"pull_image\"} 1",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"run_podsandbox\",le=\"0.0125\"} 0",
            "kubelet_runtime_operations_duration_seconds_bucket{operation_type=\"run_podsandbox\",le=\"0.03125\"} 2",
            "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"run_podsandbox\"} 0.04",
            "kubelet_runtime_operations_duration_seconds_count{operation_type=\"pull_image\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
        let errors = "kubelet_runtime_operations_errors_total{operation_type=\"pull_image\"}";
        assert!(!page.contains(errors), "a call that never failed has no line");
    }

    #[tokio::test]
    async fn a_runtime_that_was_never_called_has_no_metrics() {
        let mut page = String::new();
        RuntimePage(Arc::default()).write(&mut page).await;
        assert_eq!(page, "");
    }
}
