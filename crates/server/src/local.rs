//! The socket in the root directory through which commands query the running rubelet, and the page for people.
//!
//! HTTP/1 and JSON: each path answers one of the [documents](crate::documents), other requests an error status. Nothing that is
//! asked changes anything. Access to the socket is limited twice: by its mode, and by the peer's user as the kernel reports
//! it. The page is served on the socket and, with `--local-ui`, on a port of loopback.

mod agent;
mod client;
mod guard;
mod page;
mod routes;
mod server;
mod socket;
pub mod ui;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::documents::Miss;

pub use agent::{Agent, Certificates, Insight};
pub use client::{AskError, Client};
pub use server::{LocalServer, ROOT};
pub use socket::{BindError, OwnedSocket};

/// The path of all pods; a pod's path is below it.
const PODS: &str = "/v1/pods";
/// The path of the agent's status.
const STATUS: &str = "/v1/status";
/// The path of what pods and containers use.
const TOP: &str = "/v1/top";
/// The path of the node in words.
const NODE: &str = "/v1/node";
/// The path of the recent events: those after `?after=NUMBER`; with `&wait=1`, not before there is one.
const EVENTS: &str = "/v1/events";
/// The path of logs; a pod's path is below it.
const LOGS: &str = "/v1/logs";
/// The path of the page's data.
const PAGE: &str = "/v1/page";

/// The body of an error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    error: String,
    /// Set if the requested pod was not found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    miss: Option<Miss>,
}
