//! The answer of one run of a probe, and the messages of its events (PRB-06, PRB-07, PRB-12, PRB-13).

use std::time::Duration;

use super::target::{GrpcTarget, HttpTarget};
use super::{ProbeKind, TargetError};
use crate::config::GoDuration;
use crate::plan::Verdict;

/// How many bytes of an answer are read and kept.
pub const MAX_OUTPUT: usize = 10 << 10;

/// The answer of one run of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The probe passes.
    Pass,
    /// The probe passes, with a warning that goes into an event.
    Warn(String),
    /// The probe fails, with the output of its target.
    Fail(String),
    /// The probe could not run, so that there is no result (PRB-06).
    Error {
        /// Upstream's name of the discarded result.
        state: &'static str,
        /// What went wrong.
        detail: String,
    },
}

impl Answer {
    /// What counts for the thresholds; nothing if the probe could not run.
    pub fn result(&self) -> Option<Verdict> {
        match self {
            Self::Pass | Self::Warn(_) => Some(Verdict::Success),
            Self::Fail(_) => Some(Verdict::Failure),
            Self::Error { .. } => None,
        }
    }

    /// The probe could not run: it is tried again at once (PRB-06).
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error { .. })
    }

    /// Reason and message of the event, if there is one.
    pub fn event(&self, kind: ProbeKind) -> Option<(&'static str, String)> {
        let kind = kind.as_str();
        match self {
            Self::Pass => None,
            Self::Warn(output) => Some(("ProbeWarning", format!("{kind} probe warning: {output}"))),
            Self::Fail(output) => Some(("Unhealthy", format!("{kind} probe failed: {output}"))),
            Self::Error { state, detail } => {
                Some(("Unhealthy", format!("{kind} probe errored and resulted in {state} state: {detail}")))
            }
        }
    }
}

/// Cuts a text to [`MAX_OUTPUT`]: servers, commands and runtimes choose these texts, and events and timelines keep them.
fn brief(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_OUTPUT));
    text
}

fn warn(text: String) -> Answer {
    Answer::Warn(brief(text))
}

fn fail(text: String) -> Answer {
    Answer::Fail(brief(text))
}

fn error(state: &'static str, detail: String) -> Answer {
    Answer::Error { state, detail: brief(detail) }
}

/// A server's answer to the last request of an HTTP probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// Status code.
    pub status: u16,
    /// The beginning of the body, at most [`MAX_OUTPUT`].
    pub body: String,
}

/// Why a server did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// No connection: refused, unreachable, no such host.
    #[error("{0}")]
    Connect(String),
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke before the answer, or the bytes are not an answer.
    #[error("{0}")]
    Broken(String),
    /// The answer's body broke off.
    #[error("{0}")]
    Body(String),
    /// The server answered TLS with plain HTTP.
    #[error("http: server gave HTTP response to HTTPS client")]
    PlainHttp,
    /// There were too many redirects.
    #[error("stopped after {} redirects", super::MAX_REDIRECTS)]
    TooManyRedirects,
}

/// What an HTTP answer means.
/// upstream: `probe/http/http.go` `DoHTTPProbe` (v1.36)
pub fn http_answer(target: &HttpTarget, got: Result<HttpReply, NetError>) -> Answer {
    match got {
        Ok(HttpReply { status: 200..=299, .. }) => Answer::Pass,
        Ok(HttpReply { status: 300..=399, body }) => warn(format!("Probe terminated redirects, Response body: {body}")),
        // The body is not part of the message: it may contain secrets.
        Ok(HttpReply { status, .. }) => fail(format!("HTTP probe failed with statuscode: {status}")),
        Err(NetError::Body(detail)) => error("failure", detail),
        Err(NetError::Timeout) => {
            let url = target.url();
            let how = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            fail(format!("Get \"{url}\": {how}"))
        }
        Err(err @ (NetError::Connect(_) | NetError::Broken(_) | NetError::PlainHttp | NetError::TooManyRedirects)) => {
            fail(format!("Get \"{}\": {err}", target.url()))
        }
    }
}

