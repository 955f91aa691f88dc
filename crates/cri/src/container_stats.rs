//! `ListContainerStats`: the port `RuntimeStats`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rubelet_core::id::ContainerId;
use rubelet_core::usage::LayerUsage;
use rubelet_engine::ports::{RpcError, RuntimeStats, Unmeasured};
use rubelet_proto::cri;

use crate::connection::{Connection, collect};
use crate::from_wire::timestamp;
use crate::metrics::Operation;

/// What a CRI runtime measures.
#[derive(Clone)]
pub struct CriStats {
    connection: Connection,
}

impl CriStats {
    /// The measurements of the runtime behind `connection`.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }
}

#[async_trait]
impl RuntimeStats for CriStats {
    async fn layers(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
        let all = list(&self.connection).await.map_err(|err| Unmeasured(err.to_string()))?;
        Ok(all.into_iter().filter_map(layer).collect())
    }
}

async fn list(connection: &Connection) -> Result<Vec<cri::ContainerStats>, RpcError> {
    let (mut streaming, mut plain) =
        (connection.runtime(Operation::ListContainerStats), connection.runtime(Operation::ListContainerStats));
    connection
        .list(
            Operation::ListContainerStats,
            || async move {
                let request = cri::StreamContainerStatsRequest { filter: None };
                let stream = streaming.stream_container_stats(request).await?.into_inner();
                collect(stream, |message| message.container_stats).await
            },
            || async move {
                let request = cri::ListContainerStatsRequest { filter: None };
                Ok(plain.list_container_stats(request).await?.into_inner().stats)
            },
        )
        .await
}

fn layer(stats: cri::ContainerStats) -> Option<(ContainerId, LayerUsage)> {
    let (id, layer) = (stats.attributes?.id, stats.writable_layer?);
    let usage = LayerUsage {
        at: (layer.timestamp > 0).then(|| timestamp(layer.timestamp)),
        bytes: layer.used_bytes.map(|bytes| bytes.value),
        inodes: layer.inodes_used.map(|inodes| inodes.value),
    };
    (!id.is_empty()).then(|| (ContainerId::from(id), usage))
}
