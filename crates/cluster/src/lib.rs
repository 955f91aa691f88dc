//! Pods, objects and certificates from outside the node.
//!
//! [`FileSource`] reads manifests from a file or a directory, [`HttpSource`] from a URL. Both deliver whole sets of pods;
//! `core::desired` computes the differences. Both turn text into JSON and leave validation to a [`Decode`].
//! [`api`] is the client for the API server and the pod source on top of it; [`certs`] requests and rotates certificates.

pub mod api;
pub mod certs;
mod decode;
pub mod events;
mod file;
mod http;
pub mod logins;
mod metrics;
pub mod node_api;
pub mod objects;
pub mod pod_api;
mod pod_cache;
mod program;
pub mod requests;
pub mod reviews;
mod text;
pub mod tokens;
pub mod view;

pub use decode::{Decode, Decoded, Origin};
pub use file::FileSource;
pub use http::{HttpSource, UrlError};
pub use metrics::ClusterMetrics;
pub use node_api::ApiNode;
pub use pod_api::ApiPods;
pub use pod_cache::{CachedSource, CachedView};

/// Largest manifest, in bytes, that a file or URL may hold.
///
/// upstream: kubelet/config/common.go maxConfigLength (v1.36).
pub const MAX_MANIFEST: usize = 10 << 20;
