//! Frees disk space with what the engine has: the collectors of containers and of images (EV-10).

use async_trait::async_trait;

use crate::chain::Chain;
use crate::image_gc::ImageGcHandle;
use crate::ports::{ReclaimError, Reclaimer};
use crate::sync_loop::SyncLoopHandle;

/// Asks the collectors.
pub(crate) struct Collectors {
    pub(crate) sync_loop: SyncLoopHandle,
    pub(crate) images: ImageGcHandle,
}

#[async_trait]
impl Reclaimer for Collectors {
    async fn dead_containers(&self) -> Result<(), ReclaimError> {
        self.sync_loop.remove_dead_containers().await.ok_or_else(|| ReclaimError("shutting down".to_owned()))
    }

    async fn unused_images(&self) -> Result<(), ReclaimError> {
        self.images.free_unused().await.map(drop).map_err(|err| ReclaimError(Chain(&err).to_string()))
    }
}
