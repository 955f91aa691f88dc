//! The evictor: watches memory, disks and process IDs, and ends one pod when the node runs short (section 17).
//!
//! It owns what was observed and for how long ([`EvictionState`](rubelet_core::eviction::EvictionState)), publishes what the
//! node is short of, and asks the sync loop to end a pod. It never touches a container, and decides nothing itself:
//! `core::eviction` does. Each pod that ends is followed by a new look, so that no more end than needed (ADR 28).

mod handle;
mod look;
mod reclaim;
mod task;

use std::sync::Arc;

use rubelet_core::eviction::{EvictionPolicy, PageCache};
use rubelet_core::node::Pressure;
use tokio::sync::watch;

pub use handle::{EvictionHandle, EvictionView, SignalView};
pub(crate) use reclaim::Collectors;
pub(crate) use task::{Evictor, World};

use crate::ports::{PressureEvents, Reclaimer, UsageReader};

/// What eviction needs besides the engine; `None` in `Parts` on a node that evicts nothing.
#[derive(Clone)]
pub struct EvictionParts {
    /// Thresholds and limits.
    pub policy: EvictionPolicy,
    /// Whether active page cache counts as used memory.
    pub page_cache: PageCache,
    /// Measures the node; `None` for the engine's own reader.
    pub usage: Option<Arc<dyn UsageReader>>,
    /// Wakes the evictor.
    pub wakes: Arc<dyn PressureEvents>,
    /// Frees disk space before a pod ends; `None` for the engine's own collectors.
    pub reclaim: Option<Arc<dyn Reclaimer>>,
}

/// The two ends of what the evictor publishes: `None` until the node was looked at.
pub(crate) fn pressure() -> (watch::Sender<Option<Pressure>>, watch::Receiver<Option<Pressure>>) {
    watch::channel(None)
}
