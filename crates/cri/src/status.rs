//! `Status`: the conditions of the runtime and its network.

use rubelet_core::launch::HandlerFeatures;
use rubelet_engine::ports::{ReadyCondition, RpcError, RuntimeStatus};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;

pub(crate) async fn status(connection: &Connection) -> Result<RuntimeStatus, RpcError> {
    let mut client = connection.runtime(Operation::Status);
    let request = cri::StatusRequest { verbose: false };
    let answer =
        connection
            .call(Operation::Status, Some(connection.timeout()), request, |request| async move {
                client.status(request).await
            })
            .await?;
    let conditions = answer.status.map(|status| status.conditions).unwrap_or_default();
    Ok(RuntimeStatus {
        runtime: condition(&conditions, "RuntimeReady")?,
        network: condition(&conditions, "NetworkReady")?,
        handlers: answer.runtime_handlers.into_iter().map(handler).collect(),
        supplemental_groups_policy: answer.features.is_some_and(|features| features.supplemental_groups_policy),
    })
}

fn condition(conditions: &[cri::RuntimeCondition], name: &str) -> Result<ReadyCondition, RpcError> {
    let found = conditions.iter().find(|condition| condition.r#type == name);
    let found = found.ok_or_else(|| garbage(Operation::Status, format!("the runtime's answer has no {name}")))?;
    Ok(ReadyCondition { ready: found.status, reason: found.reason.clone(), message: found.message.clone() })
}

fn handler(handler: cri::RuntimeHandler) -> (String, HandlerFeatures) {
    let features = handler.features.unwrap_or_default();
    let features = HandlerFeatures {
        recursive_read_only_mounts: features.recursive_read_only_mounts,
        user_namespaces: features.user_namespaces,
    };
    (handler.name, features)
}
