//! Configurations of sandboxes and containers, in CRI's terms and in types of core.
//!
//! The builders derive them from a pod and the node's settings; `crates/cri` copies them to the wire field by field and
//! decides nothing.

mod container;
mod context;
mod error;
mod linux;
mod sandbox;
mod security;
#[cfg(test)]
pub(crate) mod tests;
mod types;

pub use container::{as_container, container_config, container_of};
pub use context::*;
pub use error::LaunchError;
pub use linux::{container_resources, may_swap, oom_score_adj};
pub use sandbox::{
    CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, log_directory, normal_sysctl,
    sandbox_config,
};
pub use types::*;
