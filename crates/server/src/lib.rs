//! What a person and a health checker see of the node.
//!
//! [`healthz`] answers health checkers on a port of its own; [`local`] answers `rubelet pods` and `rubelet explain` on a
//! socket that only root may open, and is their client; [`documents`] is what travels between the two. Both only
//! read: they ask the sync loop for a view and never change anything. [`api`] is the node's HTTPS API: logs, commands in
//! containers, forwarded ports, for those whom the cluster allows.

pub mod api;
pub mod documents;
pub mod healthz;
mod http1;
pub mod local;
mod rarely;
#[cfg(test)]
mod testing;
mod url;
mod watched;

pub use watched::{LiveNode, WatchedNode};
