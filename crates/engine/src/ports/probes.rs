//! Asking a container over the network how it is.

use std::time::Duration;

use async_trait::async_trait;

pub use rubelet_core::probe::{GrpcError, GrpcTarget, HttpReply, HttpTarget, NetError, Serving, TcpTarget};

/// Asks over the network, each time on a connection of its own, which is closed afterwards: what is probed is also
/// whether a client that comes now is let in. Nothing is verified or proxied (PRB-12).
#[async_trait]
pub trait Probes: Send + Sync {
    /// A GET request, following redirects as `core::probe::next_hop` says. All of it takes `timeout` at most; without
    /// one it takes as long as the caller waits.
    async fn http(&self, target: &HttpTarget, timeout: Option<Duration>) -> Result<HttpReply, NetError>;
    /// A connection.
    async fn tcp(&self, target: &TcpTarget, timeout: Duration) -> Result<(), NetError>;
    /// A health check (`grpc.health.v1.Health/Check`).
    async fn grpc(&self, target: &GrpcTarget, timeout: Duration) -> Result<Serving, GrpcError>;
}
