//! `CheckpointContainer`.

use std::path::Path;
use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;
use crate::to_wire::whole_seconds;

/// The deadline is the longer of `timeout` and that of every call, and the runtime gets the same.
/// upstream: cri-client/pkg/remote_runtime.go CheckpointContainer (v1.36)
pub(crate) async fn checkpoint_container(
    connection: &Connection,
    id: &ContainerId,
    location: &Path,
    timeout: Duration,
) -> Result<(), RpcError> {
    let timeout = timeout.max(connection.timeout());
    let request = cri::CheckpointContainerRequest {
        container_id: id.to_string(),
        location: location.to_string_lossy().into_owned(),
        timeout: whole_seconds(timeout),
    };
    let mut client = connection.runtime(Operation::CheckpointContainer);
    let send = |request| async move { client.checkpoint_container(request).await };
    connection.call(Operation::CheckpointContainer, Some(timeout), request, send).await.map(|_| ())
}
