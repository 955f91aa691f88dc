//! Whether two decisions about a pod were made from the same inputs.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::{NodeInputs, PodInputs};
use crate::plan::ProbeView;
use crate::resize::PodAllocation;
use crate::status::EndProgress;

/// The inputs from which a pod's status and plan were decided when there was nothing to do and the status followed from
/// itself. Both decisions are functions: as long as the inputs are the same and a look shows the same, they need not be
/// made again. Most looks at a node where nothing happens end here.
///
/// Values are known by identity: a change puts another value in the place of the one before. They are held weakly, so that
/// nothing is kept for this; and an address is not used again while something refers to it.
#[derive(Clone, Debug)]
pub struct Rest {
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
    pub fn on(inputs: &PodInputs<'_>, status: &Arc<PodStatus>) -> Option<Self> {
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
    pub fn holds(&self, inputs: &PodInputs<'_>, status: &Arc<PodStatus>) -> bool {
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
