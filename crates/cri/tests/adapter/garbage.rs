//! A runtime that speaks gRPC but sends malformed messages.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rubelet_cri::ListMode;
use rubelet_engine::ports::{RpcErrorKind, RuntimeView};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use crate::fake::Setup;

/// The error for an answer with this body.
async fn answered_with(body: &'static [u8]) -> (RpcErrorKind, String) {
    let setup = Setup::down(Duration::from_secs(60), ListMode::Whole);
    let listener = UnixListener::bind(&setup.path).expect("bind");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.expect("one connection");
        let answer = move |_: http::Request<Incoming>| async move {
            let response = http::Response::builder().header("content-type", "application/grpc");
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from_static(body))).expect("a response"))
        };
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer))
            .await;
    });
    let err = setup.runtime.list().await.expect_err("nonsense");
    (err.kind, err.detail)
}

#[tokio::test]
async fn a_malformed_grpc_message_is_garbage() {
    // A frame of four bytes that are no message, one with an undefined flag, one cut short, none at all.
    let bodies: [&[u8]; 4] = [&[0, 0, 0, 0, 4, 255, 255, 255, 255], &[9, 0, 0, 0, 0], &[0, 0, 0, 1, 0, 7], &[]];
    for body in bodies {
        let (kind, detail) = answered_with(body).await;
        assert_eq!(kind, RpcErrorKind::Garbage, "{body:?}: {detail}");
    }
}
