//! Requests to the API server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use rubelet_engine::task::TaskGroup;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connector::{Connector, Shared};
use super::credentials::Credentials;
use super::endpoint::Endpoint;
use super::error::WireError;
use super::limit::{Limiter, Rate, TooMany};
use super::link::{Answer, Ask, Body, Failure, Link, Manners, Processed, Purpose};
use super::names::Names;
use super::pulse::Heartbeat;
use super::status;
use super::strip::without_managed_fields;

/// How long a request may take, unless said otherwise.
const DEADLINE: Duration = Duration::from_secs(30);
/// Largest answer to a request about one object. The API server takes no object above 3 MiB.
const MAX_ANSWER: usize = 16 << 20;
/// Largest answer that says why not.
const MAX_REFUSAL: usize = 1 << 20;
/// How often a request that certainly had no effect is sent before its failure is told.
const ATTEMPTS: u32 = 3;
/// A connection older than this that is answered 401 is replaced: newer credentials may have come meanwhile.
const TRUSTED_FOR: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";

/// Sends requests to the API server. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    connector: Connector,
    limiter: Option<Arc<Limiter>>,
    agent: HeaderValue,
    deadline: Duration,
}

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// `User-Agent`: see [`user_agent`].
    pub user_agent: String,
    /// Requests per second; `None` for as many as there are.
    pub rate: Option<Rate>,
    /// How long a request may take.
    pub deadline: Duration,
    /// How a stalled connection is found.
    pub heartbeat: Heartbeat,
    /// Who looks up the server's name.
    pub names: Names,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user_agent: user_agent("v1.36.4", "rubelet"),
            rate: None,
            deadline: DEADLINE,
            heartbeat: Heartbeat::default(),
            names: Names::default(),
        }
    }
}

/// What upstream's kubelet calls itself, with `program` where it has a commit.
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

/// What kind of patch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// Lists are merged by the keys that their type names.
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

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Zero removes the object at once; `None` leaves it to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// What must be true of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
}

/// What must be true of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// Its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// At once, and only the object with this UID.
    pub fn now(uid: &str) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { grace_period_seconds: Some(0), preconditions: Some(preconditions) }
    }
}

impl Client {
    /// A client of the server at `endpoint`. It connects when it is first used; its task runs in `tasks`.
    pub fn new(
        endpoint: Endpoint,
        credentials: Credentials,
        options: &Options,
        clock: Clock,
        tasks: &mut TaskGroup,
    ) -> Self {
        let shared = Shared { endpoint, credentials, names: options.names.clone(), beat: options.heartbeat, clock };
        let (connector, task) = Connector::new(shared, tasks.cancel_token());
        tasks.start("api-connection", task);
        let agent = HeaderValue::from_str(&options.user_agent).unwrap_or(HeaderValue::from_static("kubelet"));
        let limiter = options.rate.map(|rate| Arc::new(Limiter::new(rate)));
        Self { connector, limiter, agent, deadline: options.deadline }
    }

    /// The same connection under another limit of requests per second.
    #[must_use]
    pub fn with_rate(&self, rate: Option<Rate>) -> Self {
        Self { limiter: rate.map(|rate| Arc::new(Limiter::new(rate))), ..self.clone() }
    }

    /// The same connection with another deadline for each request.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// Where the server is, for people.
    pub fn server(&self) -> String {
        self.connector.shared().endpoint.url()
    }

