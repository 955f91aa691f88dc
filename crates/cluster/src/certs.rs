//! The node's certificates: the one we show to the API server and the one the node's own server shows.
//!
//! A `keeper` keeps each of them good; what it decides is `core::certs`, what is on disk is as upstream has it
//! (`store`). Nothing here ends the process: a certificate that cannot be had is asked for again and again, and said so.
//!
//! upstream: kubelet/certificate, client-go util/certificate (v1.36)

mod client;
mod desk;
mod files;
mod keeper;
mod key;
mod pair;
mod pem;
mod request;
mod self_signed;
mod serving;
mod store;
mod written;

pub use client::{ClientCertificate, ClientError, client};
pub use serving::{ClusterServing, Reload, ServingError, ServingSource, serving};

#[cfg(test)]
mod tests;
