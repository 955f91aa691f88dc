//! The client for the API server (ADR 10).
//!
//! - [`Client`] sends requests over one HTTP/2 connection. It connects on first use and reconnects when the connection is
//!   lost, stalls, or was made with old credentials. A request that may have had an effect is never retried.
//! - [`Kubeconfig`] names the server and the node's user.
//! - [`Credentials`] hold the client certificate and token. They can be replaced while watches run.
//! - [`Reflector`] keeps all objects of a kind up to date by list and watch.
//! - [`ApiSource`] delivers the pods that are bound to this node.
//!
//! This module makes no decisions about pods or nodes: it passes objects through unchanged.

mod body;
mod client;
mod connector;
mod credentials;
mod dial;
mod endpoint;
mod error;
mod exec;
mod heartbeat;
mod kubeconfig;
mod limit;
mod lines;
mod link;
mod pace;
mod proxy;
mod query;
mod reflector;
mod resolver;
mod shrink;
mod source;
mod status;
mod strip;
mod tls_alert;

pub use client::{Client, DeleteOptions, Options, PatchKind, Preconditions, user_agent};
pub use credentials::{BadIdentity, Credentials, CredentialsError, Identity, Login, Pem, User};
pub(crate) use dial::{SecureError, Wire, reach, secured};
pub use endpoint::{BadServer, Endpoint, Roots};
pub use exec::{Exec, ExecError};
pub use heartbeat::Heartbeat;
pub use kubeconfig::{BadField, BadKubeconfig, Kubeconfig, KubeconfigError};
pub use limit::Rate;
pub use proxy::ProxyEnvironment;
pub use query::encode;
pub use reflector::{Extent, Key, Reflector, Set, Sink, Watched};
pub use resolver::Resolver;
pub use source::ApiSource;
