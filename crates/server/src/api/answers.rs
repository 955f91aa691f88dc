//! Responses and their bodies.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// A body: a complete text or a stream.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Answer = Response<Body>;

/// An error response: a status and its text.
pub(super) type Refusal = (StatusCode, String);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// What upstream's pages are without a client that asks for protobuf: it offers no OpenMetrics there.
/// upstream: component-base metrics/http.go HandlerFor, prometheus/common expfmt Negotiate (v0.67)
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// A plain text. Whether it ends with a newline follows upstream.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    with(status, TEXT, whole(body))
}

pub(super) fn json(body: impl Into<Bytes>) -> Answer {
    with(StatusCode::OK, JSON, whole(body))
}

/// A streamed plain text.
pub(super) fn stream(body: Body) -> Answer {
    with(StatusCode::OK, TEXT, body)
}

/// Metrics in Prometheus' text format.
pub(super) fn metrics_page(page: String) -> Answer {
    with(StatusCode::OK, METRICS, whole(page))
}

/// Metrics in Prometheus' text format, part by part.
pub(super) fn metrics_stream(body: Body) -> Answer {
    with(StatusCode::OK, METRICS, body)
}

pub(super) fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).boxed_unsync()
}

fn with(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
