//! Regular containers: which of them keep running, stop, start (RT-20 … RT-22).

use k8s_openapi::api::core::v1::Container;

use super::restart::{restarts_while_running, should_start};
use super::{KillContainer, KillReason, PodInputs, ProbeView, Verdict};
use crate::hash::container_hash;
use crate::observe::{ContainerObservation, ContainerStateKind, PodObservation};
use crate::pod::PodExt;
use crate::resize::{Resize, ResizeContainer, resize};

/// The plan for the regular containers.
pub(super) struct RegularStep {
    /// How many keep running.
    pub(super) keep: usize,
    /// Containers to stop.
    pub(super) kill: Vec<KillContainer>,
    /// Containers to start, by their index in the spec.
    pub(super) start: Vec<usize>,
    /// Containers that keep running and change in place.
    pub(super) resize: Vec<ResizeContainer>,
}

pub(super) fn plan_regular(inputs: &PodInputs<'_>, seen: &PodObservation) -> RegularStep {
    let mut step = RegularStep { keep: 0, kill: Vec::new(), start: Vec::new(), resize: Vec::new() };
    for (index, container) in inputs.pod.regular().iter().enumerate() {
        match seen.current(&container.name) {
            Some(running) if running.state.is_running() => {
                let Some((reason, what)) = fault(container, running, inputs.probes) else {
                    match resize_running(inputs, container, running) {
                        RunningResize { kill: Some(kill), .. } => {
                            step.kill.push(kill);
                            step.start.push(index);
                        }
                        RunningResize { kill: None, in_place } => {
                            step.keep += 1;
                            step.resize.extend(in_place);
                        }
                    }
                    continue;
                };
                let mut message = format!("Container {} {what}", container.name);
                // A changed definition restarts the container under every policy: the old one is not desired any more.
                if reason == KillReason::Changed || restarts_while_running(inputs, container) {
                    message.push_str(", will be restarted");
                    step.start.push(index);
                }
                step.kill.push(kill(running, reason, message));
            }
            at_rest => {
                if should_start(inputs.pod, container, at_rest, inputs.node.gates) {
                    step.start.push(index);
                    step.kill.extend(at_rest.and_then(|c| kill_if_unknown(c, "Container")));
                }
            }
        }
    }
    step
}

/// Why a running container has to stop, in words that follow its name.
fn fault(
    container: &Container,
    running: &ContainerObservation,
    probes: &ProbeView,
) -> Option<(KillReason, &'static str)> {
    if is_changed(container, running) {
        Some((KillReason::Changed, DEFINITION_CHANGED))
    } else if probes.liveness.get(&running.id) == Some(&Verdict::Failure) {
        Some((KillReason::Liveness, FAILED_LIVENESS))
    } else if probes.startup.get(&running.id) == Some(&Verdict::Failure) {
        Some((KillReason::Startup, FAILED_STARTUP))
    } else {
        None
    }
}

/// How a running container gets its allocated resources: by one of the two, or it has them.
#[derive(Default)]
pub(super) struct RunningResize {
    /// It is stopped, to start with them (RSZ-09).
    pub(super) kill: Option<KillContainer>,
    /// They change while it runs.
    pub(super) in_place: Option<ResizeContainer>,
}

pub(super) fn resize_running(
    inputs: &PodInputs<'_>,
    container: &Container,
    running: &ContainerObservation,
) -> RunningResize {
    match inputs.actuated.and_then(|actuated| resize(inputs.pod, container, running, actuated)) {
        None => RunningResize::default(),
        Some(Resize::InPlace(change)) => RunningResize { in_place: Some(change), kill: None },
        Some(Resize::Restart) => {
            let message = format!("Container {} resize requires restart", container.name);
            RunningResize { kill: Some(kill(running, KillReason::Resized, message)), in_place: None }
        }
    }
}

pub(super) const DEFINITION_CHANGED: &str = "definition changed";
pub(super) const FAILED_LIVENESS: &str = "failed liveness probe";
pub(super) const FAILED_STARTUP: &str = "failed startup probe";

/// The container was created from another definition. One without a readable hash was not created by a kubelet (RT-71).
#[doc(alias = "containerChanged")]
pub(super) fn is_changed(container: &Container, seen: &ContainerObservation) -> bool {
    seen.marks.hash != Some(container_hash(container))
}

pub(super) fn kill(seen: &ContainerObservation, reason: KillReason, message: String) -> KillContainer {
    KillContainer { id: seen.id.clone(), name: seen.name.clone(), reason, message }
}

/// A container that the runtime has lost track of may still run: it is stopped before another instance starts (RT-21).
pub(super) fn kill_if_unknown(seen: &ContainerObservation, what: &str) -> Option<KillContainer> {
    (seen.state.kind() == ContainerStateKind::Unknown).then(|| {
        kill(seen, KillReason::Unknown, format!("{what} is in \"unknown\" state, try killing it before restart"))
    })
}
