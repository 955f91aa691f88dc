//! `/debug/flags/v`: the log level at run time (FLG-01).
//! upstream: apiserver/pkg/server/routes/flags.go, component-base/logs GlogSetter (v1.36)

use std::num::IntErrorKind;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::answers::{Answer, text};

/// Longest body of a request for another log level: a number.
const LONGEST_LEVEL: usize = 64;
/// A client that sends its body slower than this is not waited for.
const BODY_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Sets the log level of the process, on klog's scale.
pub trait Verbosity: Send + Sync {
    /// Lines of this verbosity are logged from now on.
    fn set(&self, verbosity: u32);
}

/// `/debug/flags/v`.
#[doc(alias = "StringFlagPutHandler")]
pub(super) async fn log_level(request: Request<Incoming>, level: &dyn Verbosity) -> Answer {
    if request.method() != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let body = tokio::time::timeout(BODY_WITHIN, Limited::new(request.into_body(), LONGEST_LEVEL).collect()).await;
    let body = match body {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(err)) => return plain(StatusCode::BAD_REQUEST, &format!("error reading request body: {err}")),
        Err(_elapsed) => return plain(StatusCode::BAD_REQUEST, "error reading request body: timeout"),
    };
    match parse_level(&String::from_utf8_lossy(&body)) {
        Ok(verbosity) => {
            level.set(verbosity);
            plain(StatusCode::OK, &format!("successfully set klog.logging.verbosity to {verbosity}"))
        }
        Err(why) => plain(StatusCode::BAD_REQUEST, &why),
    }
}

fn plain(status: StatusCode, line: &str) -> Answer {
    let mut answer = text(status, format!("{line}\n"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

fn parse_level(word: &str) -> Result<u32, String> {
    let invalid = |why: &str| format!("strconv.ParseUint: parsing {word:?}: {why}");
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid("invalid syntax"));
    }
    word.parse().map_err(|err: std::num::ParseIntError| match err.kind() {
        IntErrorKind::PosOverflow => invalid("value out of range"),
        _ => invalid("invalid syntax"),
    })
}

#[cfg(test)]
mod tests {
    use super::parse_level;

    #[test]
    fn flg_01_a_log_level_is_a_number_of_32_bits() {
        assert_eq!(parse_level("0"), Ok(0));
        assert_eq!(parse_level("4294967295"), Ok(u32::MAX));
        for (word, why) in [
            ("", "invalid syntax"),
            ("x", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("-1", "invalid syntax"),
            ("4\n", "invalid syntax"),
            ("4294967296", "value out of range"),
        ] {
            assert_eq!(parse_level(word), Err(format!("strconv.ParseUint: parsing {word:?}: {why}")), "{word:?}");
        }
    }
}
