//! The handle of the task.

use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::usage::{MachineInfo, NodeUsage};
use tokio::sync::{mpsc, oneshot};

use crate::ports::{Stats, Unmeasured, UsageReader, Wanted};

/// A question to the task.
pub(super) struct Ask {
    pub(super) wanted: Wanted,
    pub(super) reply: oneshot::Sender<Result<Arc<NodeUsage>, Unmeasured>>,
}

/// Asks the task. Cheap to clone.
#[derive(Clone)]
pub struct UsageHandle {
    ask: mpsc::Sender<Ask>,
    stats: Arc<dyn Stats>,
}

impl UsageHandle {
    pub(super) fn new(ask: mpsc::Sender<Ask>, stats: Arc<dyn Stats>) -> Self {
        Self { ask, stats }
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

    async fn machine(&self) -> MachineInfo {
        self.stats.machine().await
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
