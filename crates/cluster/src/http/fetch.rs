//! One GET with a deadline and a size limit, following redirects.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, WWW_AUTHENTICATE};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::MAX_MANIFEST;
use crate::api::{Resolver, Roots, SecureError, Wire, reach, secured};

/// Deadline of the GET including redirects, as upstream.
const DEADLINE: Duration = Duration::from_secs(10);
/// As many redirects as Go's client follows.
const MAX_REDIRECTS: usize = 10;
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Why a URL could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{uri} did not respond within {DEADLINE:?}")]
    Timeout { uri: Uri },
    #[error("connect to {host}:{port}")]
    Connect { host: String, port: u16, source: std::io::Error },
    #[error("TLS with {host}:{port}")]
    Tls { host: String, port: u16, source: SecureError },
    #[error("GET {uri}")]
    Exchange { uri: Uri, source: hyper::Error },
    #[error("{uri} answered {status}")]
    Status { uri: Uri, status: StatusCode },
    #[error("the response is larger than {MAX_MANIFEST} bytes")]
    TooLarge,
    #[error("read the response")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{uri} redirects to {location:?}, which is not a http or https URL")]
    Redirect { uri: Uri, location: String },
    #[error("it redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("build the request")]
    Request(#[from] http::Error),
}

pub(super) async fn fetch(
    uri: &Uri,
    headers: &HeaderMap,
    roots: &Roots,
    resolver: &Resolver,
) -> Result<Bytes, FetchError> {
    let all = follow(uri, headers, roots, resolver);
    tokio::time::timeout(DEADLINE, all).await.unwrap_or_else(|_| Err(FetchError::Timeout { uri: uri.clone() }))
}

/// The result of one exchange.
enum Answer {
    Body(Bytes),
    Redirect(Uri),
}

async fn follow(uri: &Uri, headers: &HeaderMap, roots: &Roots, resolver: &Resolver) -> Result<Bytes, FetchError> {
    let mut uri = uri.clone();
    let mut headers = headers.clone();
    for _ in 0..=MAX_REDIRECTS {
        match get(&uri, &headers, roots, resolver).await? {
            Answer::Body(body) => return Ok(body),
            Answer::Redirect(next) => {
                if next.host() != uri.host() || next.scheme_str() != uri.scheme_str() {
                    // Credentials are sent only to the configured host, and never without TLS if it was configured.
                    for secret in [AUTHORIZATION, COOKIE, WWW_AUTHENTICATE] {
                        headers.remove(secret);
                    }
                }
                uri = next;
            }
        }
    }
    Err(FetchError::TooManyRedirects)
}

async fn get(uri: &Uri, headers: &HeaderMap, roots: &Roots, resolver: &Resolver) -> Result<Answer, FetchError> {
    let wire = connect(uri, roots, resolver).await?;
    let exchange = |source| FetchError::Exchange { uri: uri.clone(), source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(exchange)?;
    let request = request(uri, headers)?;
    let work = async {
        let answer = sender.send_request(request).await.map_err(exchange)?;
        let status = answer.status();
        if let Some(location) = answer.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            return redirect(uri, location).map(Answer::Redirect);
        }
        let body = Limited::new(answer.into_body(), MAX_MANIFEST).collect().await.map_err(body_error)?.to_bytes();
        if status == StatusCode::OK {
            Ok(Answer::Body(body))
        } else {
            Err(FetchError::Status { uri: uri.clone(), status })
        }
    };
    // The connection is driven for as long as the request lasts.
    let (mut work, mut connection) = (pin!(work), pin!(connection));
    tokio::select! {
        biased;
        answer = &mut work => answer,
        _ = &mut connection => work.await,
    }
}

async fn connect(uri: &Uri, roots: &Roots, resolver: &Resolver) -> Result<Box<dyn Wire>, FetchError> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if tls { HTTPS_PORT } else { HTTP_PORT });
    let stream = reach(resolver, &host, port).await;
    let stream = stream.map_err(|source| FetchError::Connect { host: host.clone(), port, source })?;
    if !tls {
        return Ok(Box::new(stream));
    }
    secured(stream, &host, roots).await.map_err(|source| FetchError::Tls { host, port, source })
}

fn request(uri: &Uri, headers: &HeaderMap) -> Result<Request<Empty<Bytes>>, FetchError> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut request = Request::get(path).body(Empty::new())?;
    request.headers_mut().clone_from(headers);
    let authority = uri.authority().map_or("", Authority::as_str);
    let host = HeaderValue::from_str(authority).map_err(http::Error::from)?;
    request.headers_mut().entry(HOST).or_insert(host);
    Ok(request)
}

fn body_error(error: Box<dyn std::error::Error + Send + Sync>) -> FetchError {
    if error.is::<LengthLimitError>() { FetchError::TooLarge } else { FetchError::Body(error) }
}

/// The target of a redirect: an absolute URL, or a path on the same host.
fn redirect(uri: &Uri, location: &HeaderValue) -> Result<Uri, FetchError> {
    let text = location.to_str().unwrap_or_default();
    let bad =
        || FetchError::Redirect { uri: uri.clone(), location: String::from_utf8_lossy(location.as_bytes()).into() };
    let path = if text.starts_with('/') && !text.starts_with("//") {
        text.to_owned()
    } else if text.contains("://") {
        let next: Uri = text.parse().map_err(|_| bad())?;
        return if matches!(next.scheme_str(), Some("http" | "https")) && next.host().is_some() {
            Ok(next)
        } else {
            Err(bad())
        };
    } else {
        let directory = uri.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{directory}/{text}")
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().map_err(|_| bad())?);
    Uri::from_parts(parts).map_err(|_| bad())
}
