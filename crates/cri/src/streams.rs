//! `Exec`, `Attach`, `PortForward`: each returns the URL of a streaming server.
//! upstream: cri-client/pkg/remote_runtime.go Exec, Attach, PortForward (v1.36)

use rubelet_core::id::{ContainerId, SandboxId};
use rubelet_engine::ports::{RpcError, Session, StdStreams};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;

pub(crate) async fn exec(
    connection: &Connection,
    id: &ContainerId,
    command: &[String],
    wanted: StdStreams,
) -> Result<Session, RpcError> {
    let StdStreams { stdin, stdout, stderr, tty } = wanted;
    let request = cri::ExecRequest { container_id: id.to_string(), cmd: command.to_vec(), tty, stdin, stdout, stderr };
    let mut client = connection.runtime(Operation::Exec);
    let send = |request| async move { client.exec(request).await };
    let answer = connection.call(Operation::Exec, Some(connection.timeout()), request, send).await?;
    session(Operation::Exec, answer.url)
}

pub(crate) async fn attach(connection: &Connection, id: &ContainerId, wanted: StdStreams) -> Result<Session, RpcError> {
    let StdStreams { stdin, stdout, stderr, tty } = wanted;
    let request = cri::AttachRequest { container_id: id.to_string(), stdin, tty, stdout, stderr };
    let mut client = connection.runtime(Operation::Attach);
    let send = |request| async move { client.attach(request).await };
    let answer = connection.call(Operation::Attach, Some(connection.timeout()), request, send).await?;
    session(Operation::Attach, answer.url)
}

pub(crate) async fn port_forward(connection: &Connection, id: &SandboxId, ports: &[u16]) -> Result<Session, RpcError> {
    let port = ports.iter().map(|port| i32::from(*port)).collect();
    let request = cri::PortForwardRequest { pod_sandbox_id: id.to_string(), port };
    let mut client = connection.runtime(Operation::PortForward);
    let send = |request| async move { client.port_forward(request).await };
    let answer = connection.call(Operation::PortForward, Some(connection.timeout()), request, send).await?;
    session(Operation::PortForward, answer.url)
}

fn session(operation: Operation, url: String) -> Result<Session, RpcError> {
    if url.is_empty() { Err(garbage(operation, "the runtime returned no URL")) } else { Ok(Session::Url(url)) }
}
