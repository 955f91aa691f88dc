//! A node for tests of what surrounds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_core::time::Instant;
use rubelet_engine::sync_loop::{KnownPod, NodeView};
use rubelet_server::WatchedNode;
use tokio::sync::watch;

/// A node that answers no question: its sync loop is either at work, or hangs.
#[derive(Debug, Default)]
pub(super) struct StillNode {
    pub(super) hangs: AtomicBool,
}

#[async_trait]
impl WatchedNode for StillNode {
    async fn view(&self) -> Option<NodeView> {
        std::future::pending().await
    }

    async fn pod(&self, _: &PodUid) -> Option<Option<KnownPod>> {
        std::future::pending().await
    }

    async fn pod_named(&self, _: &str, _: &str) -> Option<Option<KnownPod>> {
        std::future::pending().await
    }

    fn quiet_for(&self) -> Duration {
        if self.hangs.load(Ordering::Relaxed) { Duration::from_secs(3600) } else { Duration::ZERO }
    }

    fn news(&self) -> watch::Receiver<Instant> {
        watch::channel(Instant::START).1
    }
}
