//! The socket in the root directory through which `rubelet pods`, `rubelet explain` and `rubelet status` query the
//! running rubelet.
//!
//! HTTP/1 and JSON: `GET /v1/pods` returns a [`NodeDocument`](crate::documents::NodeDocument), `GET /v1/pods/POD` a
//! [`PodStory`](crate::documents::PodStory), `GET /v1/status` a
//! [`StatusDocument`](crate::documents::StatusDocument), other requests an error status. Access is limited twice: by the mode of the
//! socket, and by the peer's user as the kernel reports it.

mod agent;
mod client;
mod server;
mod socket;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::documents::Miss;

pub use agent::{Agent, Certificates};
pub use client::{AskError, Client};
pub use server::{LocalServer, ROOT};
pub use socket::{BindError, OwnedSocket};

/// The path of all pods; a pod's path is below it.
const PODS: &str = "/v1/pods";
/// The path of the agent's status.
const STATUS: &str = "/v1/status";

/// The body of an error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    error: String,
    /// Set if the requested pod was not found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    miss: Option<Miss>,
}
