//! `UpdateRuntimeConfig`: the address range of the node's pods (NODE-16).

use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;

pub(crate) async fn set_pod_cidr(connection: &Connection, cidr: &str) -> Result<(), RpcError> {
    let network_config = Some(cri::NetworkConfig { pod_cidr: cidr.to_owned() });
    let request = cri::UpdateRuntimeConfigRequest { runtime_config: Some(cri::RuntimeConfig { network_config }) };
    let mut client = connection.runtime(Operation::UpdateRuntimeConfig);
    let answer = connection
        .call(Operation::UpdateRuntimeConfig, Some(connection.timeout()), request, |request| async move {
            client.update_runtime_config(request).await
        })
        .await;
    answer.map(|_| ())
}
