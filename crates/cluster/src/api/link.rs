//! A connection to the API server, and the exchanges on it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_rustls::rustls;

use super::body::{Body, Inner};
use super::connector::Shared;
use super::dial::{Dialled, HttpVersion};
use super::error::WireError;
use super::heartbeat::{Liveness, LivenessChange, stalled};

/// Flow-control window of a stream: lists and large objects are transferred without waiting for window updates.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest response head.
const MAX_HEADERS: u32 = 64 << 10;
/// Most watches on one connection. The API server allows a hundred streams; the rest is for requests.
const MOST_WATCHES: usize = 60;

/// A request before it is sent on a connection.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Option<Bytes>,
}

/// Headers of every request.
#[derive(Clone, Debug)]
pub(super) struct CommonHeaders {
    pub(super) agent: HeaderValue,
    pub(super) authorization: Option<HeaderValue>,
    /// `traceparent`: the span of which the server's part of the request is a part.
    pub(super) trace: Option<HeaderValue>,
}

/// A connection, shared by many requests.
pub(super) struct Link {
    /// Identifies the connection in liveness changes.
    pub(super) id: u64,
    /// Version of the credentials that it was made with.
    pub(super) version: u64,
    pub(super) made: rubelet_core::time::Instant,
    shared: Arc<Shared>,
    kind: Kind,
    /// No new streams are opened on it.
    retired: AtomicBool,
    /// Number of watches that hold a slot.
    watches: AtomicUsize,
    /// Why it was closed.
    over: Arc<OnceLock<Over>>,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request: ends within its deadline.
    Request,
    /// A watch: ends after minutes.
    Watch,
}

/// A slot on a connection, freed when dropped.
pub(super) struct Slot {
    pub(super) link: Arc<Link>,
    purpose: Purpose,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.purpose == Purpose::Watch {
            self.link.watches.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

enum Kind {
    Http2 {
        send: SendRequest<Bytes>,
        liveness: Arc<Liveness>,
    },
    /// Every exchange dials a connection of its own.
    Http1,
}

/// Why a connection was closed.
#[derive(Clone, Debug)]
pub(super) enum Over {
    /// No data was received for this time.
    Stalled(Duration),
    Refused(rustls::Error),
    Closed(Option<Arc<h2::Error>>),
}

/// The future that drives a connection; it ends when the connection closes.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A response whose body has not been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// A failed exchange, and whether the server may have processed the request.
pub(super) struct Failure {
    pub(super) error: WireError,
    pub(super) processed: Processed,
}

/// Whether the server may have processed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processed {
    Perhaps,
    /// Certainly not: sending it again is safe.
    No,
}

impl Link {
    /// Makes a connection. The driver must be polled for it to work.
    pub(super) async fn make(
        id: u64,
        dialled: Option<Dialled>,
        shared: Arc<Shared>,
        version: u64,
        made: rubelet_core::time::Instant,
        tell: mpsc::Sender<(u64, LivenessChange)>,
    ) -> Result<(Self, Option<Driver>), WireError> {
        let over = Arc::new(OnceLock::new());
        let (retired, watches) = (AtomicBool::new(false), AtomicUsize::new(0));
        let link = |kind, over| Self { id, version, made, shared: Arc::clone(&shared), kind, retired, watches, over };
        let Some(dialled) = dialled.filter(|dialled| dialled.version == HttpVersion::Http2) else {
            return Ok((link(Kind::Http1, over), None));
        };
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
        builder.max_header_list_size(MAX_HEADERS);
        let failed = |source| WireError::Http2 { server: shared.endpoint.url(), source };
        let beat = shared.beat;
        let (send, mut connection) = builder.handshake(dialled.wire).await.map_err(failed)?;
        let liveness = Arc::new(Liveness::of(dialled.reads));
        let (ping, watched, end) = (connection.ping_pong(), Arc::clone(&liveness), Arc::clone(&over));
        let tls_failure = dialled.tls_failure;
        let signal = move |change| {
            // A change that does not fit the queue can be dropped: the connector also reads the liveness itself.
            let _ = tell.try_send((id, change));
        };
        let driver = async move {
            let result = tokio::select! {
                biased;
                result = connection => Over::Closed(result.err().map(Arc::new)),
                silence = stalled(ping, watched, beat, signal) => {
                    Over::Stalled(silence)
                }
            };
            // A TLS error is the cause, if there is one. Set before the requests on this connection are polled again.
            let _ = end.set(tls_failure.get().cloned().map_or(result, Over::Refused));
        };
        Ok((link(Kind::Http2 { send, liveness }, over), Some(Box::pin(driver))))
    }

