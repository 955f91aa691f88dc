//! Turns an error response into an [`ApiError`].

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::Deserialize;

/// Longest text of a response without a Status that is shown.
const MAX_SHOWN: usize = 256;
/// Longest message of a Status that is kept: it ends up in logs and events.
const MAX_MESSAGE: usize = 2 << 10;
/// Cause in a 504: the server has not reached the requested resource version yet.
///
/// upstream: apimachinery meta/v1 CauseTypeResourceVersionTooLarge (v1.36).
const TOO_LARGE: &str = "ResourceVersionTooLarge";

/// The Status object of a failed request, and of a watch's ERROR event.
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
    causes: Option<Vec<Cause>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

impl Status {
    fn has_cause(&self, reason: &str) -> bool {
        let causes = self.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default();
        causes.iter().any(|cause| cause.reason == reason)
    }
}

/// The error of a response with this status, headers and body.
pub(super) fn error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let body_status: Status = serde_json::from_slice(body).unwrap_or_default();
    let body_status = if body_status.kind == "Status" { body_status } else { Status::default() };
    let retry_after = retry_after(headers);
    let detail = if body_status.message.is_empty() { describe(status, body) } else { message(&body_status) };
    ApiError { kind: kind(status.as_u16(), &body_status, retry_after), detail }
}

/// The error of a watch's ERROR event.
pub(super) fn event_error(body_status: &Status) -> ApiError {
    let detail = if body_status.message.is_empty() {
        format!("the watch failed with {}", body_status.code)
    } else {
        message(body_status)
    };
    ApiError { kind: kind(body_status.code, body_status, None), detail }
}

fn message(body_status: &Status) -> String {
    match body_status.message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{} …", body_status.message.get(..end).unwrap_or_default()),
        None => body_status.message.clone(),
    }
}

fn kind(code: u16, body_status: &Status, retry_after: Option<Duration>) -> ApiErrorKind {
    let asked = body_status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    let retry_after = retry_after.or(asked.map(Duration::from_secs));
    match code {
        401 => ApiErrorKind::Unauthorized,
        403 => ApiErrorKind::Forbidden,
        404 => ApiErrorKind::NotFound,
        409 if body_status.reason == "AlreadyExists" => ApiErrorKind::AlreadyExists,
        409 => ApiErrorKind::Conflict,
        410 => ApiErrorKind::Gone,
        400 | 422 => ApiErrorKind::Invalid,
        429 => ApiErrorKind::Busy { retry_after },
        // A server that is starting or shutting down sends Retry-After.
        503 if retry_after.is_some() => ApiErrorKind::Busy { retry_after },
        504 if body_status.has_cause(TOO_LARGE) => ApiErrorKind::Gone,
        504 if body_status.reason == "Timeout" => ApiErrorKind::Timeout,
        _ => match body_status.reason.as_str() {
            "Expired" | "Gone" => ApiErrorKind::Gone,
            _ => ApiErrorKind::Failed,
        },
    }
}

/// `Retry-After` in seconds; the API server never sends a date.
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

#[cfg(test)]
mod tests {
    use ApiErrorKind as Kind;

    use super::*;

    fn body_status(code: u16, reason: &str, details: &str) -> String {
        format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"m","details":{details},"new":1}}"#)
    }

    #[test]
    fn the_error_kind_follows_from_code_and_reason() {
        let busy = |seconds: Option<u64>| Kind::Busy { retry_after: seconds.map(Duration::from_secs) };
        let wait = r#"{"retryAfterSeconds":3}"#;
        let behind = r#"{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}"#;
        let rows = [
            (400, body_status(400, "BadRequest", "null"), None, Kind::Invalid, "m"),
            (401, body_status(401, "Unauthorized", "null"), None, Kind::Unauthorized, "m"),
            (403, body_status(403, "Forbidden", "{}"), None, Kind::Forbidden, "m"),
            (404, body_status(404, "NotFound", "{}"), None, Kind::NotFound, "m"),
            (409, body_status(409, "AlreadyExists", "{}"), None, Kind::AlreadyExists, "m"),
            (409, body_status(409, "Conflict", "{}"), None, Kind::Conflict, "m"),
            (410, body_status(410, "Expired", "{}"), None, Kind::Gone, "m"),
            (422, body_status(422, "Invalid", "{}"), None, Kind::Invalid, "m"),
            (429, body_status(429, "TooManyRequests", wait), None, busy(Some(3)), "m"),
            (429, body_status(429, "TooManyRequests", "{}"), Some("5"), busy(Some(5)), "m"),
            (429, String::new(), Some("soon"), busy(None), "the server answered 429 Too Many Requests"),
            (500, body_status(500, "InternalError", "{}"), None, Kind::Failed, "m"),
            (503, body_status(503, "ServiceUnavailable", wait), None, busy(Some(3)), "m"),
            (503, body_status(503, "ServiceUnavailable", "{}"), None, Kind::Failed, "m"),
            (504, body_status(504, "Timeout", "{}"), None, Kind::Timeout, "m"),
            (504, body_status(504, "Timeout", r#"{"causes":[{"reason":"Other"}]}"#), None, Kind::Timeout, "m"),
            (504, body_status(504, "Timeout", behind), None, Kind::Gone, "m"),
            (500, body_status(500, "InternalError", behind), None, Kind::Failed, "m"),
            // A proxy in between does not send a Status.
            (502, "<html>".to_owned(), None, Kind::Failed, "the server answered 502 Bad Gateway: <html>"),
            (
                404,
                "404 page not found\n".to_owned(),
                None,
                Kind::NotFound,
                "the server answered 404 Not Found: 404 page not found",
            ),
            (
                418,
                r#"{"kind":"Pod","message":"m"}"#.to_owned(),
                None,
                Kind::Failed,
                r#"the server answered 418 I'm a teapot: {"kind":"Pod","message":"m"}"#,
            ),
        ];
        for (code, body, after, kind, detail) in rows {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(RETRY_AFTER, after.parse().unwrap());
            }
            let error = error(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes());
            assert_eq!((error.kind, error.detail.as_str()), (kind, detail), "{code} {body}");
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let body = body_status(500, "InternalError", "{}").replace(r#""m""#, &format!("{:?}", "ä".repeat(1 << 20)));
        let error = error(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new(), body.as_bytes());
        assert_eq!(error.detail.chars().count(), MAX_MESSAGE + 2);
        let body_status: Status = serde_json::from_str(&body).unwrap();
        assert_eq!(event_error(&body_status).detail, error.detail);
    }

    #[test]
    fn an_error_event_is_classified_by_its_own_code() {
        for (code, reason, kind) in [
            (410, "Expired", Kind::Gone),
            (410, "Gone", Kind::Gone),
            (500, "InternalError", Kind::Failed),
            (504, "Timeout", Kind::Timeout),
            (0, "Expired", Kind::Gone),
        ] {
            let body_status: Status = serde_json::from_str(&body_status(code, reason, "null")).unwrap();
            assert_eq!(event_error(&body_status).kind, kind, "{code} {reason}");
        }
    }
}
