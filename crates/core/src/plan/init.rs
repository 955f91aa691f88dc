//! Init containers and sidecars (RT-30 … RT-33).
//!
//! They are read from last to first: the last one that was ever created shows how far the pod has come, so that earlier
//! ones may have been garbage-collected. Of those before it only sidecars matter.
//! upstream: `kuberuntime_container.go` `computeInitContainerActions` (v1.36)

use k8s_openapi::api::core::v1::Container;

use super::containers::{
    DEFINITION_CHANGED, FAILED_LIVENESS, FAILED_STARTUP, RunningResize, is_changed, kill, kill_if_unknown,
    resize_running,
};
use super::restart::{restarts_while_running, should_start};
use super::{KillContainer, KillReason, PodInputs, Verdict};
use crate::observe::{ContainerObservation, ContainerState, ContainerStateKind, Exit, PodObservation};
use crate::pod::{PodExt, is_sidecar};
use crate::resize::ResizeContainer;

/// The plan for the init containers.
#[derive(Default)]
pub(super) struct InitStep {
    /// Regular containers may run.
    pub(super) done: bool,
    /// One failed and is not retried: the pod is over.
    pub(super) failed: bool,
    /// Containers to stop, in order of the spec.
    pub(super) kill: Vec<KillContainer>,
    /// Containers to start, by their index in the spec, in order.
    pub(super) start: Vec<usize>,
    /// Containers that change in place, from last to first.
    pub(super) resize: Vec<ResizeContainer>,
}

/// What the init container at `index` means for the pod.
#[derive(Default)]
struct Finding {
    /// It succeeded, or is a sidecar that has started: the next may start.
    passed: bool,
    /// It failed and is not retried.
    fatal: bool,
    kill: Option<KillContainer>,
    /// It is to be started, for the first time or again.
    restart: bool,
    /// It keeps running and changes in place.
    resize: Option<ResizeContainer>,
}

pub(super) fn plan_init(inputs: &PodInputs<'_>, seen: &PodObservation) -> InitStep {
    let init = inputs.pod.init();
    let mut step = InitStep { done: init.is_empty() || regular_is_up(inputs, seen), ..InitStep::default() };
    // All containers below this index have run before.
    let mut past = step.done;
    for (index, container) in init.iter().enumerate().rev() {
        let Some(at) = seen.current(&container.name) else {
            // Its instances were removed. A sidecar has to run all the same; an ordinary one has done its work (RT-33).
            if past && is_sidecar(container) {
                step.start.push(index);
            }
            continue;
        };
        if past && !is_sidecar(container) {
            continue;
        }
        let finding =
            if is_sidecar(container) { sidecar(inputs, container, at) } else { ordinary(inputs, container, at) };
        if finding.fatal {
            return InitStep { failed: true, ..InitStep::default() };
        }
        if finding.passed {
            if index + 1 == init.len() {
                step.done = true;
            } else if !past {
                step.start.push(index + 1);
            }
        }
        if finding.restart {
            step.start.push(index);
        }
        step.kill.extend(finding.kill);
        step.resize.extend(finding.resize);
        past = true;
    }
    if !past {
        step.start.push(0);
    }
    step.start.reverse();
    step.kill.reverse();
    step
}

/// A regular container runs, so that all init containers have run. One that has ended proves nothing: it may have lived in
/// the sandbox before a reboot (RT-30).
fn regular_is_up(inputs: &PodInputs<'_>, seen: &PodObservation) -> bool {
    inputs.pod.regular().iter().filter_map(|c| seen.current(&c.name)).any(|c| match c.state.kind() {
        ContainerStateKind::Created | ContainerStateKind::Running => true,
        ContainerStateKind::Exited | ContainerStateKind::Unknown => false,
    })
}

/// An ordinary init container (RT-31).
fn ordinary(inputs: &PodInputs<'_>, container: &Container, at: &ContainerObservation) -> Finding {
    match &at.state {
        // Created but never started: the start failed, and is retried.
        ContainerState::Created => Finding { restart: true, ..Finding::default() },
        ContainerState::Running { .. } if inputs.node.gates.resize_init_containers => {
            resized(resize_running(inputs, container, at))
        }
        ContainerState::Running { .. } => Finding::default(),
        ContainerState::Exited(exit) if !is_failure(exit) => Finding { passed: true, ..Finding::default() },
        ContainerState::Exited(_) => {
            let again = if inputs.node.gates.container_restart_rules {
                should_start(inputs.pod, container, Some(at), inputs.node.gates)
            } else {
                restarts_while_running(inputs, container)
            };
            Finding { fatal: !again, restart: again, ..Finding::default() }
        }
        // It may not have ended, so that there is no exit code for a rule.
        ContainerState::Unknown => {
            let again = restarts_while_running(inputs, container);
            Finding { fatal: !again, restart: again, kill: kill_if_unknown(at, "Init container"), ..Finding::default() }
        }
    }
}

fn resized(step: RunningResize) -> Finding {
    let RunningResize { kill, in_place } = step;
    Finding { restart: kill.is_some(), kill, resize: in_place, ..Finding::default() }
}

/// The container failed: by its exit code, or killed for lack of memory, which some runtimes report with code 0.
#[doc(alias = "isInitContainerFailed")]
fn is_failure(exit: &Exit) -> bool {
    exit.code != 0 || exit.reason == "OOMKilled"
}

/// A sidecar (RT-32).
fn sidecar(inputs: &PodInputs<'_>, container: &Container, at: &ContainerObservation) -> Finding {
    match &at.state {
        ContainerState::Created | ContainerState::Exited(_) => Finding { restart: true, ..Finding::default() },
        ContainerState::Unknown => {
            Finding { restart: true, kill: kill_if_unknown(at, "Init container"), ..Finding::default() }
        }
        ContainerState::Running { .. } => running_sidecar(inputs, container, at),
    }
}

fn running_sidecar(inputs: &PodInputs<'_>, container: &Container, at: &ContainerObservation) -> Finding {
    let stop = |reason, what: &str| Some(kill(at, reason, format!("Init container {} {what}", container.name)));
    if container.startup_probe.is_some() {
        match inputs.probes.startup.get(&at.id) {
            Some(Verdict::Success) => {}
            Some(Verdict::Failure) => {
                let kill = stop(KillReason::Startup, FAILED_STARTUP);
                return Finding { restart: true, kill, ..Finding::default() };
            }
            Some(Verdict::Unknown) | None => return Finding::default(),
        }
    }
    // The sidecar has started, so that the next container may start even if the sidecar is restarted now.
    let restart = |kill| Finding { passed: true, restart: true, kill, ..Finding::default() };
    if is_changed(container, at) {
        return restart(stop(KillReason::Changed, DEFINITION_CHANGED));
    }
    if container.liveness_probe.is_some() {
        match inputs.probes.liveness.get(&at.id) {
            Some(Verdict::Success | Verdict::Unknown) => {}
            Some(Verdict::Failure) => return restart(stop(KillReason::Liveness, FAILED_LIVENESS)),
            // A resize waits for the first result.
            None => return Finding { passed: true, ..Finding::default() },
        }
    }
    Finding { passed: true, ..resized(resize_running(inputs, container, at)) }
}
