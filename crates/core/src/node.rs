//! The node's own object in the API: what it says, what of it is ours to say, and how a change is sent (section 24).
//!
//! A node object has many writers: the cloud provider, controllers, people, plugins that add conditions. So nothing here
//! makes a whole object but the first one: [`updated_node`] takes the object as it is and changes what is ours, and
//! [`node_patch`] tells only the difference.

mod conditions;
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