    /// Whether new streams may be opened on it, with credentials of this version.
    pub(super) fn is_good(&self, version: u64) -> bool {
        self.is_kept(version) && !self.liveness().is_some_and(Liveness::is_suspect)
    }

    /// Whether it is good, or suspect and may recover.
    pub(super) fn is_kept(&self, version: u64) -> bool {
        self.over.get().is_none() && !self.retired.load(Ordering::Relaxed) && self.version == version
    }

    pub(super) fn liveness(&self) -> Option<&Liveness> {
        match &self.kind {
            Kind::Http2 { liveness, .. } => Some(liveness),
            Kind::Http1 => None,
        }
    }

    pub(super) fn has_watches(&self) -> bool {
        self.watches.load(Ordering::Acquire) > 0
    }

    /// A slot, if there is one.
    pub(super) fn slot(self: &Arc<Self>, purpose: Purpose) -> Option<Slot> {
        if purpose == Purpose::Watch {
            let most = match &self.kind {
                // A server may allow fewer streams than the default.
                Kind::Http2 { send, .. } => MOST_WATCHES.min(send.current_max_send_streams() / 2).max(1),
                Kind::Http1 => usize::MAX,
            };
            let more = |taken: usize| taken.checked_add(1).filter(|taken| *taken <= most);
            self.watches.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        }
        Some(Slot { link: Arc::clone(self), purpose })
    }

    pub(super) fn over(&self) -> Option<&Over> {
        self.over.get()
    }

    pub(super) fn server(&self) -> String {
        self.shared.endpoint.url()
    }

    /// Sends a request and waits for the response head.
    pub(super) async fn exchange(&self, call: &Call, common: &CommonHeaders) -> Result<Answer, Failure> {
        match &self.kind {
            Kind::Http2 { send, liveness } => self.exchange_2(send.clone(), liveness, call, common).await,
            Kind::Http1 => self.exchange_1(call, common).await,
        }
    }

