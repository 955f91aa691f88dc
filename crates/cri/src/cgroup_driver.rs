//! `RuntimeConfig`: the cgroup driver of the runtime.

use rubelet_engine::ports::{CgroupDriver, RpcError, RpcErrorKind};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;

/// `None` if the runtime does not implement the call or names no driver (BOOT-05).
pub(crate) async fn cgroup_driver(connection: &Connection) -> Result<Option<CgroupDriver>, RpcError> {
    let operation = Operation::RuntimeConfig;
    let mut client = connection.runtime(operation);
    let answer = connection
        .call(operation, Some(connection.timeout()), cri::RuntimeConfigRequest {}, |request| async move {
            client.runtime_config(request).await
        })
        .await;
    let linux = match answer {
        Ok(answer) => answer.linux,
        Err(err) if err.kind == RpcErrorKind::Unimplemented => None,
        Err(err) => return Err(err),
    };
    let Some(linux) = linux else { return Ok(None) };
    match cri::CgroupDriver::try_from(linux.cgroup_driver) {
        Ok(cri::CgroupDriver::Systemd) => Ok(Some(CgroupDriver::Systemd)),
        Ok(cri::CgroupDriver::Cgroupfs) => Ok(Some(CgroupDriver::Cgroupfs)),
        Err(_) => {
            Err(garbage(operation, format!("the runtime names an unknown cgroup driver, {}", linux.cgroup_driver)))
        }
    }
}
