//! Whether the pod's sandbox can be used, and the plan for a pod whose sandbox cannot (RT-10 … RT-12).

use k8s_openapi::api::core::v1::Pod;

use super::restart::restarts_on_exit;
use super::{PlanGates, PodInputs, PodPlan, SandboxPlan, StartContainer, init_role};
use crate::id::{ContainerId, SandboxId};
use crate::launch::NamespaceMode;
use crate::observe::{ContainerStateKind, PodObservation, SandboxState};
use crate::pod::{PodExt, RestartPolicy, Role};

/// Whether a pod can go on in the sandbox that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxNeed {
    /// The newest sandbox can be used.
    Keep(SandboxId),
    /// Another sandbox is needed, if any container is to run.
    New {
        /// Its number.
        attempt: u32,
        /// An older sandbox exists.
        replaces: bool,
    },
}

/// Whether the newest sandbox can be used (RT-10).
#[doc(alias = "PodSandboxChanged")]
pub fn sandbox_need(pod: &Pod, seen: &PodObservation) -> SandboxNeed {
    let Some(newest) = seen.sandboxes.first() else {
        return SandboxNeed::New { attempt: 0, replaces: false };
    };
    let ready = seen.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count();
    let host_network = pod.host_network();
    let wanted = if host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
    // A sandbox gets its address when it is created: one without an address never gets one.
    let unusable = ready > 1
        || newest.state != SandboxState::Ready
        || newest.network != wanted
        || (!host_network && newest.ips.is_empty());
    if unusable {
        // The highest, not the newest: after the clock was set back they differ, and a number must not be used again.
        let last = seen.sandboxes.iter().map(|s| s.attempt).max().unwrap_or(newest.attempt);
        SandboxNeed::New { attempt: last.saturating_add(1), replaces: true }
    } else {
        SandboxNeed::Keep(newest.id.clone())
    }
}

/// The plan for a pod that needs another sandbox: all its containers stop, and unfinished ones start over.
pub(super) fn recreate(inputs: &PodInputs<'_>, seen: &PodObservation, attempt: u32, replaces: bool) -> PodPlan {
    let kill = PodPlan { kill_pod: true, ..PodPlan::default() };
    let pod = inputs.pod;
    if is_abandoned(pod, seen) {
        return kill;
    }
    let open = unfinished(pod, seen, inputs.node.gates);
    if (open.is_empty() && was_initialised(pod, seen)) || is_over(pod, seen, inputs.node.gates) {
        return kill;
    }
    let start = if pod.init().is_empty() {
        open.into_iter().map(|index| StartContainer { role: Role::Regular, index }).collect()
    } else {
        vec![StartContainer { role: init_role(pod, 0), index: 0 }]
    };
    PodPlan {
        sandbox: SandboxPlan::Create { attempt, replaces },
        // Init containers run again in the new sandbox, so that their old instances must not count (RT-02).
        remove: init_instances(pod, seen),
        start,
        ..kill
    }
}

/// The pod's sandbox is gone, and the pod gets no other: it never restarts, and has had a container (RT-11). A container
/// that was created and never started does not count: such a pod would wait for it for ever, as upstream's does.
pub fn is_abandoned(pod: &Pod, seen: &PodObservation) -> bool {
    let had_one = || seen.containers.iter().any(|c| c.state.kind() != ContainerStateKind::Created);
    let replaces = matches!(sandbox_need(pod, seen), SandboxNeed::New { attempt, .. } if attempt != 0);
    pod.restart_policy() == RestartPolicy::Never && replaces && had_one()
}

/// Regular containers that have not done their work: all but those that ended well under `OnFailure` (RT-12).
fn unfinished(pod: &Pod, seen: &PodObservation, gates: PlanGates) -> Vec<usize> {
    let succeeded = |name: &str| seen.current(name).and_then(|c| c.state.exit()).is_some_and(|exit| exit.code == 0);
    let on_failure = |own: Option<&str>| match own {
        Some(word) if gates.container_restart_rules => word == "OnFailure",
        Some(_) | None => pod.restart_policy() == RestartPolicy::OnFailure,
    };
    pod.regular()
        .iter()
        .enumerate()
        .filter(|(_, c)| !(on_failure(c.restart_policy.as_deref()) && succeeded(&c.name)))
        .map(|(index, _)| index)
        .collect()
}

/// Every regular container has ended and none is to run again. Upstream relies on the phase, which is terminal then, to
/// keep such a pod from being planned at all.
fn is_over(pod: &Pod, seen: &PodObservation, gates: PlanGates) -> bool {
    pod.regular().iter().all(|c| {
        let exit = seen.current(&c.name).and_then(|at| at.state.exit());
        exit.is_some_and(|exit| !restarts_on_exit(pod, c, exit.code, gates))
    })
}

/// A regular container was created at some time, so that the init containers have run.
#[doc(alias = "HasAnyRegularContainerCreated")]
fn was_initialised(pod: &Pod, seen: &PodObservation) -> bool {
    pod.regular().iter().filter_map(|c| seen.current(&c.name)).any(|c| match c.state.kind() {
        ContainerStateKind::Created | ContainerStateKind::Running | ContainerStateKind::Exited => true,
        ContainerStateKind::Unknown => false,
    })
}

#[doc(alias = "purgeInitContainers")]
fn init_instances(pod: &Pod, seen: &PodObservation) -> Vec<ContainerId> {
    pod.init().iter().flat_map(|c| seen.instances(&c.name)).map(|c| c.id.clone()).collect()
}
