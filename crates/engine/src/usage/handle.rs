//! The handle of the task.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::usage::{MachineInfo, NodeDisks, NodeUsage};
use tokio::sync::{mpsc, oneshot};

use super::World;
use super::look::{file_systems, node};
use crate::ports::{Unmeasured, UsageReader, Wanted};

/// A question to the task.
pub(super) struct Ask {
    pub(super) wanted: Wanted,
    pub(super) reply: oneshot::Sender<Result<Arc<NodeUsage>, Unmeasured>>,
}

/// Asks the task. Cheap to clone.
#[derive(Clone)]
pub struct UsageHandle {
    ask: mpsc::Sender<Ask>,
    world: Arc<World>,
}

impl UsageHandle {
    pub(super) fn new(ask: mpsc::Sender<Ask>, world: Arc<World>) -> Self {
        Self { ask, world }
    }
}

#[async_trait]
impl UsageReader for UsageHandle {
    async fn usage(&self, wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        let ended = || Unmeasured("rubelet is stopping".to_owned());
        let (reply, answer) = oneshot::channel();
        self.ask.send(Ask { wanted, reply }).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn node(&self) -> Result<Arc<NodeUsage>, Unmeasured> {
        node(&self.world).await.map(Arc::new)
    }

    async fn disks(&self, _max_age: Duration) -> Result<NodeDisks, Unmeasured> {
        Ok(file_systems(&self.world).await)
    }

    async fn machine(&self) -> MachineInfo {
        self.world.parts.stats.machine().await
    }
}

/// A node on which nothing measures usage.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUsage;

#[async_trait]
impl UsageReader for NoUsage {
    async fn usage(&self, _wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        Err(Unmeasured("usage is not measured on this node".to_owned()))
    }

    async fn machine(&self) -> MachineInfo {
        MachineInfo::default()
    }
}
