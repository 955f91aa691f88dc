//! The connection to a runtime: deadlines, metrics, the size limit, and how lists are fetched.

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
use crate::error::{from_status, not_cri, rpc_error};
use crate::exec_answer::CutOutputs;
use crate::kept::KeptCalls;
use crate::metrics::{Operation, OperationMetrics};
use crate::preface::PrefaceCheck;

/// The largest answer accepted: a faulty runtime must not exhaust the node's memory (CRI-01).
const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// The longest deadline of a call. A longer one (a grace period of centuries is valid) is reduced to this.
const LONGEST_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The process's monotonic clock.
pub type Monotonic = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Settings of a connection.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// `runtimeRequestTimeout`: the deadline of an ordinary call (CRI-02).
    pub request_timeout: Duration,
    /// How lists are fetched.
    pub list_mode: ListMode,
    /// Metrics of the calls.
    pub metrics: Arc<OperationMetrics>,
    /// The clock for call durations and for the pauses between attempts to connect.
    pub now: Monotonic,
    /// Lets the runtime finish mutating calls when this process dies; `None`: they end with it.
    pub kept: Option<Arc<KeptCalls>>,
}

/// How lists are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListMode {
    /// In one message.
    #[default]
    Whole,
    /// As a stream, which has no size limit; in one message if the runtime does not implement streams.
    #[doc(alias = "CRIListStreaming")]
    Streamed,
}

/// The connection to a runtime's socket. It is made by the first call and made again when it broke.
///
/// Mutating calls have a separate socket if they are kept: read-only calls and the event stream must end with this
/// process. A runtime may send each event to one listener only, and a listener that outlives us would take events from
/// the next agent.
#[derive(Clone)]
pub struct Connection {
    read_only: Socket,
    mutating: Socket,
    shared: Arc<Shared>,
}

struct Shared {
    options: ConnectionOptions,
    stream_lists: AtomicBool,
}

/// One socket.
#[derive(Clone)]
struct Socket {
    channel: Channel,
    preface: PrefaceCheck,
}

impl Socket {
    fn lazy(endpoint: &Endpoint, options: &ConnectionOptions, kept: Option<Arc<KeptCalls>>) -> Self {
        let preface = PrefaceCheck::default();
        let dialler = Dialler::new(endpoint.path().to_owned(), preface.clone(), Arc::clone(&options.now), kept);
        let dialler = Arc::new(dialler);
        // The address is only the authority header, for which Go's servers want a plain host.
        let channel = tonic::transport::Endpoint::from_static("http://localhost").connect_with_connector_lazy(
            tower::service_fn(move |_| {
                let dialler = Arc::clone(&dialler);
                async move { dialler.dial().await }
            }),
        );
        Self { channel, preface }
    }
}

impl Connection {
    /// A connection that is dialled by the first call. Must be called within a tokio runtime.
    pub fn lazy(endpoint: &Endpoint, options: ConnectionOptions) -> Self {
        let read_only = Socket::lazy(endpoint, &options, None);
        let mutating = match &options.kept {
            Some(kept) => Socket::lazy(endpoint, &options, Some(Arc::clone(kept))),
            None => read_only.clone(),
        };
        let stream_lists = AtomicBool::new(options.list_mode == ListMode::Streamed);
        Self { read_only, mutating, shared: Arc::new(Shared { options, stream_lists }) }
    }

    fn socket(&self, operation: Operation) -> &Socket {
        if operation.is_mutating() { &self.mutating } else { &self.read_only }
    }

    /// The client for `ExecSync`: only the beginning of the outputs is kept.
    pub(crate) fn cut_outputs(&self) -> RuntimeServiceClient<CutOutputs> {
        let channel = self.socket(Operation::ExecSync).channel.clone();
        RuntimeServiceClient::new(CutOutputs { channel, most: LARGEST_MESSAGE })
    }

    pub(crate) fn runtime(&self, operation: Operation) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.socket(operation).channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
    }

    pub(crate) fn images(&self, operation: Operation) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.socket(operation).channel.clone()).max_decoding_message_size(LARGEST_MESSAGE)
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

    /// A sandbox was made with this runtime handler, or could not be.
    pub(crate) fn record_sandbox(&self, handler: &str, took: Duration, failed: bool) {
        self.shared.options.metrics.record_sandbox(handler, took, failed);
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
        // Requests that may hold secrets (environments, credentials, commands) are never logged.
        match operation {
            Operation::CreateContainer | Operation::PullImage | Operation::ExecSync | Operation::Exec => {
                tracing::trace!(operation = operation.as_str(), "Calling the runtime");
            }
            _ => tracing::trace!(operation = operation.as_str(), request = ?message, "Calling the runtime"),
        }
        let deadline = deadline.map(|deadline| deadline.min(LONGEST_DEADLINE));
        let kept = self.shared.options.kept.as_ref().filter(|_| operation.is_mutating());
        let _in_flight = kept.map(|kept| kept.begin(deadline));
        let mut request = Request::new(message);
        if let Some(deadline) = deadline {
            // The deadline is also sent with the request, so that the runtime gives up when we do.
            request.set_timeout(deadline);
        }
        self.timed(operation, deadline, send(request)).await.map(Response::into_inner)
    }

    /// Fetches a list: streamed if that is wanted and the runtime implements it, else in one message.
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
        outcome.map_err(|err| if self.socket(operation).preface.is_not_http2() { not_cri(err) } else { err })
    }
}

/// Reads a stream to its end. A stream that breaks off is an error, never a short list: missing items would count as
/// removed.
pub(crate) async fn collect<M, T>(mut stream: Streaming<M>, items: impl Fn(M) -> Vec<T>) -> Result<Vec<T>, Status> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        all.extend(items(message));
    }
    Ok(all)
}
