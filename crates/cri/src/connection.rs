//! One socket, many calls: deadlines, counting, the size limit, and which way to list.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::ports::{RpcError, RpcErrorKind};
use rubelet_proto::cri::image_service_client::ImageServiceClient;
use rubelet_proto::cri::runtime_service_client::RuntimeServiceClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::dial::Dialler;
use crate::endpoint::Endpoint;
use crate::error::{foreign, from_status, rpc_error};
use crate::exec_answer::CutOutputs;
use crate::first_words::FirstWords;
use crate::kept::KeptCalls;
use crate::metrics::{Operation, OperationMetrics};

/// The largest answer taken: a runtime gone mad must not take the node's memory with it (CRI-01).
const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// The longest deadline that is put on a call. What asks for more (a grace period of centuries is valid) gets this.
const LONGEST_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The process's monotonic clock.
pub type Monotonic = Arc<dyn Fn() -> Instant + Send + Sync>;

/// How a connection behaves.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// `runtimeRequestTimeout`: the deadline of an ordinary call (CRI-02).
    pub request_timeout: Duration,
    /// How lists are fetched.
    pub list_mode: ListMode,
    /// Counts the calls.
    pub metrics: Arc<OperationMetrics>,
    /// For durations and for the pauses between attempts to connect.
    pub now: Monotonic,
    /// Has calls that change something carried to their end when this process dies; `None`: they end with it.
    pub kept: Option<Arc<KeptCalls>>,
}

/// How lists are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListMode {
    /// In one message.
    #[default]
    Whole,
    /// As a stream, which has no size limit; in one message if the runtime does not know streams.
    #[doc(alias = "CRIListStreaming")]
    Streamed,
}

/// The way to a runtime's socket. A connection is made when the first call needs it and made anew when it broke.
///
/// Calls that change something have a connection of their own if they are kept: what only looks, or listens to events,
/// is to end with this process. A runtime may give each event to one listener only, and one that lives on after our end
/// would take them from the next agent.
#[derive(Clone)]
pub struct Connection {
    looks: Line,
    changes: Line,
    shared: Arc<Shared>,
}

struct Shared {
    options: ConnectionOptions,
    stream_lists: AtomicBool,
}

/// One socket.
#[derive(Clone)]
struct Line {
    channel: Channel,
    first_words: FirstWords,
}

impl Line {
    fn lazy(endpoint: &Endpoint, options: &ConnectionOptions, kept: Option<Arc<KeptCalls>>) -> Self {
        let first_words = FirstWords::default();
        let dialler = Dialler::new(endpoint.path().to_owned(), first_words.clone(), Arc::clone(&options.now), kept);
        let dialler = Arc::new(dialler);
        // The address only names the authority, for which Go's servers want a plain host.
        let channel = tonic::transport::Endpoint::from_static("http://localhost").connect_with_connector_lazy(
            tower::service_fn(move |_| {
                let dialler = Arc::clone(&dialler);
                async move { dialler.dial().await }
            }),
        );
        Self { channel, first_words }
    }
}

impl Connection {
    /// A connection that dials on the first call. Must be called within a tokio runtime.
    pub fn lazy(endpoint: &Endpoint, options: ConnectionOptions) -> Self {
        let looks = Line::lazy(endpoint, &options, None);
        let changes = match &options.kept {
            Some(kept) => Line::lazy(endpoint, &options, Some(Arc::clone(kept))),
            None => looks.clone(),
        };
        let stream_lists = AtomicBool::new(options.list_mode == ListMode::Streamed);
        Self { looks, changes, shared: Arc::new(Shared { options, stream_lists }) }
    }

    fn line(&self, operation: Operation) -> &Line {
        if operation.changes_something() { &self.changes } else { &self.looks }
    }

