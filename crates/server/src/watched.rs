//! What the servers need of the node: a view, and a sign of life.

use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::sync_loop::{KnownPod, NodeView, SyncLoopHandle};
use tokio::sync::watch;

/// A node that can be looked at.
#[async_trait]
pub trait WatchedNode: Send + Sync {
    /// All that the node knows of its pods; `None` if its loop has ended. May wait as long as the loop hangs.
    async fn view(&self) -> Option<NodeView>;
    /// The pod of this UID, and its newest status. Much cheaper than a view; waits and ends as it does.
    async fn pod(&self, uid: &PodUid) -> Option<Option<KnownPod>>;
    /// The pod of this name; of two the newer one. As [`Self::pod`].
    async fn pod_named(&self, namespace: &str, name: &str) -> Option<Option<KnownPod>>;
    /// How long ago the loop last did something.
    fn quiet_for(&self) -> Duration;
    /// Changes whenever the loop has done something: a reason to look again.
    fn news(&self) -> watch::Receiver<Instant>;
}

/// The node of this process.
#[derive(Clone, Debug)]
pub struct LiveNode {
    /// Its loop.
    pub sync_loop: SyncLoopHandle,
    /// The clock that its loop goes by.
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
