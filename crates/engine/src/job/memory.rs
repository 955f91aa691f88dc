//! What jobs remember of their pod. Only a job writes it.

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

/// What the jobs of a pod know of it. It goes from one job to the next; a job that panics loses what it learned since it
/// last published. Nothing in it is needed for correctness: after a restart it is empty.
#[derive(Clone, Debug)]
pub(crate) struct PodMemory {
    /// The last look at the runtime.
    pub(crate) seen: Option<Arc<PodObservation>>,
    /// Something was started since.
    pub(crate) unseen: bool,
    /// Why containers could not be started.
    pub(crate) failures: BTreeMap<String, StartFailure>,
    /// Delays of containers that keep ending.
    pub(crate) crashes: Backoffs,
    /// Delays of images that can't be pulled.
    pub(crate) pulls: Backoffs,
    /// How long its images took to be pulled.
    pub(crate) pulling: Duration,
    /// The last failure of each image, for the message while it waits.
    pub(crate) pull_errors: BTreeMap<String, (WaitingReason, String)>,
    /// Directories, cgroup and volumes were made ready by this process; where the volumes are.
    pub(crate) set_up: Option<Arc<BTreeMap<String, PathBuf>>>,
    /// The resources that its containers were last started or resized with.
    pub(crate) actuated: Option<Arc<PodAllocation>>,
    /// How far its resize has come.
    pub(crate) resize: ResizeProgress,
    /// How its volumes fare.
    pub(crate) volumes: VolumeMemory,
    /// Containers of it ran when its grace was over and the runtime had been asked to stop them: they are killed by all
    /// means (KILL-01).
    pub(crate) insist: bool,
    /// The runtime handler by which its status is decided.
    pub(crate) handler: String,
    /// The inputs of decisions that left nothing to do, if the last ones did.
    pub(crate) rest: Option<Rest>,
}

impl PodMemory {
    /// Of a pod that is new here.
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
            insist: false,
            handler: String::new(),
            rest: None,
        }
    }
}
