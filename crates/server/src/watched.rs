//! The node as the servers see it: its pods, and the liveness of its sync loop.

use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::sync_loop::{KnownPod, NodeView, SyncLoopHandle};
use tokio::sync::watch;

/// Read access to the node.
#[async_trait]
pub trait WatchedNode: Send + Sync {
    /// A view of all pods; `None` if the sync loop has ended. Waits as long as the sync loop hangs.
    async fn view(&self) -> Option<NodeView>;
    /// The pod with this UID, and its newest status. Much cheaper than a view; otherwise as [`Self::view`].
    async fn pod(&self, uid: &PodUid) -> Option<Option<KnownPod>>;
    /// The pod with this name; of two, the newer one. As [`Self::pod`].
    async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>>;
    /// The time since the sync loop last did something.
    fn quiet_for(&self) -> Duration;
    /// Changes whenever the sync loop has done something.
    fn news(&self) -> watch::Receiver<Instant>;
}

/// The node of this process.
#[derive(Clone, Debug)]
pub struct LiveNode {
    /// Its sync loop.
    pub sync_loop: SyncLoopHandle,
    /// The clock of the sync loop.
    pub clock: Clock,
}

#[async_trait]
impl WatchedNode for LiveNode {
    async fn view(&self) -> Option<NodeView> {
        self.sync_loop.view().await
    }

    async fn pod(&self, uid: &PodUid) -> Option<Option<KnownPod>> {
        self.sync_loop.pod(uid.clone()).await
    }

    async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>> {
        self.sync_loop.pod_named(namespace, name).await
    }

    fn quiet_for(&self) -> Duration {
        self.clock.mono().since(self.sync_loop.last_beat())
    }

    fn news(&self) -> watch::Receiver<Instant> {
        self.sync_loop.beats()
    }
}
