//! The state that a pod's jobs own. Only a job writes it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use rubelet_core::backoff::{BackoffPolicy, Backoffs};
use rubelet_core::inputs::{NodeInputs, PodInputs};
use rubelet_core::observe::PodObservation;
use rubelet_core::plan::ProbeView;
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::resize::{PodAllocation, ResizeProgress};
use rubelet_core::status::EndProgress;

use crate::volumes::VolumeMemory;

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

/// The inputs of a pod's plan and status, taken when the plan was empty and the status had not changed. Plan and status are
/// pure functions: as long as the inputs and the observation are the same, neither has to be computed again. On an idle
/// node most looks end here.
///
/// Inputs are compared by address: a change replaces the whole value. The references are weak, so that they keep no value
/// alive; an address is not used again while a weak reference to it exists.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pod: Weak<Pod>,
    probes: Weak<ProbeView>,
    actuated: Weak<PodAllocation>,
    status: Weak<PodStatus>,
    host_ips: Box<[IpAddr]>,
    recursive_read_only: bool,
}

/// The inputs that [`Rest`] is made from. Only a pod that neither ends nor is resized, and whose containers all started,
/// has them.
struct Still<'a> {
    pod: &'a Arc<Pod>,
    probes: &'a Arc<ProbeView>,
    actuated: &'a Arc<PodAllocation>,
    host_ips: &'a [IpAddr],
    recursive_read_only: bool,
}

impl<'a> Still<'a> {
    /// `None` while the pod ends or is resized, or a container could not be started.
    fn of(inputs: &PodInputs<'a>) -> Option<Self> {
        // Without `..`, so that a new input does not compile until it is compared here.
        let PodInputs {
            pod,
            probes,
            failures,
            actuated,
            resize_pending,
            resize_progress,
            end,
            end_reason,
            // The name of the runtime and the gates do not change while the process lives.
            node: NodeInputs { runtime_name: _, host_ips, recursive_read_only, gates: _ },
        } = *inputs;
        let is_still = failures.is_empty()
            && resize_pending.is_none()
            && resize_progress.is_none()
            && end == EndProgress::MayRun
            && end_reason.is_none();
        let actuated = actuated.filter(|_| is_still)?;
        Some(Self { pod, probes, actuated, host_ips, recursive_read_only })
    }
}

impl Rest {
    /// `None` while the pod ends or is resized, or a container could not be started.
    pub(crate) fn on(inputs: &PodInputs<'_>, status: &Arc<PodStatus>) -> Option<Self> {
        let Still { pod, probes, actuated, host_ips, recursive_read_only } = Still::of(inputs)?;
        Some(Self {
            pod: Arc::downgrade(pod),
            probes: Arc::downgrade(probes),
            actuated: Arc::downgrade(actuated),
            status: Arc::downgrade(status),
            host_ips: host_ips.into(),
            recursive_read_only,
        })
    }

    /// Whether the inputs and the status are the same as those of this rest.
    pub(crate) fn holds(&self, inputs: &PodInputs<'_>, status: &Arc<PodStatus>) -> bool {
        let Some(Still { pod, probes, actuated, host_ips, recursive_read_only }) = Still::of(inputs) else {
            return false;
        };
        is_same(&self.pod, pod)
            && is_same(&self.probes, probes)
            && is_same(&self.actuated, actuated)
            && is_same(&self.status, status)
            && *self.host_ips == *host_ips
            && self.recursive_read_only == recursive_read_only
    }
}

fn is_same<T>(before: &Weak<T>, now: &Arc<T>) -> bool {
    std::ptr::eq(before.as_ptr(), Arc::as_ptr(now))
}

#[cfg(test)]
mod tests;
