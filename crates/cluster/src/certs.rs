//! The node's certificates: the client certificate for the API server and the serving certificate of the node's API.
//!
//! A `keeper` rotates each of them; `core::certs` decides when, and the files are upstream's (`store`). A failure never ends
//! the process: requests are retried for ever, and failures are logged.
//!
//! upstream: kubelet/certificate, client-go util/certificate (v1.36)

mod client;
mod csr_api;
mod files;
mod keeper;
mod key;
mod pair;
mod pem;
mod request;
mod self_signed;
mod serving;
mod store;
mod wishes;
mod written;

pub use client::{ClientCertificate, ClientError, client};
pub use pair::{PairError, validities};
pub use serving::{ClusterServing, Reload, ServingError, ServingSource, serving};

#[cfg(test)]
mod tests;
