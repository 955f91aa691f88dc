//! Whether two decisions about a pod were made from the same inputs.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::{NodeInputs, PodInputs};
use crate::plan::ProbeView;
use crate::resize::PodAllocation;
use crate::status::EndProgress;

/// The inputs of a pod's plan and status, taken when the plan was empty and the status had not changed. Plan and status are
/// pure functions: as long as the inputs and the observation are the same, neither has to be computed again. On an idle
/// node most looks end here.
///
/// Inputs are compared by address: a change replaces the whole value. The references are weak, so that they keep no value
/// alive; an address is not used again while a weak reference to it exists.
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
