//! `ReopenContainerLog`.

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;

pub(crate) async fn reopen_log(connection: &Connection, id: &ContainerId) -> Result<(), RpcError> {
    let request = cri::ReopenContainerLogRequest { container_id: id.to_string() };
    let mut client = connection.runtime(Operation::ReopenContainerLog);
    let answer = connection
        .call(Operation::ReopenContainerLog, Some(connection.timeout()), request, |request| async move {
            client.reopen_container_log(request).await
        })
        .await;
    answer.map(|_| ())
}
