//! Quality of service: a pod's class, its place in the cgroup tree, and the values written there (section 19).

mod class;
mod tree;
mod units;
mod values;

#[cfg(test)]
mod tests;

pub use class::{QosClass, computed_qos_class, is_critical, is_node_critical, qos_class};
pub use tree::{CgroupDriver, CgroupPath, CgroupTree, CgroupVersion};
pub use units::{UnitProperty, UnitValue, new_slice, rounded, slice_names, slice_values, v2_unset};
pub use values::{
    CgroupValues, CpuPolicy, DEFAULT_PERIOD, MAX_SHARES, MIN_SHARES, PodCgroupPolicy, QosValues, milli_cpu_to_quota,
    milli_cpu_to_shares, node_values, pod_values, qos_values, shares_to_weight,
};