    async fn exchange_2(
        &self,
        send: SendRequest<Bytes>,
        liveness: &Liveness,
        call: &Call,
        common: &CommonHeaders,
    ) -> Result<Answer, Failure> {
        let stream = liveness.open.stream();
        let unsent = |source| {
            // The connection is closed, or the server has sent GOAWAY.
            self.retired.store(true, Ordering::Relaxed);
            Failure { error: self.lost(source), processed: Processed::No }
        };
        let uri = format!("{}{}{}", self.shared.endpoint.url(), self.shared.endpoint.base, call.path);
        let request = request(call, common, &uri).map_err(unmade)?.body(()).map_err(unmade)?;
        let mut send = send.ready().await.map_err(unsent)?;
        let body = call.body.clone();
        let (answer, mut out) = send.send_request(request, body.is_none()).map_err(unsent)?;
        // Data beyond the flow-control window is buffered in the connection: request bodies are small.
        if let Some(body) = body {
            out.send_data(body, true).map_err(unsent)?;
        }
        let answer = answer.await.map_err(|source| {
            let processed = if never_processed(&source) { Processed::No } else { Processed::Perhaps };
            self.retired.fetch_or(source.is_go_away(), Ordering::Relaxed);
            Failure { error: self.lost(source), processed }
        })?;
        let (head, stream_in) = answer.into_parts();
        let inner = Inner::Http2 { stream: stream_in, _open: stream };
        let body = Body { inner, slot: None, over: Arc::clone(&self.over), server: self.server() };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    async fn exchange_1(&self, call: &Call, common: &CommonHeaders) -> Result<Answer, Failure> {
        let unsent = |error| Failure { error, processed: Processed::No };
        let failed = |source| WireError::Http1 { server: self.shared.endpoint.url(), source };
        let dialled = self.shared.dial().await.map_err(unsent)?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(dialled.wire)).await;
        let (mut send, connection) = handshake.map_err(|source| unsent(failed(source)))?;
        let path = format!("{}{}", self.shared.endpoint.base, call.path);
        let host =
            HeaderValue::from_str(&self.shared.endpoint.authority()).map_err(http::Error::from).map_err(unmade)?;
        let request = request(call, common, &path).map_err(unmade)?.header(HOST, host);
        let request = request.body(Full::new(call.body.clone().unwrap_or_default())).map_err(unmade)?;
        let mut driver: Driver = Box::pin(async move {
            let _ = connection.await;
        });
        let mut ended = false;
        let answer = {
            let answer = send.send_request(request);
            let mut answer = std::pin::pin!(answer);
            tokio::select! {
                biased;
                answer = &mut answer => answer,
                () = &mut driver => {
                    ended = true;
                    answer.await
                }
            }
        };
        let answer: Response<Incoming> =
            answer.map_err(|source| Failure { error: failed(source), processed: Processed::Perhaps })?;
        let (head, body) = answer.into_parts();
        // A server that closes the connection with its answer ends it here, and a future that has ended is not polled again.
        let driver = (!ended).then_some(driver);
        let inner = Inner::Http1 { body: Box::new(body), driver };
        let body = Body { inner, slot: None, over: Arc::clone(&self.over), server: self.server() };
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    fn lost(&self, source: h2::Error) -> WireError {
        lost(&self.over, self.server(), source)
    }
}

/// A request with its headers, without the body.
fn request(call: &Call, common: &CommonHeaders, uri: &str) -> Result<http::request::Builder, http::Error> {
    let mut request = Request::builder().method(call.method.clone()).uri(uri);
    request = request.header(ACCEPT, "application/json").header(USER_AGENT, common.agent.clone());
    if let Some(authorization) = &common.authorization {
        request = request.header(AUTHORIZATION, authorization.clone());
    }
    if let Some(trace) = &common.trace {
        request = request.header("traceparent", trace.clone());
    }
    if let Some(body) = &call.body {
        request = request.header(CONTENT_TYPE, call.content_type).header(CONTENT_LENGTH, body.len());
    }
    Ok(request)
}

fn unmade(source: http::Error) -> Failure {
    Failure { error: WireError::Request(source), processed: Processed::No }
}

pub(super) fn lost(over: &OnceLock<Over>, server: String, source: h2::Error) -> WireError {
    match over.get() {
        Some(Over::Stalled(silence)) => WireError::Stalled { server, after: *silence },
        Some(Over::Refused(why)) => WireError::Tls { server, source: std::io::Error::other(why.clone()) },
        // Closed without a TLS close_notify: the library's text for that does not help an administrator.
        Some(Over::Closed(Some(why))) if cut(why) => WireError::Closed { server },
        // The stream only knows that the connection is closed; the connection knows why.
        Some(Over::Closed(Some(why))) if source.is_io() => WireError::Lost { server, source: Arc::clone(why) },
        _ => WireError::Http2 { server, source },
    }
}

fn cut(error: &h2::Error) -> bool {
    error.get_io().is_some_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof)
}

/// Whether the server states that it did not process this stream.
fn never_processed(error: &h2::Error) -> bool {
    error.is_remote() && (error.reason() == Some(Reason::REFUSED_STREAM) || error.is_go_away())
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stalled(silence) => write!(f, "nothing was received for {silence:?}"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::Closed(None) => f.write_str("closed"),
            Self::Closed(Some(why)) if cut(why) => f.write_str("closed by the server"),
            Self::Closed(Some(why)) => write!(f, "closed: {why}"),
        }
    }
}
