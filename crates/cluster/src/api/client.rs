//! Requests to the API server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use rubelet_engine::task::TaskGroup;
use rubelet_engine::trace::{self, Span, SpanContext, SpanKind, Tracer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::Body;
use super::connector::{Connector, Shared};
use super::credentials::Credentials;
use super::endpoint::Endpoint;
use super::error::WireError;
use super::heartbeat::Heartbeat;
use super::limit::{Limiter, Rate, TooMany};
use super::link::{Answer, Call, CommonHeaders, Failure, Link, Processed, Purpose};
use super::resolver::Resolver;
use super::status;
use super::strip::without_managed_fields;
use crate::metrics::ClusterMetrics;

/// Default deadline of a request.
const DEADLINE: Duration = Duration::from_secs(30);
/// Largest response with one object. The API server rejects objects above 3 MiB.
const MAX_ANSWER: usize = 16 << 20;
/// Largest error response.
const MAX_REFUSAL: usize = 1 << 20;
/// Attempts for a request that certainly had no effect, before its failure is returned.
const ATTEMPTS: u32 = 3;
/// After a 401, a connection older than this is replaced: newer credentials may have arrived since it was made.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";

/// Sends requests to the API server. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    connector: Connector,
    limiter: Option<Arc<Limiter>>,
    agent: HeaderValue,
    deadline: Duration,
    /// The server's name and port, for metrics.
    host: Arc<str>,
    metrics: Arc<ClusterMetrics>,
    tracer: Tracer,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// `User-Agent`: see [`user_agent`].
    pub user_agent: String,
    /// Rate limit; `None` for no limit.
    pub rate: Option<Rate>,
    /// Deadline of a request.
    pub deadline: Duration,
    /// How a stalled connection is detected.
    pub heartbeat: Heartbeat,
    /// Resolves the server's host name.
    pub resolver: Resolver,
    /// Counts requests.
    pub metrics: Arc<ClusterMetrics>,
    /// Makes a span of each request.
    pub tracer: Tracer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user_agent: user_agent("v1.36.4", "rubelet"),
            rate: None,
            deadline: DEADLINE,
            heartbeat: Heartbeat::default(),
            resolver: Resolver::default(),
            metrics: Arc::default(),
            tracer: Tracer::off(),
        }
    }
}

/// The kubelet's `User-Agent`, with `program` in the place of the commit.
///
/// upstream: client-go rest.DefaultKubernetesUserAgent (v1.36).
pub fn user_agent(kubernetes: &str, program: &str) -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("kubelet/{kubernetes} (linux/{arch}) kubernetes/{program}")
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// Lists are merged by the merge keys of their type.
    Strategic,
    /// RFC 7386: lists are replaced.
    Merge,
    /// Server-side apply; the path has `fieldManager`.
    Apply,
}

impl PatchKind {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Body of a DELETE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Zero removes the object at once; `None` leaves the grace period to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Conditions under which the object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
}

/// Conditions under which an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// Expected UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Expected resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Grace period zero, with the UID as precondition.
    pub fn now(uid: &str) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { grace_period_seconds: Some(0), preconditions: Some(preconditions) }
    }
}

impl Client {
    /// A client of the server at `endpoint`. It connects on first use; its task runs in `tasks`.
    pub fn new(
        endpoint: Endpoint,
        credentials: Credentials,
        options: &Options,
        clock: Clock,
        tasks: &mut TaskGroup,
    ) -> Self {
        let shared =
            Shared { endpoint, credentials, resolver: options.resolver.clone(), beat: options.heartbeat, clock };
        let host = shared.endpoint.authority().into();
        let (connector, task) = Connector::new(shared, tasks.cancel_token());
        tasks.start("api-connection", task);
        let agent = HeaderValue::from_str(&options.user_agent).unwrap_or(HeaderValue::from_static("kubelet"));
        let limiter = options.rate.map(|rate| Arc::new(Limiter::new(rate)));
        let (metrics, tracer) = (Arc::clone(&options.metrics), options.tracer.clone());
        Self { connector, limiter, agent, deadline: options.deadline, host, metrics, tracer }
    }

    /// The same connection with another rate limit.
    #[must_use]
    pub fn with_rate(&self, rate: Option<Rate>) -> Self {
        Self { limiter: rate.map(|rate| Arc::new(Limiter::new(rate))), ..self.clone() }
    }

