//! How a chosen pod ends (EV-12, EV-13, EV-14).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{Candidate, LocalLimit, NodeLow, Observation, Threshold, eviction_message};
use crate::lifecycle::{Cause, Ending};
use crate::pod::PodExt;
use crate::qos::is_critical;
use crate::status::EndReason;

/// The reason of the pod's status and of its event.
pub const EVICTED: &str = "Evicted";

/// The grace of a pod that ends at once. upstream: eviction_manager.go immediateEvictionGracePeriodSeconds (v1.36)
const AT_ONCE: Duration = Duration::from_secs(1);

/// A pod that ends, and how.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The pod.
    pub pod: Arc<Pod>,
    /// How long its containers have.
    pub grace: Duration,
    /// How `kubelet_evictions` names the cause.
    pub signal: &'static str,
    /// The message of the status and of the event.
    pub message: String,
    /// Annotations of the event.
    pub annotations: BTreeMap<String, String>,
    /// Whether the pod gets the condition `DisruptionTarget`.
    pub disrupted: bool,
}

impl Victim {
    /// Why the pod ends, for its life cycle.
    pub fn ending(&self) -> Ending {
        let message: Cow<'static, str> = Cow::Owned(self.message.clone());
        let disruption = self.disrupted.then(|| message.clone());
        let reason = EndReason { reason: Cow::Borrowed(EVICTED), message, disruption };
        Ending { cause: Cause::Evicted, reason: Some(Arc::new(reason)) }
    }
}

/// The first of the ranked pods that may end. Critical pods never do.
pub fn victim_of_threshold(
    ranked: &[Candidate],
    threshold: &Threshold,
    seen: Option<Observation>,
    max_pod_grace: i64,
) -> Option<Victim> {
    let Candidate { pod, stats } = ranked.iter().find(|candidate| !is_critical(&candidate.pod))?;
    let grace = if threshold.is_hard() {
        AT_ONCE
    } else {
        let own = pod.pod_spec().and_then(|spec| spec.termination_grace_period_seconds);
        let secs = own.map_or(max_pod_grace, |own| own.min(max_pod_grace));
        Duration::from_secs(u64::try_from(secs).unwrap_or_default())
    };
    let (message, annotations) = eviction_message(&NodeLow::of(threshold, seen), pod, stats.as_ref());
    let (pod, signal) = (Arc::clone(pod), threshold.signal.as_str());
    Some(Victim { pod, grace, signal, message, annotations, disrupted: true })
}

/// A pod that exceeded a limit of its own; `None` if it is critical.
pub fn victim_of_limit(pod: &Arc<Pod>, limit: LocalLimit) -> Option<Victim> {
    if is_critical(pod) {
        return None;
    }
    Some(Victim {
        pod: Arc::clone(pod),
        grace: AT_ONCE,
        signal: limit.signal,
        message: limit.message,
        annotations: BTreeMap::new(),
        disrupted: false,
    })
}
