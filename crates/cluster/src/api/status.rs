//! From an answer that is no success to an [`ApiError`].

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::Deserialize;

/// Longest text of an answer that is no Status and is shown to people.
const MAX_SHOWN: usize = 256;

/// What the API server says of a request that failed; also the object of a watch's ERROR event.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    kind: String,
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: u64,
}

/// The error that an answer with this status, header and body is.
pub(super) fn error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let said: Status = serde_json::from_slice(body).unwrap_or_default();
    let said = if said.kind == "Status" { said } else { Status::default() };
    let retry_after = retry_after(headers);
    let detail = if said.message.is_empty() { describe(status, body) } else { said.message.clone() };
    ApiError { kind: kind(status.as_u16(), &said, retry_after), detail }
}

/// The error that a watch's ERROR event is.
pub(super) fn event_error(said: &Status) -> ApiError {
    let detail =
        if said.message.is_empty() { format!("the watch failed with {}", said.code) } else { said.message.clone() };
    ApiError { kind: kind(said.code, said, None), detail }
}

fn kind(code: u16, said: &Status, retry_after: Option<Duration>) -> ApiErrorKind {
    let asked = said.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    let retry_after = retry_after.or(asked.map(Duration::from_secs));
    match code {
        401 => ApiErrorKind::Unauthorized,
        403 => ApiErrorKind::Forbidden,
        404 => ApiErrorKind::NotFound,
        409 if said.reason == "AlreadyExists" => ApiErrorKind::AlreadyExists,
        409 => ApiErrorKind::Conflict,
        410 => ApiErrorKind::Gone,
        400 | 422 => ApiErrorKind::Invalid,
        429 => ApiErrorKind::Busy { retry_after },
        // A server that is about to go down, or not up yet, says when to come back.
        503 if retry_after.is_some() => ApiErrorKind::Busy { retry_after },
        504 if said.reason == "Timeout" => ApiErrorKind::Timeout,
        _ => match said.reason.as_str() {
            "Expired" | "Gone" => ApiErrorKind::Gone,
            _ => ApiErrorKind::Failed,
        },
    }
}

/// Seconds; the API server never sends a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn describe(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return format!("the server answered {status}");
    }
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    format!("the server answered {status}: {shown}")
}
