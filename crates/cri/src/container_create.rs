//! `CreateContainer`.

use rubelet_core::id::{ContainerId, SandboxId};
use rubelet_core::launch::{ContainerConfig, SandboxConfig};
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;
use crate::to_wire::{container_config, sandbox_config};

pub(crate) async fn create_container(
    connection: &Connection,
    sandbox: &SandboxId,
    config: &ContainerConfig,
    of_sandbox: &SandboxConfig,
) -> Result<ContainerId, RpcError> {
    let operation = Operation::CreateContainer;
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.to_string(),
        config: Some(Box::new(container_config(config))),
        sandbox_config: Some(Box::new(sandbox_config(of_sandbox))),
    };
    let mut client = connection.runtime(operation);
    let answer = connection
        .call(operation, Some(connection.timeout()), request, |request| async move {
            client.create_container(request).await
        })
        .await?;
    if answer.container_id.is_empty() {
        return Err(garbage(operation, "no container id in the answer"));
    }
    Ok(answer.container_id.into())
}
