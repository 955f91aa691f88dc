//! Setting volumes up and tearing them down. upstream: volume/util/metrics.go (v1.36)

use std::time::Duration;

use super::histogram::{Histogram, Scale, label, observed};

/// Upper bounds of how long an operation takes: a tenth of a second to ten minutes.
static STORAGE: Scale = Scale::seconds(&[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    15_000_000,
    25_000_000,
    50_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
]);

/// Values of the label with the plugin.
const PLUGINS: [&str; 12] = [
    "kubernetes.io/configmap",
    "kubernetes.io/csi",
    "kubernetes.io/downward-api",
    "kubernetes.io/empty-dir",
    "kubernetes.io/fc",
    "kubernetes.io/host-path",
    "kubernetes.io/image",
    "kubernetes.io/iscsi",
    "kubernetes.io/local-volume",
    "kubernetes.io/nfs",
    "kubernetes.io/projected",
    "kubernetes.io/secret",
];
const STATUSES: [&str; 2] = ["success", "fail-unknown"];

labels! {
    /// What is done to a volume.
    VolumeOperation {
        Mount = "volume_mount",
        Unmount = "volume_unmount",
    }
}

#[derive(Debug)]
pub(crate) struct VolumeMetrics {
    operations: [[[Histogram; STATUSES.len()]; VolumeOperation::ALL.len()]; PLUGINS.len()],
}

impl Default for VolumeMetrics {
    fn default() -> Self {
        let histogram = |_| Histogram::new(&STORAGE);
        let operation = |_| std::array::from_fn(histogram);
        Self { operations: std::array::from_fn(|_| std::array::from_fn(operation)) }
    }
}

impl VolumeMetrics {
    /// An operation of a plugin succeeded or failed.
    pub(crate) fn done(&self, plugin: &str, operation: VolumeOperation, succeeded: bool, took: Duration) {
        let at = PLUGINS.iter().position(|known| *known == plugin);
        let statuses = at.and_then(|at| self.operations.get(at)?.get(operation as usize));
        if let Some(histogram) = statuses.and_then(|list| list.get(usize::from(!succeeded))) {
            histogram.took(took);
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        let mut all = Vec::new();
        let mut mounts = Vec::new();
        for (plugin, operations) in PLUGINS.iter().zip(&self.operations) {
            for (operation, statuses) in VolumeOperation::ALL.iter().zip(operations) {
                for (status, histogram) in STATUSES.iter().zip(statuses) {
                    let name = operation.as_str();
                    let labels = format!(
                        "migrated=\"false\",operation_name=\"{name}\",status=\"{status}\",volume_plugin=\"{plugin}\""
                    );
                    all.push((labels, histogram));
                }
            }
            // A volume is mounted by one call, and nothing comes before it: both metrics show the same time.
            let [[mounted, _], _] = operations;
            let labels = format!("operation_name=\"overall_volume_mount\",{}", label("plugin_name", plugin));
            mounts.push((labels, mounted));
        }
        let name = "storage_operation_duration_seconds";
        observed(out, name, "How long setting volumes up and tearing them down took, in seconds.", all);
        observed(out, "volume_operation_total_seconds", "From wanting a volume to having it, in seconds.", mounts);
    }
}
