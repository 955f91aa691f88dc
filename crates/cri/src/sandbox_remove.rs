//! `RemovePodSandbox`.

use rubelet_core::id::SandboxId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::not_found_is_ok;
use crate::metrics::Operation;

pub(crate) async fn remove_sandbox(connection: &Connection, id: &SandboxId) -> Result<(), RpcError> {
    let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
    let mut client = connection.runtime(Operation::RemovePodSandbox);
    let answer = connection
        .call(Operation::RemovePodSandbox, Some(connection.timeout()), request, |request| async move {
            client.remove_pod_sandbox(request).await
        })
        .await;
    not_found_is_ok(answer.map(|_| ()))
}
