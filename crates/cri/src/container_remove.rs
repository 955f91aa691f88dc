//! `RemoveContainer`.

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::not_found_is_ok;
use crate::metrics::Operation;

pub(crate) async fn remove_container(connection: &Connection, id: &ContainerId) -> Result<(), RpcError> {
    let request = cri::RemoveContainerRequest { container_id: id.to_string() };
    let mut client = connection.runtime(Operation::RemoveContainer);
    let answer = connection
        .call(Operation::RemoveContainer, Some(connection.timeout()), request, |request| async move {
            client.remove_container(request).await
        })
        .await;
    not_found_is_ok(answer.map(|_| ()))
}
