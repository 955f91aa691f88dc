//! Metrics of the calls to the runtime: `kubelet_runtime_operations_…` by operation (CRI-04), and `kubelet_run_podsandbox_…`
//! by runtime handler.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_engine::metrics::{Counter, Histogram, Scale, USUAL, counted, label, observed};

macro_rules! operations {
    ($($variant:ident = $name:literal,)*) => {
        /// A call of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Operation { $($variant,)* }

        impl Operation {
            const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The value of `operation_type`. upstream: kuberuntime/instrumented_services.go (v1.36)
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

operations! {
    Version = "version",
    Status = "status",
    RuntimeConfig = "runtime_config",
    UpdateRuntimeConfig = "update_runtime_config",
    GetContainerEvents = "get_container_events",
    RunPodSandbox = "run_podsandbox",
    StopPodSandbox = "stop_podsandbox",
    RemovePodSandbox = "remove_podsandbox",
    PodSandboxStatus = "podsandbox_status",
    ListPodSandbox = "list_podsandbox",
    CreateContainer = "create_container",
    StartContainer = "start_container",
    StopContainer = "stop_container",
    RemoveContainer = "remove_container",
    ListContainers = "list_containers",
    ContainerStatus = "container_status",
    UpdateContainer = "update_container",
    UpdatePodsandboxResources = "update_podsandbox_resources",
    ReopenContainerLog = "reopen_container_log",
    ExecSync = "exec_sync",
    Exec = "exec",
    Attach = "attach",
    PortForward = "port_forward",
    ListImages = "list_images",
    ImageStatus = "image_status",
    PullImage = "pull_image",
    RemoveImage = "remove_image",
    ImageFsInfo = "image_fs_info",
}

impl Operation {
    /// The call changes the runtime's state, so that interrupting it halfway matters.
    pub(crate) const fn is_mutating(self) -> bool {
        match self {
            Self::UpdateRuntimeConfig
            | Self::RunPodSandbox
            | Self::StopPodSandbox
            | Self::RemovePodSandbox
            | Self::CreateContainer
            | Self::StartContainer
            | Self::StopContainer
            | Self::RemoveContainer
            | Self::UpdateContainer
            | Self::UpdatePodsandboxResources
            | Self::ReopenContainerLog
            | Self::PullImage
            | Self::RemoveImage => true,
            // A command in a container ends with the agent that waits for its result: the next agent runs it again.
            Self::ExecSync
            | Self::Exec
            | Self::Attach
            | Self::PortForward
            | Self::Version
            | Self::Status
            | Self::RuntimeConfig
            | Self::GetContainerEvents
            | Self::PodSandboxStatus
            | Self::ListPodSandbox
            | Self::ListContainers
            | Self::ContainerStatus
            | Self::ListImages
            | Self::ImageStatus
            | Self::ImageFsInfo => false,
        }
    }
}

/// Upper bounds of how long a call takes: 14 of them, from 5 ms on by a factor of 2.5.
/// upstream: metrics.go RuntimeOperationsDuration (v1.36)
static CALL: Scale = Scale::seconds(&[
    5_000,
    12_500,
    31_250,
    78_125,
    195_313,
    488_281,
    1_220_703,
    3_051_758,
    7_629_395,
    19_073_486,
    47_683_716,
    119_209_290,
    298_023_224,
    745_058_060,
])
.written(&BOUNDS);
/// The bounds in seconds, to the last digit as upstream writes them.
static BOUNDS: [&str; 14] = [
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

/// Runtime handlers with series of their own. A cluster has a few.
const MOST_HANDLERS: usize = 32;
/// Where the others are counted.
const OTHER_HANDLERS: &str = "other";

/// Counts since start. One value serves both the runtime and its images.
#[derive(Debug)]
pub struct OperationMetrics {
    operations: [Calls; Operation::ALL.len()],
    /// By runtime handler.
    sandboxes: Mutex<BTreeMap<String, Calls>>,
}

#[derive(Debug)]
struct Calls {
    took: Histogram,
    total: Counter,
    errors: Counter,
}

impl Calls {
    fn new(scale: &'static Scale) -> Self {
        Self { took: Histogram::new(scale), total: Counter::default(), errors: Counter::default() }
    }

    fn record(&self, took: Duration, failed: bool) {
        self.took.took(took);
        self.total.add();
        if failed {
            self.errors.add();
        }
    }
}

impl Default for OperationMetrics {
    fn default() -> Self {
        Self { operations: std::array::from_fn(|_| Calls::new(&CALL)), sandboxes: Mutex::default() }
    }
}

/// The numbers of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCounts {
    /// The value of `operation_type`.
    pub operation: &'static str,
    /// Finished calls.
    pub total: u64,
    /// Failed calls, including "not found" from a stop or a removal.
    pub errors: u64,
}

impl OperationMetrics {
    /// Every operation that has been called at least once.
    pub fn snapshot(&self) -> Vec<OperationCounts> {
        let counts = |(operation, calls): (&Operation, &Calls)| {
            let (total, errors) = (calls.total.get(), calls.errors.get());
            OperationCounts { operation: operation.as_str(), total, errors }
        };
        Operation::ALL.iter().zip(&self.operations).map(counts).filter(|counts| counts.total > 0).collect()
    }

    /// Writes the metrics in Prometheus' text format. A series appears with its first call.
    pub fn write(&self, out: &mut String) {
        let calls = || Operation::ALL.iter().map(|of| label("operation_type", of.as_str())).zip(&self.operations);
        let name = "kubelet_runtime_operations_duration_seconds";
        let took = calls().map(|(labels, calls)| (labels, &calls.took));
        observed(out, name, "How long calls to the runtime took, in seconds.", took);
        let errors = calls().map(|(labels, calls)| (labels, calls.errors.get()));
        counted(out, "kubelet_runtime_operations_errors_total", "Calls to the runtime that failed.", errors);
        let total = calls().map(|(labels, calls)| (labels, calls.total.get()));
        counted(out, "kubelet_runtime_operations_total", "Calls to the runtime.", total);

        let sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let sandboxes = || sandboxes.iter().map(|(handler, calls)| (label("runtime_handler", handler), calls));
        let name = "kubelet_run_podsandbox_duration_seconds";
        let took = sandboxes().map(|(labels, calls)| (labels, &calls.took));
        observed(out, name, "How long the runtime took to make a sandbox, in seconds.", took);
        let errors = sandboxes().map(|(labels, calls)| (labels, calls.errors.get()));
        counted(out, "kubelet_run_podsandbox_errors_total", "Sandboxes that the runtime could not make.", errors);
    }

    pub(crate) fn record(&self, operation: Operation, took: Duration, failed: bool) {
        let Some(calls) = self.operations.get(operation as usize) else { return };
        let micros = took.as_micros();
        // In a separate line from the request's body, so that `--vmodule=metrics=6` logs durations alone.
        tracing::trace!(operation = operation.as_str(), micros, failed, "The runtime answered");
        calls.record(took, failed);
    }

    /// A sandbox was made with this runtime handler, or could not be.
    pub(crate) fn record_sandbox(&self, handler: &str, took: Duration, failed: bool) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        let full = sandboxes.len() >= MOST_HANDLERS && !sandboxes.contains_key(handler);
        let handler = if full { OTHER_HANDLERS } else { handler };
        let calls = match sandboxes.get(handler) {
            Some(calls) => calls,
            None => sandboxes.entry(handler.to_owned()).or_insert_with(|| Calls::new(&USUAL)),
        };
        calls.record(took, failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(metrics: &OperationMetrics) -> String {
        let mut page = String::new();
        metrics.write(&mut page);
        page
    }

    fn assert_has(page: &str, lines: &[&str]) {
        for line in lines {
            assert!(page.lines().any(|found| found == *line), "{line} in\n{page}");
        }
    }

    #[test]
    fn cri_04_an_operation_is_counted_under_upstreams_name_in_the_right_bucket() {
        let metrics = OperationMetrics::default();
        metrics.record(Operation::RunPodSandbox, Duration::from_micros(5_000), false);
        metrics.record(Operation::RunPodSandbox, Duration::from_micros(5_001), true);
        metrics.record(Operation::ImageFsInfo, Duration::from_secs(3600), false);
        let seen: Vec<_> = metrics.snapshot().into_iter().map(|c| (c.operation, c.total, c.errors)).collect();
        assert_eq!(seen, [("run_podsandbox", 2, 1), ("image_fs_info", 1, 0)]);
        let page = page(&metrics);
        let lines = [
            r#"kubelet_runtime_operations_total{operation_type="run_podsandbox"} 2"#,
            r#"kubelet_runtime_operations_total{operation_type="image_fs_info"} 1"#,
            r#"kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.005"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.0125"} 2"#,
            r#"kubelet_runtime_operations_duration_seconds_sum{operation_type="run_podsandbox"} 0.010001"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="image_fs_info",le="745.0580596923828"} 0"#,
            r#"kubelet_runtime_operations_duration_seconds_count{operation_type="image_fs_info"} 1"#,
        ];
        assert_has(&page, &lines);
        let errors = "kubelet_runtime_operations_errors_total{operation_type=\"image_fs_info\"}";
        assert!(!page.contains(errors), "a call that never failed has no line");
    }

    #[test]
    fn cri_04_bounds_are_upstreams() {
        for (text, micros) in BOUNDS.into_iter().zip(CALL.bounds) {
            let seconds: f64 = text.parse().expect("a number");
            assert!((seconds - Duration::from_micros(*micros).as_secs_f64()).abs() <= 0.000_001, "{text} {micros}");
        }
        assert_eq!(BOUNDS.len(), CALL.bounds.len());
    }

    #[test]
    fn a_runtime_that_was_never_called_has_no_metrics() {
        assert_eq!(page(&OperationMetrics::default()), "");
    }

    #[test]
    fn sandboxes_are_counted_by_handler_and_handlers_are_bounded() {
        let metrics = OperationMetrics::default();
        metrics.record_sandbox("", Duration::from_secs(1), false);
        metrics.record_sandbox("gvisor", Duration::from_secs(2), true);
        assert_has(
            &page(&metrics),
            &[
                r#"kubelet_run_podsandbox_duration_seconds_sum{runtime_handler=""} 1"#,
                r#"kubelet_run_podsandbox_duration_seconds_count{runtime_handler="gvisor"} 1"#,
                r#"kubelet_run_podsandbox_errors_total{runtime_handler="gvisor"} 1"#,
            ],
        );
        for n in 0..2 * MOST_HANDLERS {
            metrics.record_sandbox(&format!("h{n}"), Duration::ZERO, true);
        }
        let page = page(&metrics);
        let series = page.lines().filter(|line| line.starts_with("kubelet_run_podsandbox_errors_total{"));
        assert_eq!(series.count(), MOST_HANDLERS, "{page}");
        assert!(page.contains(r#"kubelet_run_podsandbox_errors_total{runtime_handler="other"}"#), "{page}");
    }
}
