//! The server of the local socket.

use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Agent;
use super::guard::Names;
use super::routes::{Routes, Scope, refuse};
use super::socket::OwnedSocket;
use crate::http1::{Answer, serve};
use crate::watched::WatchedNode;

/// The only user that may connect.
pub const ROOT: u32 = 0;
/// Concurrent connections.
const SLOTS: usize = 16;

/// The server of the local socket. The socket's file is removed when it ends or is dropped.
pub struct LocalServer {
    socket: OwnedSocket,
    asks: Arc<Handler>,
}

struct Handler {
    routes: Routes,
    /// The only user that may connect.
    user: u32,
}

impl LocalServer {
    /// Serves `user` alone ([`ROOT`]) on a socket.
    pub fn new(socket: OwnedSocket, node: Arc<dyn WatchedNode>, agent: Agent, user: u32) -> Self {
        info!(path = %socket.path().display(), "Serving the commands of this machine");
        let routes = Routes { node, agent, names: Names::Socket };
        Self { socket, asks: Arc::new(Handler { routes, user }) }
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let asks = Arc::clone(&self.asks);
        let handler = move |peer: Option<u32>, request: Request<Incoming>| {
            let asks = Arc::clone(&asks);
            async move { asks.answer(peer, &request).await }
        };
        serve(&self.socket.listener, SLOTS, peer, Arc::new(handler), &cancel).await;
    }
}

/// The user at the other end, as the kernel reports it.
fn peer(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().map(|peer| peer.uid())
}

impl Handler {
    async fn answer(&self, peer: Option<u32>, request: &Request<Incoming>) -> Answer {
        if peer != Some(self.user) {
            warn!(uid = peer, "Rejected a user that is not root");
            return refuse(StatusCode::FORBIDDEN, "only root may ask");
        }
        self.routes.answer(request, Scope::Root).await
    }
}
