//! Admission: whether a pod may run on this node, and what is allocated to it (section 15).
//!
//! Each check is a function of the node, the pod and the allocations of other pods; the first rejection counts. The checks
//! for topology are missing in this order.

use k8s_openapi::api::core::v1::{Pod, Taint};

use crate::node::Pressure;
use crate::pod::PodExt;
use crate::resize::PodAllocation;
use crate::resources::Amounts;
use crate::shutdown::{NODE_SHUTDOWN, NODE_SHUTDOWN_MESSAGE};

mod affinity;
mod apparmor;
mod bounds;
mod claims;
mod fit;
mod preempt;
mod pressure;
mod sysctl;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use fit::Shortage;
pub use preempt::victims;
pub use sysctl::{SysctlAllowlist, SysctlError};

/// The operating system that this kubelet is for.
const OS: &str = "linux";
/// Label that names a node's operating system.
const OS_LABEL: &str = "kubernetes.io/os";

/// The node as admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct AdmitView<'a> {
    /// Name of the node.
    pub node_name: &'a str,
    /// Labels of the node.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints of the node.
    pub taints: &'a [Taint],
    /// The resources that pods may request, and the number of pods.
    pub allocatable: &'a Amounts,
    /// Sysctls that pods may set.
    pub sysctls: &'a SysctlAllowlist,
    /// AppArmor is enabled.
    pub apparmor: bool,
    /// The runtime can set supplementary groups strictly.
    pub supplemental_groups_policy: bool,
    /// The machine is about to go down.
    pub shutting_down: bool,
    /// What the node is short of.
    pub pressure: Pressure,
}

/// Why a pod is rejected.
#[doc(alias = "PodAdmitResult")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reason of the pod's status and of its event, in upstream's spelling.
    pub reason: String,
    /// The message of both.
    pub message: String,
    /// The resources that the node lacks, if nothing else is wrong: preemption may free them.
    pub shortages: Vec<Shortage>,
}

impl Rejection {
    pub(self) fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), shortages: Vec::new() }
    }

    /// The rejection by a predicate that the scheduler has too.
    pub(self) fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }
}

/// What admission allocates to a pod: the sum of its requests. It counts against the node until it is released.
///
/// The sum is taken once, not for every pod that is admitted later.
#[derive(Clone, Debug)]
pub struct Allocation {
    pod: Arc<Pod>,
    requests: Amounts,
}

impl Allocation {
    /// The allocation of a pod that was admitted before.
    pub fn of(pod: Arc<Pod>) -> Self {
        let requests = fit::requests(&pod);
        Self { pod, requests }
    }

    /// The pod, with its allocated resources.
    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    /// The allocated resources of each container, as the checkpoint has them.
    pub fn resources(&self) -> PodAllocation {
        PodAllocation::of(&self.pod)
    }
}

/// Admits `pod` beside the pods that have `others`.
///
/// The bounds on the size of a spec are checked first, so that no other check can be slow; upstream has no such bounds.
/// upstream: eviction/eviction_manager.go Admit,
/// upstream: lifecycle/predicate.go Admit, sysctl/allowlist.go Admit, lifecycle/handlers.go (v1.36)
#[doc(alias = "PodAdmitHandler")]
pub fn admit(view: &AdmitView<'_>, pod: &Arc<Pod>, others: &[Allocation]) -> Result<Allocation, Rejection> {
    bounds::check(pod)?;
    pressure::check(view, pod)?;
    view.sysctls.check(pod)?;
    claims::check(pod)?;
    check_os(pod)?;
    check_groups_policy(view, pod)?;
    check_shutdown(view)?;
    fit::check(view, pod, others)?;
    apparmor::check(view, pod)?;
    Ok(Allocation::of(Arc::clone(pod)))
}

/// ADM-05. Upstream looks for the selector among the labels of the pod, and so does this.
fn check_os(pod: &Pod) -> Result<(), Rejection> {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|os| os != OS) {
        return Err(Rejection::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    if pod.pod_spec().and_then(|spec| spec.os.as_ref()).is_some_and(|os| os.name != OS) {
        return Err(Rejection::new("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    Ok(())
}

/// ADM-08. Upstream checks it last; here before the check that preempts: no pod makes room for one that is rejected anyway.
fn check_shutdown(view: &AdmitView<'_>) -> Result<(), Rejection> {
    if view.shutting_down {
        return Err(Rejection::new(NODE_SHUTDOWN, NODE_SHUTDOWN_MESSAGE));
    }
    Ok(())
}

fn check_groups_policy(view: &AdmitView<'_>, pod: &Pod) -> Result<(), Rejection> {
    let sc = pod.pod_spec().and_then(|spec| spec.security_context.as_ref());
    let strict = sc.and_then(|sc| sc.supplemental_groups_policy.as_deref()) == Some("Strict");
    if strict && !view.supplemental_groups_policy {
        return Err(Rejection::new(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ));
    }
    Ok(())
}
