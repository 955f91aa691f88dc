//! Whether a container is restarted: the policy of the pod, the policy of the container, and its rules (RT-21, RT-22).

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};

use super::{KillContainer, KillReason, PlanGates, PodInputs, PodPlan, SandboxNeed, SandboxPlan};
use crate::id::ContainerId;
use crate::observe::{ContainerObservation, ContainerState, PodObservation};
use crate::pod::{PodExt, RestartPolicy};

const RESTART: &str = "Restart";
const RESTART_ALL: &str = "RestartAllContainers";

/// A container that does not run is to be started: it never was, its start failed, it is lost, or it ended and its policy
/// restarts it. Never in a deleted pod.
#[doc(alias = "ShouldContainerBeRestarted")]
pub fn should_start(pod: &Pod, container: &Container, seen: Option<&ContainerObservation>, gates: PlanGates) -> bool {
    if pod.is_deleted() {
        return false;
    }
    match seen.map(|c| &c.state) {
        None | Some(ContainerState::Created | ContainerState::Unknown) => true,
        Some(ContainerState::Running { .. }) => false,
        Some(ContainerState::Exited(exit)) => restarts_on_exit(pod, container, exit.code, gates),
    }
}

/// A container that exited with `code` is to run again.
#[doc(alias = "ContainerShouldRestart")]
pub fn restarts_on_exit(pod: &Pod, container: &Container, code: i32, gates: PlanGates) -> bool {
    let own = container.restart_policy.as_deref().filter(|_| gates.container_restart_rules);
    // Rules count only together with a policy of the container itself.
    if own.is_some() {
        match matching_rule(container, code).map(|rule| rule.action.as_str()) {
            Some(RESTART) => return true,
            Some(RESTART_ALL) if gates.restart_all_containers => return true,
            Some(_) | None => {}
        }
    }
    match own.and_then(known_policy).unwrap_or_else(|| pod.restart_policy()) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}

/// A running container that is stopped for a failed probe is to run again. Rules do not count: they match an exit code,
/// and there is none yet (RT-22).
pub(super) fn restarts_while_running(inputs: &PodInputs<'_>, container: &Container) -> bool {
    if inputs.pod.is_deleted() {
        return false;
    }
    match container.restart_policy.as_deref().filter(|_| inputs.node.gates.container_restart_rules) {
        Some(own) => own != "Never",
        None => inputs.pod.restart_policy() != RestartPolicy::Never,
    }
}

fn known_policy(word: &str) -> Option<RestartPolicy> {
    matches!(word, "Always" | "OnFailure" | "Never").then(|| RestartPolicy::parse(Some(word)))
}

/// The first rule that covers an exit with `code`.
#[doc(alias = "FindMatchingContainerRestartRule")]
fn matching_rule(container: &Container, code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.as_deref().unwrap_or_default().iter().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|on| {
            let listed = on.values.as_deref().unwrap_or_default().contains(&code);
            match on.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

/// The container ended in a way that restarts the whole pod.
fn triggers(container: &Container, seen: &ContainerObservation) -> bool {
    let rule = seen.state.exit().and_then(|exit| matching_rule(container, exit.code));
    rule.is_some_and(|rule| rule.action == RESTART_ALL)
}

/// Every container of the pod is to be restarted, because one ended in a way that a rule names.
///
/// Decided from the look alone: the container that triggered the restart is removed last, so that the trigger stays until
/// all others are removed, even if rubelet dies half-way. Upstream keeps the trigger in a condition as well.
#[doc(alias = "ShouldAllContainersRestart")]
pub fn restarts_all(pod: &Pod, seen: &PodObservation, gates: PlanGates) -> bool {
    let mut containers = pod.init().iter().chain(pod.regular());
    gates.restart_all_containers
        && !pod.is_deleted()
        && containers.any(|c| seen.current(&c.name).is_some_and(|newest| triggers(c, newest)))
}

/// Removes every container; the starts are planned when they are gone (RT-03).
pub(super) fn start_over(pod: &Pod, seen: &PodObservation, need: &SandboxNeed) -> PodPlan {
    let (regular, regular_sources) = split(pod.regular(), seen);
    let (init, init_sources) = split(pod.init(), seen);
    let doomed = || [&regular, &init, &regular_sources, &init_sources].into_iter().flatten();
    let kill = |c: &&ContainerObservation| KillContainer {
        id: c.id.clone(),
        name: c.name.clone(),
        reason: KillReason::RestartAll,
        message: "killing".to_owned(),
    };
    let (kill_pod, sandbox) = match need {
        SandboxNeed::Keep(id) => (false, SandboxPlan::Keep(id.clone())),
        SandboxNeed::New { .. } => (true, SandboxPlan::None),
    };
    PodPlan {
        kill_pod,
        kill: if kill_pod { Vec::new() } else { doomed().filter(|c| c.state.exit().is_none()).map(kill).collect() },
        remove: doomed().map(|c| ContainerId::clone(&c.id)).collect(),
        sandbox,
        ..PodPlan::default()
    }
}

/// All instances of `containers`: those that did not trigger the restart, and those that did.
fn split<'a>(
    containers: &'a [Container],
    seen: &'a PodObservation,
) -> (Vec<&'a ContainerObservation>, Vec<&'a ContainerObservation>) {
    let instances = containers.iter().flat_map(|c| seen.instances(&c.name).map(move |i| (c, i)));
    let (sources, targets): (Vec<_>, Vec<_>) = instances.partition(|(c, i)| triggers(c, i));
    (targets.into_iter().map(|(_, i)| i).collect(), sources.into_iter().map(|(_, i)| i).collect())
}
