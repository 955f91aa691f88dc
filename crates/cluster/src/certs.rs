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

use rubelet_core::certs::{InUse, Purpose};
use rubelet_engine::ports::ServingCert;

use crate::api::Credentials;

pub use client::{ClientCertificate, ClientError, client};
pub use pair::{PairError, validities};
pub use serving::{ClusterServing, Reload, ServingError, ServingSource, serving};

/// The client certificate that the API server is shown; `None` if there is none, or it cannot be read.
pub fn client_in_use(credentials: &Credentials) -> Option<InUse> {
    let identity = credentials.in_use()?;
    Some(InUse { purpose: Purpose::Client, leaf: pair::first_leaf(identity.chain())?, renewal: identity.renewal })
}

/// What the serving certificate is.
pub fn serving_in_use(certificate: &ServingCert) -> Option<InUse> {
    let leaf = pair::first_leaf(&certificate.chain)?;
    Some(InUse { purpose: Purpose::Serving, leaf, renewal: certificate.renewal })
}

#[cfg(test)]
mod tests;
