//! Pods and objects from outside the node.
//!
//! Here are the adapters of `PodSource` that need no API server: [`FileSource`] reads manifests from a file or a directory,
//! [`HttpSource`] from a URL. Both deliver whole sets; what changed is `core::desired`'s business. Neither decides what a
//! valid pod is: they turn text into JSON and hand it to a [`Decode`].

pub mod certs;
mod decode;
mod file;
mod http;
mod text;

pub use decode::{Decode, Decoded, Origin};
pub use file::FileSource;
pub use http::{HttpSource, UrlError};

/// Largest manifest, in bytes, that a file or URL may give.
///
/// upstream: kubelet/config/common.go maxConfigLength (v1.36).
pub const MAX_MANIFEST: usize = 10 << 20;
