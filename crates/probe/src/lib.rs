//! The port `Probes` over real sockets.
//!
//! Each request has its own connection, driven inside the request's future: nothing is pooled, no task is left behind,
//! and dropping the request closes the connection. `core::probe` decides what an answer means.

mod dial;
mod drive;
mod grpc;
mod http;
mod limits;
mod names;
mod tls;

use std::time::Duration;

use async_trait::async_trait;
use rubelet_engine::ports::{GrpcError, GrpcTarget, HttpReply, HttpTarget, NetError, Probes, Serving, TcpTarget};

pub use tls::TlsUnavailable;

/// Probes over the node's network, ignoring proxies in the environment.
pub struct NetworkProbes {
    tls: tls::Connector,
    names: names::Names,
}

impl NetworkProbes {
    /// A prober that trusts every server.
    ///
    /// # Errors
    /// If the TLS library cannot be set up.
    pub fn new() -> Result<Self, TlsUnavailable> {
        Ok(Self { tls: tls::connector()?, names: names::Names::of_this_machine() })
    }
}

#[async_trait]
impl Probes for NetworkProbes {
    async fn http(&self, target: &HttpTarget, timeout: Option<Duration>) -> Result<HttpReply, NetError> {
        let mut progress = http::Progress::default();
        let asked = http::get(&self.tls, &self.names, target, &mut progress);
        match timeout {
            None => asked.await,
            Some(timeout) => match tokio::time::timeout(timeout, asked).await {
                Ok(answer) => answer,
                Err(_) => Err(progress.out_of_time()),
            },
        }
    }

    async fn tcp(&self, target: &TcpTarget, timeout: Duration) -> Result<(), NetError> {
        let connected = tokio::time::timeout(timeout, dial::dial(&self.names, &target.host, target.port)).await;
        connected.unwrap_or(Err(NetError::Timeout)).map(drop)
    }

    async fn grpc(&self, target: &GrpcTarget, timeout: Duration) -> Result<Serving, GrpcError> {
        let mut connected = false;
        let asked = tokio::time::timeout(timeout, grpc::check(&self.names, target, timeout, &mut connected)).await;
        match asked {
            Ok(answer) => answer,
            Err(_) if connected => Err(GrpcError::Timeout),
            Err(_) => Err(GrpcError::ConnectTimeout),
        }
    }
}