    /// The runtime, for `ExecSync` alone: of its answers only the beginning of the outputs is kept.
    pub(crate) fn cut_outputs(&self) -> RuntimeServiceClient<CutOutputs> {
        let channel = self.line(Operation::ExecSync).channel.clone();
        RuntimeServiceClient::new(CutOutputs { channel, most: LARGEST_MESSAGE })
    }

    pub(crate) fn runtime(&self, operation: Operation) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.line(operation).channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
    }

    pub(crate) fn images(&self, operation: Operation) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.line(operation).channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
    }

    /// The deadline of an ordinary call.
    pub(crate) fn timeout(&self) -> Duration {
        self.shared.options.request_timeout
    }

    pub(crate) fn now(&self) -> Instant {
        (self.shared.options.now)()
    }

    pub(crate) fn record(&self, operation: Operation, took: Duration, failed: bool) {
        self.shared.options.metrics.record(operation, took, failed);
    }

    /// Makes one call, within `deadline` if there is one.
    pub(crate) async fn call<Q, A, F>(
        &self,
        operation: Operation,
        deadline: Option<Duration>,
        message: Q,
        send: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, RpcError>
    where
        Q: fmt::Debug,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        // What may hold secrets (environments, credentials, commands) is not shown, whatever the log level.
        match operation {
            Operation::CreateContainer | Operation::PullImage | Operation::ExecSync | Operation::Exec => {
                tracing::trace!(operation = operation.as_str(), "Calling the runtime");
            }
            _ => tracing::trace!(operation = operation.as_str(), request = ?message, "Calling the runtime"),
        }
        let deadline = deadline.map(|deadline| deadline.min(LONGEST_DEADLINE));
        let kept = self.shared.options.kept.as_ref().filter(|_| operation.changes_something());
        let _in_flight = kept.map(|kept| kept.begin(deadline));
        let mut request = Request::new(message);
        if let Some(deadline) = deadline {
            // It also travels with the request, so that the runtime gives up when we do.
            request.set_timeout(deadline);
        }
        self.timed(operation, deadline, send(request)).await.map(Response::into_inner)
    }

    /// Fetches a list: streamed if that is wanted and known to the runtime, else in one message.
    pub(crate) async fn list<T, S, W>(
        &self,
        operation: Operation,
        streamed: impl FnOnce() -> S,
        whole: impl FnOnce() -> W,
    ) -> Result<Vec<T>, RpcError>
    where
        S: Future<Output = Result<Vec<T>, Status>>,
        W: Future<Output = Result<Vec<T>, Status>>,
    {
        let deadline = Some(self.timeout());
        if self.shared.stream_lists.load(Ordering::Relaxed) {
            match self.timed(operation, deadline, streamed()).await {
                Err(err) if err.kind == RpcErrorKind::Unimplemented => {
                    self.shared.stream_lists.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        self.timed(operation, deadline, whole()).await
    }

    async fn timed<A>(
        &self,
        operation: Operation,
        deadline: Option<Duration>,
        call: impl Future<Output = Result<A, Status>>,
    ) -> Result<A, RpcError> {
        let started = self.now();
        let outcome = match deadline {
            None => call.await.map_err(|status| from_status(operation, &status)),
            Some(deadline) => match tokio::time::timeout(deadline, call).await {
                Ok(outcome) => outcome.map_err(|status| from_status(operation, &status)),
                Err(_elapsed) => {
                    let detail = format!("no answer from the runtime within {deadline:?}");
                    Err(rpc_error(operation, RpcErrorKind::Timeout, detail))
                }
            },
        };
        self.record(operation, self.now().since(started), outcome.is_err());
        outcome.map_err(|err| if self.line(operation).first_words.were_foreign() { foreign(err) } else { err })
    }
}

/// Reads a stream to its end. One that breaks off is an error, never a short list: what is missing would be taken for
/// gone.
pub(crate) async fn collect<M, T>(mut stream: Streaming<M>, items: impl Fn(M) -> Vec<T>) -> Result<Vec<T>, Status> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        all.extend(items(message));
    }
    Ok(all)
}
