//! `UpdatePodSandboxResources`.

use rubelet_core::id::SandboxId;
use rubelet_core::launch::LinuxResources;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;
use crate::to_wire::linux_resources;

pub(crate) async fn resize_sandbox(
    connection: &Connection,
    id: &SandboxId,
    resources: &LinuxResources,
) -> Result<(), RpcError> {
    let request = cri::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: id.to_string(),
        overhead: None,
        resources: Some(linux_resources(resources)),
    };
    let mut client = connection.runtime(Operation::UpdatePodsandboxResources);
    let answer = connection
        .call(Operation::UpdatePodsandboxResources, Some(connection.timeout()), request, |request| async move {
            client.update_pod_sandbox_resources(request).await
        })
        .await;
    answer.map(|_| ())
}
