//! What wakes eviction before its next look is due.

use async_trait::async_trait;
use rubelet_core::eviction::{MemoryMark, MemoryUsed};

/// Notices that memory fills up.
#[async_trait]
pub trait PressureEvents: Send + Sync {
    /// What is in use now: what marks count from. Cheap.
    async fn used(&self) -> MemoryUsed;
    /// Returns once one of the `marks` is reached, within 200 ms of it, and at once if it was reached before. It may return
    /// too early: the caller looks for itself. Without a mark, and where nothing can be noticed, it never returns. A call that
    /// is dropped leaves nothing behind.
    async fn filled(&self, marks: &[MemoryMark]);
}

/// Notices nothing: eviction looks at its own pace.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPressureEvents;

#[async_trait]
impl PressureEvents for NoPressureEvents {
    async fn used(&self) -> MemoryUsed {
        MemoryUsed::default()
    }

    async fn filled(&self, _marks: &[MemoryMark]) {
        std::future::pending().await
    }
}

/// Frees disk space before a pod ends (EV-10).
#[async_trait]
pub trait Reclaimer: Send + Sync {
    /// Removes all dead containers, also of pods that are there still.
    #[doc(alias = "DeleteAllUnusedContainers")]
    async fn dead_containers(&self) -> Result<(), ReclaimError>;
    /// Removes all images that no container uses.
    #[doc(alias = "DeleteUnusedImages")]
    async fn unused_images(&self) -> Result<(), ReclaimError>;
}

/// Something could not be freed. The text is for people only.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ReclaimError(pub String);
