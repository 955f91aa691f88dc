//! The QoS class of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::PodExt;
use crate::resources::{Amount, Amounts, CPU, MEMORY};

/// Priority from which on a pod is critical to the system.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// The priority class of pods that the node needs to work.
const NODE_CRITICAL_CLASS: &str = "system-node-critical";

/// The QoS class: in which order pods lose resources when the node runs short.
#[doc(alias = "PodQOSClass")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// Every container requests CPU and memory equal to its limits.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// No container has a request or a limit.
    BestEffort,
}

impl QosClass {
    /// The name of the class in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    /// The class of this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Guaranteed, Self::Burstable, Self::BestEffort].into_iter().find(|class| class.as_str() == word)
    }
}

/// The class of a pod: from its status, because the class never changes, or else computed.
#[doc(alias = "GetPodQOS")]
pub fn qos_class(pod: &Pod) -> QosClass {
    let stated = pod.status.as_ref().and_then(|status| status.qos_class.as_deref()).and_then(QosClass::parse);
    stated.unwrap_or_else(|| computed_qos_class(pod))
}

/// The class of a pod by its spec. If the spec has pod-level resources, they alone decide.
///
/// upstream: pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS (v1.36)
#[doc(alias = "ComputePodQOS")]
pub fn computed_qos_class(pod: &Pod) -> QosClass {
    let mut requests = Amounts::new();
    let mut limits = Amounts::new();
    let mut all_limited = true;
    if let Some(own) = pod.pod_spec().and_then(|spec| spec.resources.as_ref()) {
        collect(&mut requests, own.requests.as_ref());
        if own.limits.as_ref().is_some_and(|limits| !limits.is_empty()) {
            all_limited = collect(&mut limits, own.limits.as_ref()) == 2;
        }
    } else {
        for container in pod.regular().iter().chain(pod.init()) {
            let resources = container.resources.as_ref();
            collect(&mut requests, resources.and_then(|r| r.requests.as_ref()));
            all_limited &= collect(&mut limits, resources.and_then(|r| r.limits.as_ref())) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if all_limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// Adds the CPU and memory of `list` to a sum. Returns how many of the two `list` has.
fn collect(sum: &mut Amounts, list: Option<&BTreeMap<String, Quantity>>) -> usize {
    let mut found = 0;
    for (name, quantity) in list.into_iter().flatten() {
        let amount = Amount::of(quantity);
        if (name == CPU || name == MEMORY) && amount.is_positive() {
            let entry = sum.entry(name.clone()).or_default();
            *entry = *entry + amount;
            found += 1;
        }
    }
    found
}

/// The pod is critical to the cluster: it is static, a mirror pod, or has a critical priority (ADM-30).
#[doc(alias = "IsCriticalPod")]
pub fn is_critical(pod: &Pod) -> bool {
    let priority = pod.pod_spec().and_then(|spec| spec.priority);
    pod.is_static() || pod.is_mirror() || priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

/// A critical pod that this node needs to work (RT-92).
#[doc(alias = "IsNodeCriticalPod")]
pub fn is_node_critical(pod: &Pod) -> bool {
    let class = pod.pod_spec().and_then(|spec| spec.priority_class_name.as_deref());
    is_critical(pod) && class == Some(NODE_CRITICAL_CLASS)
}
