//! `UpdateContainerResources`.

use rubelet_core::id::ContainerId;
use rubelet_core::launch::LinuxResources;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;
use crate::to_wire::linux_resources;

pub(crate) async fn resize_container(
    connection: &Connection,
    id: &ContainerId,
    resources: &LinuxResources,
) -> Result<(), RpcError> {
    let request = cri::UpdateContainerResourcesRequest {
        container_id: id.to_string(),
        linux: Some(linux_resources(resources)),
        ..Default::default()
    };
    let mut client = connection.runtime(Operation::UpdateContainer);
    let answer = connection
        .call(Operation::UpdateContainer, Some(connection.timeout()), request, |request| async move {
            client.update_container_resources(request).await
        })
        .await;
    answer.map(|_| ())
}
