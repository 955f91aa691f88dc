//! What jobs remember of their pod. Only a job writes it.

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

/// The inputs from which a pod's status and plan were decided when there was nothing to do and the status followed from
/// itself. Both decisions are functions: as long as the inputs are the same and a look shows the same, they need not be
/// made again. Most looks at a node where nothing happens end here.
///
/// Values are known by identity: a change puts another value in the place of the one before. They are held weakly, so that
/// nothing is kept for this; and an address is not used again while something refers to it.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pod: Weak<Pod>,
    probes: Weak<ProbeView>,
    actuated: Weak<PodAllocation>,
    status: Weak<PodStatus>,
    host_ips: Box<[IpAddr]>,
    recursive_read_only: bool,
}

/// The inputs that [`Rest`] is made from, of a pod with which nothing is under way.
struct Still<'a> {
    pod: &'a Arc<Pod>,
    probes: &'a Arc<ProbeView>,
    actuated: &'a Arc<PodAllocation>,
    host_ips: &'a [IpAddr],
    recursive_read_only: bool,
}

impl<'a> Still<'a> {
    /// `None` while something is under way that may end without a sign.
    fn of(inputs: &PodInputs<'a>) -> Option<Self> {
        // Every input is named: a new one has to be taken into account here.
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
    /// `None` while something is under way that may end without a sign.
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

    /// The inputs are the same.
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
