//! Maps errors of the runtime and the transport to [`RpcError`].
//!
//! Error texts of runtimes and of the transport are parsed here and nowhere else.

use std::error::Error;

use rubelet_engine::ports::{RpcError, RpcErrorKind};
use tonic::{Code, Status};

use crate::dial::DialError;
use crate::metrics::Operation;

/// Prefixes of errors that our own gRPC client reports about an answer. Their codes may come from a runtime too.
const UNREADABLE: [&str; 4] = [
    "failed to decode Protobuf message",
    "protocol error",
    "Missing response message",
    "Unexpected EOF decoding stream",
];

pub(crate) fn rpc_error(operation: Operation, kind: RpcErrorKind, detail: impl Into<String>) -> RpcError {
    RpcError { operation: operation.as_str(), kind, detail: detail.into() }
}

/// The answer arrived but lacks a required field.
pub(crate) fn garbage(operation: Operation, detail: impl Into<String>) -> RpcError {
    rpc_error(operation, RpcErrorKind::Garbage, detail)
}

/// The connection broke because the server on the socket does not speak CRI.
pub(crate) fn not_cri(err: RpcError) -> RpcError {
    match err.kind {
        RpcErrorKind::Unavailable => RpcError {
            kind: RpcErrorKind::Garbage,
            detail: "the server on this socket does not speak CRI".into(),
            ..err
        },
        RpcErrorKind::Timeout
        | RpcErrorKind::NotFound
        | RpcErrorKind::AlreadyExists
        | RpcErrorKind::Unimplemented
        | RpcErrorKind::Garbage
        | RpcErrorKind::Failed => err,
    }
}

pub(crate) fn from_status(operation: Operation, status: &Status) -> RpcError {
    let kind = match kind_of(status) {
        RpcErrorKind::Failed if operation == Operation::StartContainer && is_started(status.message()) => {
            RpcErrorKind::AlreadyExists
        }
        kind => kind,
    };
    rpc_error(operation, kind, detail_of(status, kind))
}

