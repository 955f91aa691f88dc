//! The socket in the root directory over which `rubelet pods` and `rubelet explain` ask the running rubelet.
//!
//! HTTP/1 and JSON: `GET /v1/pods` answers a [`NodeDocument`](crate::documents::NodeDocument), `GET /v1/pods/POD` a
//! [`PodStory`](crate::documents::PodStory), anything else a refusal with its status. Two locks guard it: the mode of
//! the socket, and the user that the kernel says is at the other end.

mod client;
mod server;
mod socket;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::documents::Miss;

pub use client::{AskError, Client};
pub use server::{LocalServer, ROOT};
pub use socket::BindError;

/// Every pod, or one.
const PODS: &str = "/v1/pods";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refusal {
    error: String,
    /// The pod that was asked for is not there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    miss: Option<Miss>,
}
