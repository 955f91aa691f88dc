//! Pods and objects from outside the node.
//!
//! [`FileSource`] reads manifests from a file or a directory, [`HttpSource`] from a URL. Both deliver whole sets; what changed
//! is `core::desired`'s business. Neither decides what a valid pod is: they turn text into JSON and hand it to a [`Decode`].
//! [`api`] is the way to the API server: a client, and pods as it has them; [`certs`] keeps the certificates that it takes.

pub mod api;
pub mod certs;
mod decode;
pub mod events;
mod file;
mod http;
pub mod logins;
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
pub use node_api::ApiNode;
pub use pod_api::ApiPods;
pub use pod_cache::{CachedSource, CachedView};

/// Largest manifest, in bytes, that a file or URL may give.
///
/// upstream: kubelet/config/common.go maxConfigLength (v1.36).
pub const MAX_MANIFEST: usize = 10 << 20;
