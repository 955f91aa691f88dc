//! `grpc.health.v1.Health/Check`, one call on one connection.
//!
//! Written on `h2` rather than a gRPC channel: a channel reconnects, balances and spawns tasks, which a probe does not
//! need.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, Request};
use prost::Message;
use rubelet_core::probe::PROBE_AGENT;
use rubelet_engine::ports::{GrpcError, GrpcTarget, NetError, Serving};
use rubelet_proto::health::{HealthCheckRequest, HealthCheckResponse};

use crate::dial::dial;
use crate::drive::drive;
use crate::limits::{GRPC_HEADER_BYTES, GRPC_MESSAGE, http2};
use crate::names::Names;

/// The gRPC prefix of a message: a compression flag and the length.
const PREFIX: usize = 5;

/// Codes of gRPC.
const RESOURCE_EXHAUSTED: i32 = 8;
const INTERNAL: i32 = 13;

pub(crate) async fn check(
    names: &Names,
    target: &GrpcTarget,
    timeout: Duration,
    connected: &mut bool,
) -> Result<Serving, GrpcError> {
    let socket = dial(names, &target.host, target.port).await.map_err(|err| match err {
        NetError::Connect(detail) => GrpcError::Connect(detail),
        other => GrpcError::Connect(other.to_string()),
    })?;
    let (sender, connection) =
        http2(GRPC_HEADER_BYTES).handshake(socket).await.map_err(|err| GrpcError::Connect(err.to_string()))?;
    *connected = true;
    drive(connection, call(sender, target, timeout)).await
}

async fn call(
    sender: h2::client::SendRequest<Bytes>,
    target: &GrpcTarget,
    timeout: Duration,
) -> Result<Serving, GrpcError> {
    let broken = |err: h2::Error| GrpcError::Broken(err.to_string());
    let uri = format!("http://{}/grpc.health.v1.Health/Check", target.address());
    let request = Request::post(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", PROBE_AGENT)
        .header("grpc-timeout", format!("{}m", timeout.as_millis()))
        .body(())
        .map_err(|err| GrpcError::Broken(err.to_string()))?;
    let mut sender = sender.ready().await.map_err(broken)?;
    let (response, mut stream) = sender.send_request(request, false).map_err(broken)?;
    stream.send_data(message(&target.service), true).map_err(broken)?;
    let response = response.await.map_err(broken)?;
    if !response.status().is_success() {
        let text = format!("unexpected HTTP status code received from server: {}", response.status());
        return Err(GrpcError::Broken(text));
    }
    let early = status_of(response.headers());
    let mut body = response.into_body();
    let data = read_message(&mut body).await?;
    let trailers = match early {
        Some(_) => None,
        None => body.trailers().await.map_err(broken)?,
    };
    match early.or_else(|| trailers.as_ref().and_then(status_of)) {
        Some((0, _)) => serving(&data),
        Some((code, message)) => Err(GrpcError::Status { code, message }),
        None => Err(GrpcError::Broken("the server closed the stream without trailers".to_owned())),
    }
}

fn message(service: &str) -> Bytes {
    let body = HealthCheckRequest { service: service.to_owned() }.encode_to_vec();
    let mut framed = BytesMut::with_capacity(PREFIX + body.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    framed.put_slice(&body);
    framed.freeze()
}

/// The message of the answer; none if the server sends only a status. A longer answer is refused before it is read to
/// its end. upstream: grpc-go rpc_util.go recvMsg
async fn read_message(body: &mut RecvStream) -> Result<Vec<u8>, GrpcError> {
    let mut read = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|err| GrpcError::Broken(err.to_string()))?;
        let _released = body.flow_control().release_capacity(chunk.len());
        read.extend(chunk.iter().take(PREFIX + GRPC_MESSAGE + 1));
        let length = match read.as_slice() {
            [_compressed, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => continue,
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > GRPC_MESSAGE {
            let message = format!("grpc: received message larger than max ({length} vs. {GRPC_MESSAGE})");
            return Err(GrpcError::Status { code: RESOURCE_EXHAUSTED, message });
        }
        if read.len() > PREFIX + length {
            let message = "cardinality violation: received more than one message".to_owned();
            return Err(GrpcError::Status { code: INTERNAL, message });
        }
    }
    Ok(read.split_off(PREFIX.min(read.len())))
}

fn serving(data: &[u8]) -> Result<Serving, GrpcError> {
    let answer = HealthCheckResponse::decode(data).map_err(|err| GrpcError::Broken(err.to_string()))?;
    Ok(if answer.status == 1 { Serving::Serving } else { Serving::Not(answer.status) })
}

fn status_of(headers: &HeaderMap) -> Option<(i32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").map(|m| String::from_utf8_lossy(m.as_bytes()).into_owned());
    Some((code, unescape(&message.unwrap_or_default())))
}

/// Decodes `%20` and the like, as gRPC writes messages in headers.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let value = escaped.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
