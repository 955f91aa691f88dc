//! The client of the local socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::guard::SOCKET_HOST;
use super::{EVENTS, LOGS, NODE, PODS, Refusal, STATUS, TOP};
use crate::documents::{
    EventsDocument, LogAsk, LogDocument, Miss, NodeDocument, NodeStory, PodStory, StatusDocument, TopDocument,
};
use crate::url::encode;

/// Deadline of a query: longer than the server waits for its sync loop.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Largest response: more than a thousand stories.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// Why there is no answer. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nothing listens on the socket.
    #[error("no rubelet answers on {}: is it running, and with this --root-dir?", .path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket belongs to another user.
    #[error("only root may ask the rubelet on {}: try sudo", .0.display())]
    Denied(PathBuf),
    /// The deadline has passed.
    #[error("the rubelet on {} has not answered for {ANSWER_WITHIN:?}: its log may tell why", .0.display())]
    Silent(PathBuf),
    /// The connection failed.
    #[error("the rubelet on {} went away while it answered: ask again", .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// The response cannot be decoded.
    #[error("what answers on {} is no rubelet of this version", .0.display())]
    Garbage(PathBuf),
    /// There is no such pod.
    #[error(transparent)]
    Miss(#[from] Miss),
    /// The server returned an error.
    #[error("{0}")]
    Refused(String),
}

/// Queries the rubelet on one socket.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// A client for the rubelet on this socket. It connects with each query.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The node, and one line per pod.
    ///
    /// # Errors
    /// The query failed.
    pub async fn pods(&self) -> Result<NodeDocument, AskError> {
        self.get(PODS.to_owned()).await
    }

    /// The state of the agent.
    ///
    /// # Errors
    /// The query failed.
    pub async fn status(&self) -> Result<StatusDocument, AskError> {
        self.get(STATUS.to_owned()).await
    }

    /// The details of the pod that `word` names.
    ///
    /// # Errors
    /// The query failed, or there is no such pod.
    pub async fn story(&self, word: &str) -> Result<PodStory, AskError> {
        self.get(format!("{PODS}/{}", encode(word))).await
    }

    /// What pods and containers use.
    ///
    /// # Errors
    /// The query failed, or nothing can be measured.
    pub async fn top(&self) -> Result<TopDocument, AskError> {
        self.get(TOP.to_owned()).await
    }

    /// The node in words.
    ///
    /// # Errors
    /// The query failed.
    pub async fn node(&self) -> Result<NodeStory, AskError> {
        self.get(NODE.to_owned()).await
    }

    /// The recent events after number `after`.
    ///
    /// # Errors
    /// The query failed.
    pub async fn events(&self, after: u64) -> Result<EventsDocument, AskError> {
        self.get(format!("{EVENTS}?after={after}")).await
    }

    /// The events after number `after`, as soon as there is one; after a while, none.
    ///
    /// # Errors
    /// The query failed.
    pub async fn next_events(&self, after: u64) -> Result<EventsDocument, AskError> {
        self.get(format!("{EVENTS}?after={after}&wait=1")).await
    }

    /// Where a container's log is. If `ask` names an instance, as soon as it has ended, or after a while.
    ///
    /// # Errors
    /// The query failed, or there is no such pod, container or log.
    pub async fn log(&self, ask: &LogAsk) -> Result<LogDocument, AskError> {
        let mut path = format!("{LOGS}/{}?", encode(&ask.pod));
        for (key, value) in [("container", &ask.container), ("until-end-of", &ask.until_end_of)] {
            if let Some(value) = value {
                path += &format!("{key}={}&", encode(value));
            }
        }
        if ask.previous {
            path += "previous=1";
        }
        self.get(path).await
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, AskError> {
        let asked = tokio::time::timeout(ANSWER_WITHIN, self.ask(path)).await;
        let (status, body) = asked.map_err(|_elapsed| AskError::Silent(self.path.clone()))??;
        let garbage = |_| AskError::Garbage(self.path.clone());
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(garbage);
        }
        let refusal: Refusal = serde_json::from_slice(&body).map_err(garbage)?;
        Err(match refusal.miss {
            Some(miss) => AskError::Miss(miss),
            None if status == StatusCode::FORBIDDEN => AskError::Denied(self.path.clone()),
            None => AskError::Refused(refusal.error),
        })
    }

    async fn ask(&self, path: String) -> Result<(StatusCode, Bytes), AskError> {
        let stream = UnixStream::connect(&self.path).await.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => AskError::Denied(self.path.clone()),
            _ => AskError::Nobody { path: self.path.clone(), source },
        })?;
        let broken = |source| AskError::Broken { path: self.path.clone(), source };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = Request::get(path).header(HOST, SOCKET_HOST).body(Empty::<Bytes>::new());
        let request = request.map_err(|_| AskError::Garbage(self.path.clone()))?;
        let exchange = async move {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await;
            Ok((status, body.map_err(|_| AskError::Garbage(self.path.clone()))?.to_bytes()))
        };
        // The connection ends with the exchange; its error is also the exchange's.
        let (answer, _ended) = tokio::join!(exchange, connection);
        answer
    }
}
