//! `StopContainer`.

use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::not_found_is_ok;
use crate::metrics::Operation;
use crate::to_wire::whole_seconds;

/// The deadline is the request timeout on top of `grace`, for the kill that follows the grace period (CRI-02).
pub(crate) async fn stop_container(connection: &Connection, id: &ContainerId, grace: Duration) -> Result<(), RpcError> {
    let request = cri::StopContainerRequest { container_id: id.to_string(), timeout: whole_seconds(grace) };
    let mut client = connection.runtime(Operation::StopContainer);
    let deadline = connection.timeout().saturating_add(grace);
    let answer = connection
        .call(Operation::StopContainer, Some(deadline), request, |request| async move {
            client.stop_container(request).await
        })
        .await;
    not_found_is_ok(answer.map(|_| ()))
}
