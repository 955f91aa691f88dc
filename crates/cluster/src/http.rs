//! Static pods from a URL (SRC-03).
//!
//! The URL serves a pod or a list of pods and is read at a fixed interval. A failed read leaves the pods as they were; an
//! invalid pod in a list leaves that pod as it was and does not affect the others.
//!
//! upstream: kubelet/config/http.go (v1.36), where one invalid pod rejects the whole list, and where a body that was empty
//! for a while and then is the same as before counts as unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use rubelet_core::pod::Source;
use rubelet_engine::blocking::MANIFESTS;
use rubelet_engine::ports::{BadPod, Delivery, PodSource};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api::{Resolver, Roots};
use crate::decode::{Decode, Origin, explain};
use crate::text::{self, TextError};

mod fetch;

use fetch::FetchError;

/// Number of failures in a row that are logged as warnings; later ones are logged at debug level.
const LOUD_FAILURES: u32 = 3;

/// Why a manifest URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error("{url:?} is not a URL")]
    Malformed {
        /// The text.
        url: String,
        /// Why not.
        #[source]
        source: ::http::uri::InvalidUri,
    },
    /// The scheme is neither `http` nor `https`, or there is no host.
    #[error("{url:?} is not of the form http://host[:port]/path or https://host[:port]/path")]
    NotHttp {
        /// The text.
        url: String,
    },
    /// Credentials in the URL would show in logs and affect pod UIDs.
    #[error("the manifest URL holds credentials: put them in a header (staticPodURLHeader)")]
    Credentials,
    /// A header has a name or value that HTTP does not allow.
    #[error("{name:?} is not a valid header, or its value is not")]
    Header {
        /// The name of the header.
        name: String,
    },
}

/// Reads static pods from a URL.
pub struct HttpSource {
    url: String,
    uri: Uri,
    headers: HeaderMap,
    every: Duration,
    roots: Roots,
    resolver: Resolver,
    decode: Arc<dyn Decode>,
}

impl HttpSource {
    /// Reads `url` each `every` (`httpCheckFrequency`), sending `headers` (`staticPodURLHeader`).
    ///
    /// # Errors
    /// If the URL or a header is invalid. The check is at start-up, so that not every round fails.
    #[doc(alias = "NewSourceURL")]
    pub fn new(
        url: &str,
        headers: &BTreeMap<String, Vec<String>>,
        every: Duration,
        decode: Arc<dyn Decode>,
    ) -> Result<Self, UrlError> {
        let uri: Uri = url.parse().map_err(|source| UrlError::Malformed { url: url.into(), source })?;
        match (uri.scheme_str(), uri.authority()) {
            (_, Some(authority)) if authority.as_str().contains('@') => return Err(UrlError::Credentials),
            (Some("http" | "https"), Some(_)) => {}
            _ => return Err(UrlError::NotHttp { url: url.into() }),
        }
        Ok(Self {
            url: url.into(),
            uri,
            headers: header_map(headers)?,
            every,
            roots: Roots::System,
            resolver: Resolver::default(),
            decode,
        })
    }

    /// Trusts these certificate authorities instead of the system's.
    #[must_use]
    pub fn trusting(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }
}

fn header_map(headers: &BTreeMap<String, Vec<String>>) -> Result<HeaderMap, UrlError> {
    let mut map = HeaderMap::new();
    for (name, values) in headers {
        let bad = || UrlError::Header { name: name.clone() };
        let key: HeaderName = name.parse().map_err(|_| bad())?;
        for value in values {
            map.append(key.clone(), HeaderValue::from_str(value).map_err(|_| bad())?);
        }
    }
    Ok(map)
}

#[async_trait]
impl PodSource for HttpSource {
    fn source(&self) -> Source {
        Source::Http
    }

    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut task = Task { source: self, body: Bytes::new(), pods: BTreeMap::new(), failures: 0, out };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = task.run() => {}
        }
    }
}

struct Task<'a> {
    source: &'a HttpSource,
    /// The last body; empty before the first one and after an empty one.
    body: Bytes,
    /// The pods last delivered, by namespace and name of the manifest.
    pods: BTreeMap<Key, Arc<Pod>>,
    failures: u32,
    out: mpsc::Sender<Delivery>,
}

/// How a failure is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loudness {
    Loud,
    LastLoud,
    Quiet,
}

impl Loudness {
    /// The level after this many failures in a row.
    fn of(failures: u32) -> Self {
        match failures {
            ..LOUD_FAILURES => Self::Loud,
            LOUD_FAILURES => Self::LastLoud,
            _ => Self::Quiet,
        }
    }
}

/// Namespace and name of a pod in the manifest, before defaulting.
type Key = (String, String);

