//! The way to the API server: a client of our own (ADR 10).
//!
//! - [`Client`] sends requests over one HTTP/2 connection, which it makes when it is needed and makes anew when it is
//!   lost, when it stalls, and when the credentials change. Nothing is retried that may have had an effect.
//! - [`Kubeconfig`] says where the server is and who we are.
//! - [`Credentials`] say who we are, and can be replaced while watches run.
//! - [`Reflector`] holds all objects of a kind up to date.
//! - [`ApiSource`] gives this node's pods.
//!
//! What must not be here: decisions about pods and nodes. Objects come in and go out as they are.

mod client;
mod connector;
mod credentials;
mod dial;
mod endpoint;
mod error;
mod exec;
mod kubeconfig;
mod limit;
mod lines;
mod link;
mod names;
mod pace;
mod proxy;
mod pulse;
mod query;
mod reflector;
mod shrink;
mod source;
mod status;
mod strip;
mod telling;

pub use client::{Client, DeleteOptions, Options, PatchKind, Preconditions, user_agent};
pub use credentials::{BadIdentity, Credentials, CredentialsError, Identity, Login, Pem, User};
pub(crate) use dial::{SecureError, Wire, reach, secured};
pub use endpoint::{BadServer, Endpoint, Roots};
pub use exec::{Exec, ExecError};
pub use kubeconfig::{BadField, BadKubeconfig, Kubeconfig, KubeconfigError};
pub use limit::Rate;
pub use names::Names;
pub use proxy::ProxyEnvironment;
pub use pulse::Heartbeat;
pub use query::encode;
pub use reflector::{Extent, Key, Reflector, Set, Sink, Watched};
pub use source::ApiSource;
