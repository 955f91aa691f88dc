//! The server of the local socket.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use rubelet_engine::sync_loop::NodeView;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::socket::OwnedSocket;
use super::{Agent, PODS, Refusal, STATUS};
use crate::documents::{node_document, pod_story, status_document};
use crate::http1::{Answer, answer, serve};
use crate::url::decode;
use crate::watched::WatchedNode;

/// The only user that may connect.
pub const ROOT: u32 = 0;
/// Concurrent connections.
const SLOTS: usize = 16;
/// A sync loop that does not respond within this hangs.
const VIEW_WITHIN: Duration = Duration::from_secs(5);

/// The server of the local socket. The socket's file is removed when it ends or is dropped.
pub struct LocalServer {
    socket: OwnedSocket,
    asks: Arc<Handler>,
}

struct Handler {
    node: Arc<dyn WatchedNode>,
    agent: Agent,
    /// The only user that may connect.
    user: u32,
}

impl LocalServer {
    /// Serves `user` alone ([`ROOT`]) on a socket.
    pub fn new(socket: OwnedSocket, node: Arc<dyn WatchedNode>, agent: Agent, user: u32) -> Self {
        info!(path = %socket.path().display(), "Serving rubelet pods, rubelet explain and rubelet status");
        Self { socket, asks: Arc::new(Handler { node, agent, user }) }
    }

    /// Serves until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let asks = Arc::clone(&self.asks);
        let handler = move |peer: Option<u32>, request: Request<Incoming>| {
            let asks = Arc::clone(&asks);
            async move { asks.answer(peer, request.method(), request.uri().path()).await }
        };
        serve(&self.socket.listener, SLOTS, peer, Arc::new(handler), &cancel).await;
    }
}

/// The user at the other end, as the kernel reports it.
fn peer(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok().map(|peer| peer.uid())
}

impl Handler {
    async fn answer(&self, peer: Option<u32>, method: &Method, path: &str) -> Answer {
        if peer != Some(self.user) {
            warn!(uid = peer, "Rejected a user that is not root");
            return refuse(StatusCode::FORBIDDEN, "only root may ask");
        }
        let asked = match path.strip_prefix(PODS) {
            _ if method != Method::GET => return refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET is known"),
            None if path == STATUS => Asked::Status,
            Some("") => Asked::Pods,
            Some(rest) if rest.starts_with('/') => Asked::Pod(decode(rest.trim_start_matches('/'))),
            Some(_) | None => return refuse(StatusCode::NOT_FOUND, "no such path"),
        };
        let view = match tokio::time::timeout(VIEW_WITHIN, self.node.view()).await {
            Ok(Some(view)) => view,
            Ok(None) => return refuse(StatusCode::SERVICE_UNAVAILABLE, "rubelet is stopping"),
            Err(_elapsed) => {
                let error = "the sync loop does not answer: this is a bug, its log may tell more";
                return refuse(StatusCode::SERVICE_UNAVAILABLE, error);
            }
        };
        match asked {
            Asked::Pods => json(StatusCode::OK, &node_document(&view)),
            Asked::Pod(word) => respond(&view, &word),
            Asked::Status => json(StatusCode::OK, &status_document(&view, &self.agent.view(view.now))),
        }
    }
}

/// What a request asks for.
enum Asked {
    Pods,
    /// The word that names the pod.
    Pod(String),
    Status,
}

fn respond(view: &NodeView, word: &str) -> Answer {
    match pod_story(view, word) {
        Ok(story) => json(StatusCode::OK, &story),
        Err(miss) => json(StatusCode::NOT_FOUND, &Refusal { error: miss.to_string(), miss: Some(miss) }),
    }
}

fn refuse(status: StatusCode, error: &str) -> Answer {
    json(status, &Refusal { error: error.to_owned(), miss: None })
}

fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(body) => answer(status, "application/json", body.into()),
        // Plain structs with string keys always serialize.
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "{}".into()),
    }
}