    /// The same connection with another request deadline.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    pub(crate) fn metrics(&self) -> &Arc<ClusterMetrics> {
        &self.metrics
    }

    /// The server's URL, for messages.
    pub fn server(&self) -> String {
        self.connector.shared().endpoint.url()
    }

    /// GET of `path`, which may have a query.
    ///
    /// # Errors
    /// If there is no response in time, the server rejects the request, or the response cannot be decoded.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        decode(&self.whole(get(path)).await?)
    }

    /// POST: creates an object.
    ///
    /// # Errors
    /// As [`get`](Self::get). After `Timeout` and `Unavailable` the object may have been created.
    pub async fn create<T: Serialize + Sync, R: DeserializeOwned>(&self, path: &str, body: &T) -> Result<R, ApiError> {
        decode(&self.send(Method::POST, path, JSON, encode(body)?).await?)
    }

    /// PUT: replaces an object.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn replace<T: Serialize + Sync, R: DeserializeOwned>(&self, path: &str, body: &T) -> Result<R, ApiError> {
        decode(&self.send(Method::PUT, path, JSON, encode(body)?).await?)
    }

    /// PATCH: changes an object.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn patch<R: DeserializeOwned>(&self, path: &str, kind: PatchKind, body: &str) -> Result<R, ApiError> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        decode(&self.send(Method::PATCH, path, kind.content_type(), body).await?)
    }

    /// DELETE: removes an object, or starts its graceful deletion.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub async fn delete(&self, path: &str, options: &DeleteOptions) -> Result<(), ApiError> {
        let options = serde_json::json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": options.grace_period_seconds,
            "preconditions": options.preconditions,
        });
        self.send(Method::DELETE, path, JSON, encode(&options)?).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Vec<u8>, ApiError> {
        self.whole(Call { method, path: path.to_owned(), content_type, body: Some(body) }).await
    }

    /// GET of one page of a list, not decoded; `None` if it is larger than `most` bytes.
    pub(super) async fn page(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, ApiError> {
        self.bounded(&get(path), most).await
    }

    /// Sends a request and reads the whole response within the deadline.
    async fn whole(&self, call: Call) -> Result<Vec<u8>, ApiError> {
        let answer = self.bounded(&call, MAX_ANSWER).await?;
        answer.ok_or_else(|| WireError::TooLarge { limit: MAX_ANSWER }.to_api())
    }

    /// As [`whole`](Self::whole); `None` if the response is larger than `most` bytes.
    async fn bounded(&self, call: &Call, most: usize) -> Result<Option<Vec<u8>>, ApiError> {
        let mut span = self.span(call);
        let context = span.as_ref().map(Span::context);
        let work = async {
            match self.answer(call, Purpose::Request, context).await?.whole(most).await {
                Ok(answer) => Ok(Some(answer)),
                Err(WireError::TooLarge { .. }) => Ok(None),
                Err(error) => Err(error.to_api()),
            }
        };
        let began = self.clock().mono();
        let answer = tokio::time::timeout(self.deadline, work).await;
        let (took, sent) = (self.clock().mono().since(began), call.body.as_ref().map_or(0, Bytes::len));
        let received = answer.as_ref().ok().and_then(|answer| Some(answer.as_ref().ok()?.as_ref()?.len()));
        self.metrics.requested(&self.host, &call.method, took, sent, received);
        let answer = answer.unwrap_or_else(|_| Err(late(call, self.deadline)));
        if let (Some(span), Err(err)) = (&mut span, &answer) {
            span.fail(err);
        }
        answer
    }

    /// The span of a request, as part of the job that makes it; `None` if there are no traces.
    /// upstream: component-base/tracing WrapperFor (v1.36); otelhttp's names
    #[doc(alias = "WrapperFor")]
    fn span(&self, call: &Call) -> Option<Span> {
        if !self.tracer.is_on() {
            return None;
        }
        let mut span = self.tracer.start(format!("HTTP {}", call.method), SpanKind::Client, trace::current())?;
        span.set("http.request.method", call.method.to_string());
        span.set("server.address", self.host.to_string());
        // A query may have the whole of a field selector.
        span.set("url.path", call.path.split('?').next().unwrap_or_default().to_owned());
        Some(span)
    }

    /// GET of a watch: the response head must come within the deadline, the body has none.
    pub(super) async fn stream(&self, path: &str) -> Result<Body, ApiError> {
        let call = get(path);
        let answer = tokio::time::timeout(self.deadline, self.answer(&call, Purpose::Watch, None)).await;
        answer.unwrap_or_else(|_| Err(late(&call, self.deadline)))
    }

    /// Waits until a new connection has been made.
    pub(super) async fn reconnected(&self) {
        self.connector.reconnected().await;
    }

    /// Deadline of a request.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.connector.shared().clock
    }

    /// Waits for a token of the rate limit. A wait beyond the deadline is rejected at once; a request that is dropped while
    /// it waits returns its token.
    async fn wait_for_rate_limit(&self, call: &Call) -> Result<(), ApiError> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let reservation = limiter.take(self.clock().mono(), self.deadline).map_err(|TooMany { wait }| {
            let path = call.path.split('?').next().unwrap_or_default();
            let detail = format!(
                "{} {path}: client-side rate limit: this request would wait {wait:?}, and may take \
                 {:?} (kubeAPIQPS, kubeAPIBurst)",
                call.method, self.deadline
            );
            ApiError { kind: ApiErrorKind::Busy { retry_after: None }, detail }
        })?;
        self.metrics.limited(&self.host, &call.method, reservation.wait);
        if !reservation.wait.is_zero() {
            tokio::time::sleep(reservation.wait).await;
        }
        reservation.spend();
        Ok(())
    }

    /// The body of a successful response.
    async fn answer(&self, call: &Call, purpose: Purpose, span: Option<SpanContext>) -> Result<Body, ApiError> {
        let clock = self.clock();
        self.wait_for_rate_limit(call).await?;
        let credentials = &self.connector.shared().credentials;
        credentials.look_at_files(clock.mono()).await;
        let (answer, link) = self.attempts(call, purpose, span).await.map_err(|error| error.to_api())?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        if answer.status == http::StatusCode::UNAUTHORIZED {
            credentials.refused();
            // On an open connection an expired certificate is rejected request by request: the next request connects
            // again, with the newest certificate.
            if clock.mono().since(link.made) > TRUSTED_FOR && link.version == credentials.version() {
                credentials.renew();
            }
        }
        let body = answer.body.whole(MAX_REFUSAL).await.unwrap_or_default();
        let mut error = status::error(answer.status, &answer.headers, &body);
        if error.kind == ApiErrorKind::Unauthorized
            && let Some(end) = credentials.expired(clock.wall())
        {
            error.detail += &format!(" (the client certificate expired at {end})");
        }
        Err(error)
    }

    /// Sends a request, on a new connection if the current one closed before the server read the request.
    async fn attempts(
        &self,
        call: &Call,
        purpose: Purpose,
        span: Option<SpanContext>,
    ) -> Result<(Answer, Arc<Link>), Arc<WireError>> {
        let shared = self.connector.shared();
        let mut attempt = 1;
        loop {
            let authorization = shared.credentials.authorization(shared.clock.now()).await;
            let server = shared.endpoint.url();
            let authorization = authorization.map_err(|source| WireError::Credentials { server, source })?;
            let trace = span.and_then(|span| HeaderValue::try_from(span.to_string()).ok());
            let common = CommonHeaders { agent: self.agent.clone(), authorization, trace };
            let slot = self.connector.slot(purpose).await?;
            let link = Arc::clone(&slot.link);
            let exchanged = link.exchange(call, &common).await;
            let status = exchanged.as_ref().ok().map(|answer| answer.status.as_u16());
            self.metrics.answered(&self.host, &call.method, status);
            match exchanged {
                Ok(mut answer) => {
                    answer.body.slot = Some(slot);
                    return Ok((answer, link));
                }
                Err(failure) if attempt < ATTEMPTS && again(call, &failure) => attempt += 1,
                Err(failure) => return Err(Arc::new(failure.error)),
            }
        }
    }
}