/// "Not found" from a stop or a removal is success (CRI-05).
pub(crate) fn not_found_is_ok(outcome: Result<(), RpcError>) -> Result<(), RpcError> {
    match outcome {
        Err(err) if err.kind == RpcErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn kind_of(status: &Status) -> RpcErrorKind {
    // Only an error of the transport has a source; a status sent by the runtime has none.
    match (status.code(), status.source()) {
        (Code::DeadlineExceeded, _) => RpcErrorKind::Timeout,
        (Code::NotFound, None) => RpcErrorKind::NotFound,
        (Code::AlreadyExists, None) => RpcErrorKind::AlreadyExists,
        (Code::Unimplemented, None) => RpcErrorKind::Unimplemented,
        // The answer exceeds our size limit.
        (Code::OutOfRange, None) => RpcErrorKind::Garbage,
        (Code::Internal | Code::Unknown, None) if UNREADABLE.iter().any(|text| status.message().starts_with(text)) => {
            RpcErrorKind::Garbage
        }
        // The transport's own timer for our deadline may fire first.
        (Code::Cancelled, Some(source)) if chain(source).any(|err| err.is::<tonic::TimeoutExpired>()) => {
            RpcErrorKind::Timeout
        }
        (_, Some(source)) if is_not_http2(source) => RpcErrorKind::Garbage,
        (_, Some(_)) => RpcErrorKind::Unavailable,
        (_, None) if is_starting(status.message()) => RpcErrorKind::Unavailable,
        // A runtime that answers "unavailable" is running: the shim of one sandbox is not. One broken pod must not look
        // like a node without a runtime.
        (_, None) if name_is_taken(status.message()) => RpcErrorKind::AlreadyExists,
        (_, None) => RpcErrorKind::Failed,
    }
}

/// containerd listens before it has loaded its state, and refuses every call until then: up to 1.7 with the code
/// `Unknown` and this text, since 2.0 with the code `Unavailable` and ": unavailable" appended. It counts as
/// unavailable, and will be ready in a moment. Other errors may quote a pod's command or name, and must not match.
fn is_starting(message: &str) -> bool {
    message.strip_prefix("server is not initialized yet").is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// containerd and CRI-O report a name that an earlier call has reserved with the code `Unknown`.
fn name_is_taken(message: &str) -> bool {
    message.contains("failed to reserve") && message.contains("is reserved for") || message.contains("name is reserved")
}

/// containerd and CRI-O refuse with the code `Unknown` to start a container that is running or starting. An exited
/// container does not match.
fn is_started(message: &str) -> bool {
    message.ends_with("container is already in starting state")
        || message.ends_with("container is in CONTAINER_RUNNING state")
        || message.ends_with("is not in created state: running")
}

/// The server answered, but not in HTTP/2.
fn is_not_http2(source: &(dyn Error + 'static)) -> bool {
    let broken = chain(source).any(|err| err.is::<DialError>() || err.is::<std::io::Error>());
    // Neither hyper nor tonic has a type for these errors.
    !broken
        && chain(source).any(|err| {
            let text = err.to_string();
            text.contains("frame with invalid size") || text.contains("unspecific protocol error detected")
        })
}

fn detail_of(status: &Status, kind: RpcErrorKind) -> String {
    let Some(source) = status.source() else { return status.message().to_owned() };
    if let Some(dial) = chain(source).find(|err| err.is::<DialError>()) {
        return dial.to_string();
    }
    let last = chain(source).last().map_or_else(String::new, ToString::to_string);
    match kind {
        RpcErrorKind::Garbage => format!("the server on this socket does not speak CRI: {last}"),
        RpcErrorKind::Timeout => "no answer from the runtime in time".to_owned(),
        _ => format!("the connection to the runtime broke: {last}"),
    }
}

fn chain<'a>(err: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(err), |err| (*err).source())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(status: &Status, expected: Expect) {
        let err = from_status(Operation::CreateContainer, status);
        expected.assert_eq(&format!("{:?} / {err}", err.kind));
    }

    #[test]
    fn runtime_errors_are_classified_by_code() {
        check(&Status::not_found("no container \"a\""), expect![[r#"NotFound / create_container: no container "a""#]]);
        check(&Status::already_exists("it is"), expect!["AlreadyExists / create_container: it is"]);
        check(&Status::unimplemented("unknown method"), expect!["Unimplemented / create_container: unknown method"]);
        check(&Status::deadline_exceeded("context"), expect!["Timeout / create_container: context"]);
        check(&Status::unknown("runc: exec failed"), expect!["Failed / create_container: runc: exec failed"]);
        check(&Status::internal("a panic"), expect!["Failed / create_container: a panic"]);
    }

    #[test]
    fn a_dead_shim_is_not_a_dead_runtime() {
        check(&Status::unavailable("ttrpc: closed"), expect!["Failed / create_container: ttrpc: closed"]);
    }

    #[test]
    fn a_starting_runtime_is_unavailable() {
        check(
            &Status::unknown("server is not initialized yet"),
            expect!["Unavailable / create_container: server is not initialized yet"],
        );
        check(
            &Status::unavailable("server is not initialized yet: unavailable"),
            expect!["Unavailable / create_container: server is not initialized yet: unavailable"],
        );
        check(
            &Status::unknown(r#"exec: "server is not initialized yet": executable file not found"#),
            expect![[r#"Failed / create_container: exec: "server is not initialized yet": executable file not found"#]],
        );
    }

    #[test]
    fn a_reserved_name_already_exists_whatever_its_code() {
        let containerd =
            r#"failed to reserve container name "app_web_ns_1_0": name "app_web_ns_1_0" is reserved for "4f2""#;
        check(
            &Status::unknown(containerd),
            expect![[
                r#"AlreadyExists / create_container: failed to reserve container name "app_web_ns_1_0": name "app_web_ns_1_0" is reserved for "4f2""#
            ]],
        );
        check(
            &Status::unknown("error reserving ctr name k8s_app for id 4f2: name is reserved"),
            expect!["AlreadyExists / create_container: error reserving ctr name k8s_app for id 4f2: name is reserved"],
        );
    }

    #[test]
    fn a_start_in_flight_is_distinguished_from_a_failed_start() {
        let kind = |text: &str| from_status(Operation::StartContainer, &Status::unknown(text)).kind;
        let refused = r#"failed to set starting state for container "4f2": container is"#;
        assert_eq!(kind(&format!("{refused} already in starting state")), RpcErrorKind::AlreadyExists);
        assert_eq!(kind(&format!("{refused} in CONTAINER_RUNNING state")), RpcErrorKind::AlreadyExists);
        assert_eq!(kind(&format!("{refused} in CONTAINER_EXITED state")), RpcErrorKind::Failed);
        assert_eq!(kind("container 4f2 is not in created state: running"), RpcErrorKind::AlreadyExists);
        assert_eq!(kind("runc: exec failed"), RpcErrorKind::Failed);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_garbage() {
        check(
            &Status::internal("failed to decode Protobuf message: invalid wire type"),
            expect!["Garbage / create_container: failed to decode Protobuf message: invalid wire type"],
        );
        check(
            &Status::out_of_range("decoded message length too large"),
            expect!["Garbage / create_container: decoded message length too large"],
        );
    }

    #[test]
    fn not_found_is_ok_cri_05() {
        let lost = |kind| Err(rpc_error(Operation::StopContainer, kind, ""));
        assert_eq!(not_found_is_ok(lost(RpcErrorKind::NotFound)), Ok(()));
        assert_eq!(not_found_is_ok(lost(RpcErrorKind::Failed)), lost(RpcErrorKind::Failed));
    }
}
