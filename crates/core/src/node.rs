//! The node object in the API: its content, the parts that the kubelet owns, and the patch of a change (section 24).
//!
//! A node object has many writers: the cloud provider, controllers, administrators, plugins that add conditions. Only the
//! first object is therefore built as a whole: [`updated_node`] takes the current object and changes the parts that the
//! kubelet owns, and [`node_patch`] holds the difference.

mod conditions;
mod enforce;
mod health;
mod lease;
mod pace;
mod patch;
mod register;
mod reserved;
mod resources;
mod status;
mod version;
mod view;

#[cfg(test)]
mod tests;

pub use enforce::{
    ENFORCED, EnforceError, NOT_ENFORCED, NodeCgroups, PODS_ENFORCED, ReservedCgroup, ReservedKind, node_cgroups,
    pods_not_enforced,
};
pub use health::{NetworkState, NodeHealth, PLEG_THRESHOLD, PlegState, RuntimeContact, condition_text};
pub use lease::{LEASE_NAMESPACE, node_lease, renewed_lease};
pub use pace::ReportPace;
pub use patch::{node_change, node_patch};
pub use register::{first_labels, initial_node, reconcile_existing, seems_foreign};
pub use reserved::{ReservedError, cgroup_limit, max_pods, reserved};
pub use resources::{ThresholdError, declared_features, node_allocatable, node_capacity};
pub use status::{NodeUpdate, updated_node};
pub use version::runtime_version;
pub use view::{Cloud, Machine, NodeImage, NodeNews, NodeObservation, NodeSetup, Pressure, Unserved};
