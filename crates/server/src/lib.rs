//! The HTTP servers of the node.
//!
//! [`healthz`] serves health checks on a port of its own; [`local`] serves `rubelet pods` and `rubelet explain` on a socket
//! that only root may open, and contains their client; [`documents`] are the data that they exchange. Both are read-only:
//! they take a view of the sync loop and change nothing. [`api`] is the node's HTTPS API: logs, exec, port-forward, for
//! callers that the cluster authorizes. [`traces`] sends spans to a collector.

pub mod api;
pub mod documents;
pub mod healthz;
mod http1;
pub mod local;
mod log_limiter;
#[cfg(test)]
mod testing;
pub mod traces;
mod url;
mod watched;

pub use watched::{LiveNode, WatchedNode};
