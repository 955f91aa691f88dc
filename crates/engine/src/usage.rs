//! What the node and its pods use: for the pages of metrics, eviction and the commands (section 28, ADR 26).
//!
//! One task owns the newest look, the CPU times of the looks before, the runtime's last list and what directories take.
//! Nothing is measured while nobody asks. Callers that ask at the same time share one look, and a look that is young enough
//! for a caller serves it too. A part that does not answer in time is left out of the look, and costs the others nothing.
//!
//! Directories are measured in the background, each at most once a minute: a look shows the newest complete result. Only a caller
//! that accepts no older look has them measured anew, and waits for a few seconds: eviction, before it ranks pods by disk.

mod directories;
mod handle;
mod look;
mod task;

use std::sync::Arc;

use rubelet_core::usage::PodPlaces;

pub use self::handle::{NoUsage, UsageHandle};
pub use self::task::UsageTask;
use crate::clock::Clock;
use crate::ports::{Disks, Images, Runtime, RuntimeStats, Stats};
use crate::sync_loop::SyncLoopHandle;

/// What usage is measured with.
#[derive(Clone)]
pub struct UsageParts {
    /// Cgroups, networks and processes.
    pub stats: Arc<dyn Stats>,
    /// File systems and directories.
    pub disks: Arc<dyn Disks>,
    /// Writable layers.
    pub runtime: Arc<dyn RuntimeStats>,
    /// Where the files of pods are.
    pub places: PodPlaces,
}

/// The world of the task.
struct World {
    parts: UsageParts,
    runtime: Arc<dyn Runtime>,
    images: Arc<dyn Images>,
    sync_loop: SyncLoopHandle,
    clock: Clock,
}