fn get(path: &str) -> Call {
    Call { method: Method::GET, path: path.to_owned(), content_type: JSON, body: None }
}

/// Whether sending the request again is safe: it had no effect, or it is a read.
fn again(call: &Call, failure: &Failure) -> bool {
    failure.processed == Processed::No || call.method == Method::GET
}

fn late(call: &Call, deadline: Duration) -> ApiError {
    let path = call.path.split('?').next().unwrap_or_default();
    ApiError { kind: ApiErrorKind::Timeout, detail: format!("{} {path}: no answer within {deadline:?}", call.method) }
}

fn encode<T: Serialize>(body: &T) -> Result<Bytes, ApiError> {
    let text = serde_json::to_vec(body);
    let text = text.map_err(|error| ApiError {
        kind: ApiErrorKind::Invalid,
        detail: format!("the object cannot be encoded as JSON: {error}"),
    })?;
    Ok(Bytes::from(text))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let garbage = |error: &dyn std::fmt::Display| ApiError {
        kind: ApiErrorKind::Garbage,
        detail: format!("the response cannot be decoded: {error}"),
    };
    let text = std::str::from_utf8(body).map_err(|error| garbage(&error))?;
    serde_json::from_str(&without_managed_fields(text)).map_err(|error| garbage(&error))
}