/// Why a round delivered nothing.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the response is empty")]
    Empty,
    #[error("the response cannot be parsed")]
    Text(#[from] TextError),
    #[error("items of the pod list is not a list")]
    NotAList,
    #[error("the decoder panicked")]
    Panicked(#[source] tokio::task::JoinError),
}

/// A decoded body.
struct Read {
    pods: Vec<Arc<Pod>>,
    bad: Vec<BadPod>,
    /// See [`Task::pods`].
    known: BTreeMap<Key, Arc<Pod>>,
}

impl Task<'_> {
    async fn run(&mut self) {
        while !self.out.is_closed() {
            match self.round().await {
                Ok(()) => self.succeeded(),
                Err(error) => self.failed(&error),
            }
            tokio::time::sleep(self.source.every).await;
        }
    }

    async fn round(&mut self) -> Result<(), RoundError> {
        let body =
            fetch::fetch(&self.source.uri, &self.source.headers, &self.source.roots, &self.source.resolver).await?;
        if body.is_empty() {
            self.body = body;
            self.pods.clear();
            self.deliver(Vec::new(), Vec::new()).await;
            return Err(RoundError::Empty);
        }
        if body == self.body {
            return Ok(());
        }
        let (text, known) = (body.clone(), self.pods.clone());
        let (url, decode) = (self.source.url.clone(), Arc::clone(&self.source.decode));
        // Parsing and validating megabytes takes seconds: it runs off the async thread.
        let read = MANIFESTS.spawn("url", move || read(&text, known, url, &*decode));
        let read = read.await.map_err(RoundError::Panicked)??;
        self.body = body;
        self.pods = read.known;
        self.deliver(read.pods, read.bad).await;
        Ok(())
    }

    async fn deliver(&self, pods: Vec<Arc<Pod>>, bad: Vec<BadPod>) {
        // An error means that the receiver is gone; the task is cancelled then.
        let _ = self.out.send(Delivery { source: Source::Http, pods, bad }).await;
    }

    /// upstream: http.go run (v1.36).
    fn failed(&mut self, error: &RoundError) {
        let (url, err) = (&self.source.url, explain(error));
        match Loudness::of(self.failures) {
            Loudness::Loud => warn!(url, err, "Failed to read pods from URL"),
            Loudness::LastLoud => {
                warn!(url, err, "Failed to read pods from URL; further failures are logged at -v=4 only")
            }
            Loudness::Quiet => debug!(url, err, "Failed to read pods from URL"),
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn succeeded(&mut self) {
        if self.failures > 0 {
            info!(url = self.source.url, "Successfully read pods from URL");
            self.failures = 0;
        }
    }
}

/// Decodes the pods of a new body. An invalid pod stays as it is in `before`. Slow for a large body.
fn read(
    body: &[u8],
    mut before: BTreeMap<Key, Arc<Pod>>,
    url: String,
    decode: &dyn Decode,
) -> Result<Read, RoundError> {
    let items = items(text::parse(body)?.value)?;
    let origin = Origin::Url(url.clone());
    let mut read = Read { pods: Vec::new(), bad: Vec::new(), known: BTreeMap::new() };
    for (index, item) in items.into_iter().enumerate() {
        let key = key(&item);
        let pod = match decode.decode(&item, &origin) {
            Ok(decoded) => {
                for warning in &decoded.warnings {
                    warn!(url, name = key.1, "{warning}");
                }
                Arc::new(decoded.pod)
            }
            Err(error) => {
                let kept = before.remove(&key);
                let goes_on = if kept.is_some() { "; it goes on as it was last read" } else { "" };
                let problem = format!("{}: {}{goes_on}", describe(&key, index), explain(error.as_ref()));
                read.bad.push(BadPod { origin: url.clone(), problem });
                let Some(kept) = kept else { continue };
                kept
            }
        };
        read.known.entry(key).or_insert_with(|| Arc::clone(&pod));
        read.pods.push(pod);
    }
    Ok(read)
}

/// The pods of a body: the body itself, or the items of a list.
fn items(value: Value) -> Result<Vec<Value>, RoundError> {
    if value.get("kind").and_then(Value::as_str) != Some("PodList") {
        return Ok(vec![value]);
    }
    let Value::Object(mut list) = value else { return Ok(Vec::new()) };
    let version = list.get("apiVersion").cloned().unwrap_or(Value::Null);
    let items = match list.remove("items") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(RoundError::NotAList),
    };
    Ok(items.into_iter().map(|item| typed(item, &version)).collect())
}

/// Items of a list may omit `kind` and `apiVersion`: those of the list apply.
fn typed(mut item: Value, version: &Value) -> Value {
    if let Value::Object(item) = &mut item {
        item.entry("apiVersion").or_insert_with(|| version.clone());
        item.entry("kind").or_insert_with(|| "Pod".into());
    }
    item
}

fn key(item: &Value) -> Key {
    let text = |name| item.get("metadata").and_then(|meta| meta.get(name)).and_then(Value::as_str).unwrap_or_default();
    (text("namespace").to_owned(), text("name").to_owned())
}

fn describe((namespace, name): &Key, index: usize) -> String {
    match (namespace.is_empty(), name.is_empty()) {
        (_, true) => format!("pod {index}, counted from 0"),
        (true, false) => format!("pod {name}"),
        (false, false) => format!("pod {name} of namespace {namespace}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Loudness::{self, LastLoud, Loud, Quiet};

    #[test]
    fn src_03_the_first_failures_are_logged_as_warnings_and_the_rest_at_debug_level() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(Loudness::of), [Loud, Loud, Loud, LastLoud, Quiet, Quiet]);
    }
}
