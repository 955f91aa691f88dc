//! The page's port on loopback (`--local-ui`). Any user of this machine may read it: it shows pods, events' texts and usage,
//! and neither logs nor anything that the local socket keeps for root.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::Agent;
use super::guard::Names;
use super::routes::{Routes, Scope};
use crate::http1::serve;
use crate::watched::WatchedNode;

/// Concurrent connections. A page has at most six.
const SLOTS: usize = 16;
/// Pause after a failed bind.
const BIND_PAUSE: Duration = Duration::from_secs(5);

/// The server of the page, bound to its port.
pub struct LocalUi {
    listener: TcpListener,
    routes: Arc<Routes>,
}

impl LocalUi {
    /// Binds this port of 127.0.0.1; zero chooses one.
    ///
    /// # Errors
    /// The port cannot be bound.
    pub async fn bind(port: u16, node: Arc<dyn WatchedNode>, agent: Agent) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let names = Names::Port(listener.local_addr()?.port());
        Ok(Self { listener, routes: Arc::new(Routes { node, agent, names }) })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system does not return the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let routes = self.routes;
        let handler = move |(), request: Request<Incoming>| {
            let routes = Arc::clone(&routes);
            async move { routes.answer(&request, Scope::Page).await }
        };
        serve(&self.listener, SLOTS, |_| (), Arc::new(handler), &cancel).await;
    }
}

/// Serves the page until cancelled. A failed bind is logged and tried again: pods are run without the page.
pub async fn run(port: u16, node: Arc<dyn WatchedNode>, agent: Agent, cancel: CancellationToken) {
    let mut logged = false;
    loop {
        match LocalUi::bind(port, Arc::clone(&node), agent.clone()).await {
            Ok(server) => {
                info!(address = %format_args!("http://127.0.0.1:{port}/"), "Serving the page of this node");
                return server.run(cancel).await;
            }
            Err(err) if !logged => {
                error!(port, %err, "Failed to open the page's port; it is tried again");
                logged = true;
            }
            Err(_) => {}
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(BIND_PAUSE) => {}
        }
    }
}
