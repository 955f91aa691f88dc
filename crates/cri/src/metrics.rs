//! Metrics of the calls to the runtime, in plain atomics. The `/metrics` handler reads a [snapshot] and gives it
//! upstream's names: `kubelet_runtime_operations_total`, `kubelet_runtime_operations_errors_total` and
//! `kubelet_runtime_operations_duration_seconds`, each by `operation_type` (CRI-04).
//!
//! [snapshot]: OperationMetrics::snapshot

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    ListContainerStats = "list_container_stats",
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
            | Self::ListContainerStats
            | Self::ListImages
            | Self::ImageStatus
            | Self::ImageFsInfo => false,
        }
    }
}

/// Upper bounds of the duration buckets in microseconds: 14 of them, from 5 ms on by a factor of 2.5.
/// upstream: metrics.go RuntimeOperationsDuration (v1.36)
pub const BUCKETS_MICROS: [u64; 14] = [
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
];

/// Counts since start. One value serves both the runtime and its images.
#[derive(Debug, Default)]
pub struct OperationMetrics {
    counters: [Counters; Operation::ALL.len()],
}

#[derive(Debug, Default)]
struct Counters {
    total: AtomicU64,
    errors: AtomicU64,
    micros: AtomicU64,
    /// Not cumulative; the last bucket has no upper bound.
    buckets: [AtomicU64; BUCKETS_MICROS.len() + 1],
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
    /// Total duration.
    pub duration: Duration,
    /// Calls per bucket of [`BUCKETS_MICROS`], not cumulative; the last one has no upper bound.
    pub buckets: [u64; BUCKETS_MICROS.len() + 1],
}

impl OperationMetrics {
    /// Every operation that has been called at least once.
    pub fn snapshot(&self) -> Vec<OperationCounts> {
        Operation::ALL
            .iter()
            .zip(&self.counters)
            .map(|(operation, counters)| counters.read(operation.as_str()))
            .filter(|counts| counts.total > 0)
            .collect()
    }

    pub(crate) fn record(&self, operation: Operation, took: Duration, failed: bool) {
        let Some(counters) = self.counters.get(operation as usize) else { return };
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // In a separate line from the request's body, so that `--vmodule=metrics=6` logs durations alone.
        tracing::trace!(operation = operation.as_str(), micros, failed, "The runtime answered");
        let bucket = BUCKETS_MICROS.partition_point(|bound| *bound < micros);
        counters.total.fetch_add(1, Ordering::Relaxed);
        counters.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        counters.micros.fetch_add(micros, Ordering::Relaxed);
        if let Some(count) = counters.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counters {
    fn read(&self, operation: &'static str) -> OperationCounts {
        OperationCounts {
            operation,
            total: self.total.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            duration: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
            buckets: self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_counted_under_upstreams_name_in_the_right_bucket() {
        let metrics = OperationMetrics::default();
        metrics.record(Operation::RunPodSandbox, Duration::from_micros(5_000), false);
        metrics.record(Operation::RunPodSandbox, Duration::from_micros(5_001), true);
        metrics.record(Operation::ImageFsInfo, Duration::from_secs(3600), false);

        let seen: Vec<_> = metrics
            .snapshot()
            .into_iter()
            .map(|c| {
                (c.operation, c.total, c.errors, c.duration.as_micros(), c.buckets[0], c.buckets[1], c.buckets[14])
            })
            .collect();
        assert_eq!(seen, [("run_podsandbox", 2, 1, 10_001, 1, 1, 0), ("image_fs_info", 1, 0, 3_600_000_000, 0, 0, 1)]);
    }

    #[test]
    fn bounds_grow_by_two_and_a_half_as_upstreams_do() {
        let mut bound = 5_000.0_f64;
        for micros in BUCKETS_MICROS {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let micros = micros as f64;
            assert!((micros - bound).abs() <= 0.5, "{micros} {bound}");
            bound *= 2.5;
        }
    }
}
