//! `RunPodSandbox`.

use rubelet_core::id::SandboxId;
use rubelet_core::launch::SandboxConfig;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;
use crate::to_wire::sandbox_config;

/// Network plugins are slow, so the call gets twice the usual deadline (CRI-02).
const TIMES_TIMEOUT: u32 = 2;

pub(crate) async fn run_sandbox(connection: &Connection, config: &SandboxConfig) -> Result<SandboxId, RpcError> {
    let operation = Operation::RunPodSandbox;
    let request = cri::RunPodSandboxRequest {
        config: Some(Box::new(sandbox_config(config))),
        runtime_handler: config.runtime_handler.clone(),
    };
    let mut client = connection.runtime(operation);
    let deadline = connection.timeout().saturating_mul(TIMES_TIMEOUT);
    let began = connection.now();
    let answer = connection
        .call(operation, Some(deadline), request, |request| async move { client.run_pod_sandbox(request).await })
        .await;
    connection.record_sandbox(&config.runtime_handler, connection.now().since(began), answer.is_err());
    let answer = answer?;
    if answer.pod_sandbox_id.is_empty() {
        return Err(garbage(operation, "no sandbox id in the answer"));
    }
    Ok(answer.pod_sandbox_id.into())
}
