//! The state that a pod's jobs own. Only a job writes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::backoff::{BackoffPolicy, Backoffs};
use rubelet_core::inputs::Rest;
use rubelet_core::observe::PodObservation;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{PodAllocation, ResizeProgress};
use rubelet_core::volumes::VolumeMemory;

/// The state that a pod's jobs own and hand from one to the next. A job that panics loses what it changed since it last
/// published. Nothing in it is needed for correctness: after a restart it is empty.
#[derive(Clone, Debug)]
pub(crate) struct PodMemory {
    /// The last look at the runtime.
    pub(crate) seen: Option<Arc<PodObservation>>,
    /// A container was started since the last look.
    pub(crate) unseen: bool,
    /// Why containers could not be started, by name.
    pub(crate) failures: BTreeMap<String, StartFailure>,
    /// Back-offs of containers that keep ending.
    pub(crate) crashes: Backoffs,
    /// Back-offs of images that cannot be pulled.
    pub(crate) pulls: Backoffs,
    /// How long the pulls of the pod's images took.
    pub(crate) pulling: Duration,
    /// The last pull failure of each image, for the message during the back-off.
    pub(crate) pull_errors: BTreeMap<String, (WaitingReason, String)>,
    /// The path of each volume, once this process has made the pod's directories, cgroup and volumes.
    pub(crate) set_up: Option<Arc<BTreeMap<String, PathBuf>>>,
    /// The resources that the containers were last started or resized with.
    pub(crate) actuated: Option<Arc<PodAllocation>>,
    /// How far the resize in progress has come.
    pub(crate) resize: ResizeProgress,
    /// When volumes have to be renewed, and which cannot be mounted.
    pub(crate) volumes: VolumeMemory,
    /// Containers still ran after the grace period, though the runtime had been asked to stop them. The next job kills
    /// them without grace, and in the end through the cgroup (KILL-01).
    pub(crate) force_kill: bool,
    /// The runtime handler whose features the status shows.
    pub(crate) handler: String,
    /// The inputs of the last plan and status, if they left nothing to do.
    pub(crate) rest: Option<Rest>,
}

impl PodMemory {
    /// The memory of a pod that is new on this node.
    pub(crate) fn new(resize: ResizeProgress, actuated: Option<Arc<PodAllocation>>, crashes: BackoffPolicy) -> Self {
        Self {
            seen: None,
            unseen: false,
            failures: BTreeMap::new(),
            crashes: Backoffs::new(crashes),
            pulls: Backoffs::new(BackoffPolicy::image()),
            pulling: Duration::ZERO,
            pull_errors: BTreeMap::new(),
            set_up: None,
            actuated,
            resize,
            volumes: VolumeMemory::default(),
            force_kill: false,
            handler: String::new(),
            rest: None,
        }
    }
}
