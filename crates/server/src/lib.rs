//! The HTTP servers of the node.
//!
//! [`healthz`] serves health checks on a port of its own; [`local`] serves the commands of this machine on a socket that only
//! root may open, contains their client, and serves the page for people; [`documents`] are the data that they exchange. They
//! only read: they take a view of the sync loop and change nothing. [`api`] is the node's HTTPS API: logs, exec, port-forward,
//! for callers that the cluster authorizes. [`traces`] sends spans to a collector.

pub mod api;
pub mod documents;
pub mod healthz;
mod http1;
pub mod local;
mod log_limiter;
mod recent_events;
#[cfg(test)]
mod testing;
pub mod traces;
mod url;
mod watched;

pub use recent_events::RecentEvents;
pub use watched::{LiveNode, WatchedNode};
