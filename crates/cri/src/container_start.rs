//! `StartContainer`.

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;

pub(crate) async fn start_container(connection: &Connection, id: &ContainerId) -> Result<(), RpcError> {
    let request = cri::StartContainerRequest { container_id: id.to_string() };
    let mut client = connection.runtime(Operation::StartContainer);
    let answer = connection
        .call(Operation::StartContainer, Some(connection.timeout()), request, |request| async move {
            client.start_container(request).await
        })
        .await;
    answer.map(|_| ())
}