    /// GET of `path`, which may have a query.
    ///
    /// # Errors
    /// If there is no answer in time, it is a refusal, or not what was expected.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        decode(&self.whole(get(path)).await?)
    }

    /// POST: makes an object.
    ///
    /// # Errors
    /// As [`get`](Self::get). After `Timeout` and `Unavailable` the object may have been made.
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

    /// DELETE: removes an object, or asks for its end.
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
        self.whole(Ask { method, path: path.to_owned(), content_type, body: Some(body) }).await
    }

    /// GET of one page of a list as it came; `None` if it is larger than `most` bytes.
    pub(super) async fn page(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, ApiError> {
        self.bounded(&get(path), most).await
    }

    /// One request and the whole of its answer, within the deadline.
    async fn whole(&self, ask: Ask) -> Result<Vec<u8>, ApiError> {
        let answer = self.bounded(&ask, MAX_ANSWER).await?;
        answer.ok_or_else(|| WireError::TooLarge { limit: MAX_ANSWER }.to_api())
    }

    /// One request and its answer, unless that is larger than `most` bytes.
    async fn bounded(&self, ask: &Ask, most: usize) -> Result<Option<Vec<u8>>, ApiError> {
        let work = async {
            match self.answer(ask, Purpose::Request).await?.whole(most).await {
                Ok(answer) => Ok(Some(answer)),
                Err(WireError::TooLarge { .. }) => Ok(None),
                Err(error) => Err(error.to_api()),
            }
        };
        tokio::time::timeout(self.deadline, work).await.unwrap_or_else(|_| Err(late(ask, self.deadline)))
    }

    /// GET of an answer that does not end: the head of it comes within the deadline, the rest when it comes.
    pub(super) async fn stream(&self, path: &str) -> Result<Body, ApiError> {
        let ask = get(path);
        let answer = tokio::time::timeout(self.deadline, self.answer(&ask, Purpose::Watch)).await;
        answer.unwrap_or_else(|_| Err(late(&ask, self.deadline)))
    }

    /// Waits until there is a connection that was not there before.
    pub(super) async fn reconnected(&self) {
        self.connector.reconnected().await;
    }

    /// How long a request may take.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.connector.shared().clock
    }

    /// Waits for this request's turn under the limit of requests per second. A wait that the request would not live to
    /// see is refused at once; a request that is dropped meanwhile gives its turn back.
    async fn turn(&self, ask: &Ask) -> Result<(), ApiError> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let turn = limiter.take(self.clock().mono(), self.deadline).map_err(|TooMany { wait }| {
            let path = ask.path.split('?').next().unwrap_or_default();
            let detail = format!(
                "{} {path}: too many requests of this node wait to be sent: this one would wait {wait:?}, and may take \
                 {:?} (kubeAPIQPS, kubeAPIBurst)",
                ask.method, self.deadline
            );
            ApiError { kind: ApiErrorKind::Busy { retry_after: None }, detail }
        })?;
        if !turn.wait.is_zero() {
            tokio::time::sleep(turn.wait).await;
        }
        turn.spend();
        Ok(())
    }

    /// The body of a successful answer.
    async fn answer(&self, ask: &Ask, purpose: Purpose) -> Result<Body, ApiError> {
        let clock = self.clock();
        self.turn(ask).await?;
        let credentials = &self.connector.shared().credentials;
        credentials.look_at_files(clock.mono()).await;
        let (answer, link) = self.attempts(ask, purpose).await.map_err(|error| error.to_api())?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        if answer.status == http::StatusCode::UNAUTHORIZED {
            credentials.refused();
            // A certificate that expired on an open connection is refused request by request: come again with the
            // newest.
            if clock.mono().since(link.made) > TRUSTED_FOR && link.version == credentials.version() {
                credentials.renew();
            }
        }
        let body = answer.body.whole(MAX_REFUSAL).await.unwrap_or_default();
        let mut error = status::error(answer.status, &answer.headers, &body);
        if error.kind == ApiErrorKind::Unauthorized
            && let Some(end) = credentials.expired(clock.wall())
        {
            error.detail += &format!(" (our client certificate expired at {end})");
        }
        Err(error)
    }

    /// Sends a request, on a new connection if the one at hand turns out to be over before the request was looked at.
    async fn attempts(&self, ask: &Ask, purpose: Purpose) -> Result<(Answer, Arc<Link>), Arc<WireError>> {
        let shared = self.connector.shared();
        let mut attempt = 1;
        loop {
            let authorization = shared.credentials.authorization(shared.clock.now()).await;
            let server = shared.endpoint.url();
            let authorization = authorization.map_err(|source| WireError::Credentials { server, source })?;
            let manners = Manners { agent: self.agent.clone(), authorization };
            let seat = self.connector.seat(purpose).await?;
            let link = Arc::clone(&seat.link);
            match link.exchange(ask, &manners).await {
                Ok(mut answer) => {
                    answer.body.seat = Some(seat);
                    return Ok((answer, link));
                }
                Err(failure) if attempt < ATTEMPTS && again(ask, &failure) => attempt += 1,
                Err(failure) => return Err(Arc::new(failure.error)),
            }
        }
    }
}

fn get(path: &str) -> Ask {
    Ask { method: Method::GET, path: path.to_owned(), content_type: JSON, body: None }
}

/// Whether to send it again is safe: it had no effect, or would have none.
fn again(ask: &Ask, failure: &Failure) -> bool {
    failure.processed == Processed::No || ask.method == Method::GET
}

fn late(ask: &Ask, deadline: Duration) -> ApiError {
    let path = ask.path.split('?').next().unwrap_or_default();
    ApiError { kind: ApiErrorKind::Timeout, detail: format!("{} {path}: no answer within {deadline:?}", ask.method) }
}

fn encode<T: Serialize>(body: &T) -> Result<Bytes, ApiError> {
    let text = serde_json::to_vec(body);
    let text = text.map_err(|error| ApiError {
        kind: ApiErrorKind::Invalid,
        detail: format!("the object cannot be written as JSON: {error}"),
    })?;
    Ok(Bytes::from(text))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let garbage = |error: &dyn std::fmt::Display| ApiError {
        kind: ApiErrorKind::Garbage,
        detail: format!("the answer cannot be read: {error}"),
    };
    let text = std::str::from_utf8(body).map_err(|error| garbage(&error))?;
    serde_json::from_str(&without_managed_fields(text)).map_err(|error| garbage(&error))
}