/// What a TCP connection, or its lack, means.
pub fn tcp_answer(address: &str, got: Result<(), NetError>) -> Answer {
    match got {
        Ok(()) => Answer::Pass,
        Err(NetError::Timeout) => fail(format!("dial tcp {address}: i/o timeout")),
        Err(err) => fail(err.to_string()),
    }
}

/// The health of a service, as its gRPC server reports it.
#[doc(alias = "HealthCheckResponse_ServingStatus")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The service is serving.
    Serving,
    /// Another status, by its number in the protocol.
    Not(i32),
}

/// Why a gRPC server did not report the health of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrpcError {
    /// No connection.
    #[error("{0}")]
    Connect(String),
    /// No connection in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The server answered with an error.
    #[error("rpc error: code = {} desc = {message}", grpc_code(*code))]
    Status {
        /// Its number.
        code: i32,
        /// Its text.
        message: String,
    },
    /// The connection broke, or the bytes are not an answer.
    #[error("rpc error: code = Unavailable desc = {0}")]
    Broken(String),
}

/// What a gRPC health check means.
/// upstream: `probe/grpc/grpc.go` `Probe` (v1.36)
pub fn grpc_answer(target: &GrpcTarget, timeout: Duration, got: Result<Serving, GrpcError>) -> Answer {
    let address = target.address();
    let timeout = GoDuration::from(timeout);
    match got {
        Ok(Serving::Serving) => Answer::Pass,
        Ok(Serving::Not(number)) => {
            let word = match number {
                0 => "UNKNOWN".to_owned(),
                2 => "NOT_SERVING".to_owned(),
                3 => "SERVICE_UNKNOWN".to_owned(),
                other => other.to_string(),
            };
            fail(format!("service unhealthy (responded with \"{word}\")"))
        }
        Err(GrpcError::ConnectTimeout) => fail(format!(
            "timeout: failed to connect service \"{address}\" within {timeout}: context deadline exceeded"
        )),
        Err(GrpcError::Connect(detail)) => fail(format!("error: failed to connect service at \"{address}\": {detail}")),
        Err(GrpcError::Timeout | GrpcError::Status { code: 4, .. }) => {
            fail(format!("timeout: health rpc did not complete within {timeout}"))
        }
        Err(GrpcError::Status { code: 12, message }) => fail(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Err(err @ (GrpcError::Status { .. } | GrpcError::Broken(_))) => {
            fail(format!("error: health rpc probe failed: {err}"))
        }
    }
}

fn grpc_code(code: i32) -> String {
    let names = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let name = usize::try_from(code).ok().and_then(|code| names.get(code));
    name.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecResult<'a> {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: &'a [u8],
    /// Standard error.
    pub stderr: &'a [u8],
}

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecFault {
    /// The command did not end in time.
    Timeout,
    /// The runtime could not run it.
    Failed(String),
}

/// What the result of a command means.
/// upstream: `probe/exec/exec.go` `Probe` (v1.36)
pub fn exec_answer(command: &[String], timeout: Duration, got: Result<ExecResult<'_>, ExecFault>) -> Answer {
    match got {
        Ok(ExecResult { code: 0, .. }) => Answer::Pass,
        Ok(ExecResult { stdout, stderr, .. }) => {
            let output: Vec<u8> = stdout.iter().chain(stderr).take(MAX_OUTPUT).copied().collect();
            fail(String::from_utf8_lossy(&output).into_owned())
        }
        Err(ExecFault::Timeout) => {
            let (command, timeout) = (command.join(" "), GoDuration::from(timeout));
            fail(format!("command timed out: {command:?} timed out after {timeout}"))
        }
        Err(ExecFault::Failed(detail)) => error("unknown", detail),
    }
}

/// A probe without a target cannot run.
pub fn unresolved(err: &TargetError) -> Answer {
    error("unknown", err.to_string())
}
