//! What a person and a health checker see of the node.
//!
//! [`healthz`] answers health checkers on a port of its own; [`local`] answers `rubelet pods` and `rubelet explain` on a
//! socket that only root may open, and is their client; [`documents`] is what travels between the two. Both servers only
//! read: they ask the sync loop for a view and never change anything. The node's HTTPS API will live here too.

pub mod documents;
pub mod healthz;
mod http1;
pub mod local;
#[cfg(test)]
mod testing;
mod url;
mod watched;

pub use watched::{LiveNode, WatchedNode};
