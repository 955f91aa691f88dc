//! How containers are stopped: grace periods and order (KILL-02 … KILL-05).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod, Probe};

use super::KillReason;
use crate::id::ContainerId;
use crate::observe::{ContainerMarks, ContainerObservation, PodObservation};
use crate::pod::{PodExt, is_sidecar};

/// The least time that a container has to stop, however little of its grace is left (KILL-03, TRAP-14). The engine applies
/// it after the preStop hook and after the wait for other containers; it is not part of `grace_for`.
#[doc(alias = "minimumGracePeriodInSeconds")]
pub const MIN_STOP_GRACE: Duration = Duration::from_secs(2);

/// The grace period of a container of `pod` that is stopped for `reason`. `replace` (eviction, shutdown, a kill request)
/// overrides all others (KILL-02).
#[doc(alias = "setTerminationGracePeriod")]
pub fn grace_for(pod: &Pod, container: &Container, reason: KillReason, replace: Option<Duration>) -> Duration {
    if let Some(grace) = replace {
        return grace;
    }
    let own = |probe: &Option<Probe>| probe.as_ref().and_then(|p| p.termination_grace_period_seconds);
    let probe = match reason {
        KillReason::RestartAll => return Duration::ZERO,
        KillReason::Liveness => own(&container.liveness_probe),
        KillReason::Startup => own(&container.startup_probe),
        KillReason::Changed | KillReason::Resized | KillReason::Unknown | KillReason::Unwanted => None,
    };
    let of_pod = pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds);
    // The grace of a probe counts only if the pod has one: the API server always sets it.
    grace(pod.metadata.deletion_grace_period_seconds, of_pod.map(|of_pod| probe.unwrap_or(of_pod)))
}

/// The grace period of a container whose spec is not known, from its annotations (KILL-05).
pub fn grace_from_marks(marks: &ContainerMarks, replace: Option<Duration>) -> Duration {
    replace.unwrap_or_else(|| grace(marks.deletion_grace, marks.pod_grace))
}

fn grace(of_deletion: Option<i64>, of_pod: Option<i64>) -> Duration {
    let secs = of_deletion.or(of_pod);
    secs.map_or(MIN_STOP_GRACE, |secs| Duration::from_secs(u64::try_from(secs).unwrap_or_default()))
}

/// The preStop hook of a container whose spec is not known, from its annotations (KILL-05). A hook that cannot be parsed
/// is ignored.
#[doc(alias = "restoreSpecsFromContainerLabels")]
pub fn pre_stop_from_marks(marks: &ContainerMarks) -> Option<LifecycleHandler> {
    marks.pre_stop.as_deref().and_then(|json| serde_json::from_str(json).ok())
}

/// The message of the `Killing` event when no better message is known (KILL-03).
pub fn kill_message(container: &str) -> String {
    format!("Stopping container {container}")
}

/// The order in which the containers of a pod stop.
#[doc(alias = "terminationOrdering")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillOrder {
    /// One entry for each running container.
    pub steps: Vec<KillStep>,
}

/// One container of a `KillOrder`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillStep {
    /// The instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// The container is asked to stop when these have ended, or when its grace is over. Its preStop hook does not wait.
    pub after: Vec<ContainerId>,
}

/// The order in which containers stop: regular, ephemeral and ordinary init containers at once; sidecars when every regular
/// container has ended, last of the spec first (KILL-04). Without a pod all stop at once.
///
/// A sidecar waits for the next later one that runs. Upstream waits for the next later one of the spec, so that one that
/// is not running lets the rest of the chain stop out of order.
/// upstream: `kuberuntime_termination_order.go` `newTerminationOrdering` (v1.36)
pub fn plan_kill_order(pod: Option<&Pod>, seen: &PodObservation) -> KillOrder {
    let step = |c: &ContainerObservation| KillStep {
        id: c.id.clone(),
        name: c.name.clone(),
        after: pod.map_or_else(Vec::new, |pod| prerequisites(pod, &c.name, seen)),
    };
    KillOrder { steps: seen.running().map(step).collect() }
}

fn prerequisites(pod: &Pod, name: &str, seen: &PodObservation) -> Vec<ContainerId> {
    let Some(place) = pod.init().iter().position(|c| c.name == name && is_sidecar(c)) else {
        return Vec::new();
    };
    let running =
        |name: &str| -> Vec<ContainerId> { seen.running().filter(|c| c.name == name).map(|c| c.id.clone()).collect() };
    let later = pod.init().iter().skip(place + 1).filter(|c| is_sidecar(c)).map(|c| running(&c.name));
    let next = later.into_iter().find(|ids| !ids.is_empty()).unwrap_or_default();
    pod.regular().iter().flat_map(|c| running(&c.name)).chain(next).collect()
}
