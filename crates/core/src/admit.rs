//! Whether a pod may run here (section 15).
//!
//! Each check is a function of the node, the pod and the other active pods; the first refusal counts. Eviction, topology
//! and node shutdown have their places in this order and are missing.

use k8s_openapi::api::core::v1::{Pod, Taint};

use crate::pod::PodExt;
use crate::resources::Amounts;

mod affinity;
mod apparmor;
mod bounds;
mod claims;
mod fit;
mod preempt;
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

/// What admission knows of the node.
#[derive(Clone, Copy, Debug)]
pub struct AdmitView<'a> {
    /// Name of the node.
    pub node_name: &'a str,
    /// Labels of the node.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints of the node.
    pub taints: &'a [Taint],
    /// What the node offers to pods, the number of them included.
    pub allocatable: &'a Amounts,
    /// Kernel settings that pods may make.
    pub sysctls: &'a SysctlAllowlist,
    /// AppArmor is enabled.
    pub apparmor: bool,
    /// The runtime can set supplementary groups strictly.
    pub supplemental_groups_policy: bool,
}

/// Why a pod may not run here.
#[doc(alias = "PodAdmitResult")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Upstream's word: the reason of the pod's status and of its event.
    pub reason: String,
    /// The sentence.
    pub message: String,
    /// What the node has too little of, if that is all: preemption may mend it.
    pub shortages: Vec<Shortage>,
}

impl Rejection {
    pub(self) fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), shortages: Vec::new() }
    }

    /// A check of the scheduler's that fails here too.
    pub(self) fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }
}

/// An active pod that was admitted before, and what it requests: summed up once, not for every pod that comes after.
#[derive(Clone, Debug)]
pub struct Admitted {
    pod: Arc<Pod>,
    requests: Amounts,
}

impl Admitted {
    /// Sums up what `pod` requests.
    pub fn new(pod: Arc<Pod>) -> Self {
        let requests = fit::requests(&pod);
        Self { pod, requests }
    }
}

/// Whether `pod` may run here beside `others`.
///
/// What a pod asks for in numbers is looked at first, so that none of the other checks is a burden; upstream has no such
/// bound. upstream: lifecycle/predicate.go Admit, sysctl/allowlist.go Admit, lifecycle/handlers.go (v1.36)
#[doc(alias = "PodAdmitHandler")]
pub fn admit(view: &AdmitView<'_>, pod: &Pod, others: &[Admitted]) -> Result<(), Rejection> {
    bounds::check(pod)?;
    view.sysctls.check(pod)?;
    claims::check(pod)?;
    check_os(pod)?;
    check_groups_policy(view, pod)?;
    fit::check(view, pod, others)?;
    apparmor::check(view, pod)
}

/// ADM-05. The selector is looked for among the pod's labels, as upstream does.
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
