//! Resource quantities, and the sums of a pod's requests and limits.
//!
//! The API writes quantities as text (`100m`, `1.5Gi`, `2e3`). `Amount` is that number, exact; lists of them add up by
//! the rules that the scheduler uses too, so that both sides agree on what fits.

mod amount;
mod pod;
#[cfg(test)]
pub(crate) mod tests;

pub use amount::{Amount, AmountError};
pub use pod::{
    Amounts, amounts, container_requests, has_pod_level_requests, has_pod_level_resources, is_pod_level_resource,
    limits_per_container, pod_limits, pod_limits_without_overhead, pod_requests, pod_requests_without_overhead,
};

/// The resource name of CPU.
pub const CPU: &str = "cpu";
/// The resource name of memory.
pub const MEMORY: &str = "memory";
/// The resource name of local scratch space.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The resource name that counts pods.
pub const PODS: &str = "pods";
/// The internal resource name that counts process ids.
pub const PIDS: &str = "pid";
/// What names of huge page resources begin with.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// The page size in bytes of a huge page resource such as `hugepages-2Mi`.
#[doc(alias = "HugePageSizeFromResourceName")]
pub fn hugepage_size(resource: &str) -> Option<u64> {
    let size = Amount::parse(resource.strip_prefix(HUGEPAGES_PREFIX)?).ok()?;
    u64::try_from(size.value()).ok().filter(|bytes| *bytes > 0)
}

/// A huge page size as the kernel's cgroup files spell it: `64KB`, `2MB`, `1GB`.
#[doc(alias = "HugePageUnitSizeFromByteSize")]
pub fn hugepage_unit(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut size = bytes;
    let mut unit = "B";
    for next in units {
        unit = next;
        if size < 1024 {
            break;
        }
        if next != "PB" {
            size /= 1024;
        }
    }
    format!("{size}{unit}")
}
