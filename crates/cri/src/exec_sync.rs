//! `ExecSync`.

use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_engine::ports::{ExecOutput, RpcError};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;
use crate::to_wire::whole_seconds;

/// The runtime kills the command after `timeout`; our deadline is the request timeout on top of that. Without a timeout
/// there is no deadline (CRI-02).
pub(crate) async fn exec_sync(
    connection: &Connection,
    id: &ContainerId,
    command: &[String],
    timeout: Duration,
) -> Result<ExecOutput, RpcError> {
    let request =
        cri::ExecSyncRequest { container_id: id.to_string(), cmd: command.to_vec(), timeout: whole_seconds(timeout) };
    let mut client = connection.cut_outputs();
    let deadline = (!timeout.is_zero()).then(|| connection.timeout().saturating_add(timeout));
    let answer = connection
        .call(Operation::ExecSync, deadline, request, |request| async move { client.exec_sync(request).await })
        .await?;
    Ok(ExecOutput { exit_code: answer.exit_code, stdout: answer.stdout, stderr: answer.stderr })
}
