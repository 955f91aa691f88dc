//! Plans the work on a pod: `plan_pod` compares its spec with the last look at the runtime and returns a `PodPlan`. The
//! engine carries the plan out and decides nothing.
//!
//! Invariants: a plan starts no container of a deleted pod; it starts no container of which an instance runs unless it
//! stops that instance first; with `kill_pod` it lists no single container to stop. Carrying out a plan and planning again
//! ends with an empty plan.
//! upstream: `kuberuntime_manager.go` `computePodActions` (v1.36)

mod containers;
mod init;
mod kill;
mod restart;
mod sandbox;

pub use kill::{
    KillOrder, KillStep, MIN_STOP_GRACE, grace_for, grace_from_marks, kill_message, plan_kill_order,
    pre_stop_from_marks,
};
pub use restart::{restarts_all, restarts_on_exit, should_start};
pub use sandbox::{SandboxNeed, is_abandoned, sandbox_need};

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::id::{ContainerId, SandboxId};
use crate::inputs::PodInputs;
use crate::observe::{ContainerObservation, ContainerStateKind, PodObservation};
use crate::pod::{PodExt, Role, is_sidecar};
use crate::resize::{ResizePlan, pod_level_changes, starts_resized};

/// Feature gates that change plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanGates {
    /// `ContainerRestartRules`.
    pub container_restart_rules: bool,
    /// `RestartAllContainersOnContainerExits`.
    pub restart_all_containers: bool,
    /// `InPlacePodVerticalScalingInitContainers`: an ordinary init container is resized while it runs (RSZ-11).
    pub resize_init_containers: bool,
}

impl Default for PlanGates {
    /// The defaults of v1.36.
    fn default() -> Self {
        Self { container_restart_rules: true, restart_all_containers: true, resize_init_containers: true }
    }
}

/// Probe results of a pod, by container instance. An instance that is not listed has no result yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeView {
    /// Results of liveness probes.
    pub liveness: BTreeMap<ContainerId, Verdict>,
    /// Results of readiness probes.
    pub readiness: BTreeMap<ContainerId, Verdict>,
    /// Results of startup probes.
    pub startup: BTreeMap<ContainerId, Verdict>,
}

/// The result of a probe after its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The probe passes.
    Success,
    /// The probe fails.
    Failure,
    /// No threshold has been reached.
    Unknown,
}

/// The work on a pod, in the order of the fields (section 7.2).
#[doc(alias = "podActions")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodPlan {
    /// Stop every container and sandbox first (RT-02, RT-23).
    pub kill_pod: bool,
    /// Otherwise, stop these containers, one after another (RT-03).
    pub kill: Vec<KillContainer>,
    /// Then remove these instances: earlier runs of init containers, or all containers of a pod that starts over. Their
    /// logs stay, because the restart count is read back from them (RT-41).
    pub remove: Vec<ContainerId>,
    /// Then keep or create the sandbox.
    pub sandbox: SandboxPlan,
    /// Then resize running containers (RT-06).
    pub resize: ResizePlan,
    /// Then start these, in this order: ephemeral, init, regular (RT-07 … RT-09).
    pub start: Vec<StartContainer>,
}

impl PodPlan {
    /// There is no work.
    pub fn is_empty(&self) -> bool {
        !self.kill_pod
            && self.kill.is_empty()
            && self.remove.is_empty()
            && self.start.is_empty()
            && self.resize.is_empty()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
    }
}

/// The work on the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum SandboxPlan {
    /// No container is to be started, so that no sandbox is needed.
    #[default]
    None,
    /// The newest sandbox can be used.
    Keep(SandboxId),
    /// A new sandbox is created.
    Create {
        /// Its number.
        attempt: u32,
        /// An older sandbox existed: an event is emitted (RT-01).
        replaces: bool,
    },
}

/// A container to stop, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillContainer {
    /// The instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// The reason, on which the grace period depends (KILL-02).
    pub reason: KillReason,
    /// The message of the event.
    pub message: String,
}

/// Why a container is stopped while its pod lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Its definition changed.
    Changed,
    /// Its liveness probe failed.
    Liveness,
    /// Its startup probe failed.
    Startup,
    /// The runtime lost track of it.
    Unknown,
    /// It is resized, and its resize policy requires a restart (RSZ-09).
    Resized,
    /// It runs twice, or the whole pod is stopped.
    Unwanted,
    /// A rule restarts every container of the pod. No grace (RT-03).
    RestartAll,
}

/// A container to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartContainer {
    /// Its part in the pod.
    pub role: Role,
    /// Its place in the spec's list of that role (`Init` and `Sidecar` share one list).
    pub index: usize,
}

/// The work on `inputs.pod`, given the look `seen`.
#[doc(alias = "computePodActions")]
pub fn plan_pod(inputs: &PodInputs<'_>, seen: &PodObservation) -> PodPlan {
    let need = sandbox_need(inputs.pod, seen);
    let mut plan = if restarts_all(inputs.pod, seen, inputs.node.gates) {
        restart::start_over(inputs.pod, seen, &need)
    } else {
        match need {
            SandboxNeed::New { attempt, replaces } => sandbox::recreate(inputs, seen, attempt, replaces),
            SandboxNeed::Keep(id) => inside(inputs, seen, id),
        }
    };
    if inputs.pod.is_deleted() {
        start_nothing(&mut plan);
    }
    prune_init(inputs.pod, seen, &mut plan);
    plan
}

/// The plan for a pod whose sandbox can be used.
fn inside(inputs: &PodInputs<'_>, seen: &PodObservation, id: SandboxId) -> PodPlan {
    let mut plan = PodPlan { sandbox: SandboxPlan::Keep(id), ..PodPlan::default() };
    // Ephemeral containers start once, however they end, and wait for no other container (RT-07, RT-24).
    for (index, container) in inputs.pod.ephemeral().iter().enumerate() {
        if seen.newest(&container.name).is_none() {
            plan.start.push(StartContainer { role: Role::Ephemeral, index });
        }
    }
    let init = init::plan_init(inputs, seen);
    if init.failed {
        return end();
    }
    let regular = init.done.then(|| containers::plan_regular(inputs, seen));
    // No container to keep and none to start: the pod has done its work, and sidecars do not keep it alive (RT-23).
    if regular.as_ref().is_some_and(|r| r.keep == 0 && r.start.is_empty()) {
        return end();
    }
    let (kill, start, resize) = regular.map(|r| (r.kill, r.start, r.resize)).unwrap_or_default();
    plan.resize = ResizePlan::of(init.resize.into_iter().chain(resize));
    plan.kill = init.kill.into_iter().chain(kill).chain(surplus(seen)).collect();
    plan.start.extend(init.start.into_iter().map(|index| StartContainer { role: init_role(inputs.pod, index), index }));
    plan.start.extend(start.into_iter().map(|index| StartContainer { role: Role::Regular, index }));
    plan.resize.pod = resizes_pod(inputs, init.done, &plan);
    plan
}

/// The pod's cgroup has to change: a container starts with another size, or the pod itself has other resources. These wait
/// for the init containers.
fn resizes_pod(inputs: &PodInputs<'_>, initialised: bool, plan: &PodPlan) -> bool {
    let Some(actuated) = inputs.actuated else { return false };
    let container = |start: &StartContainer| match start.role {
        Role::Init | Role::Sidecar => inputs.pod.init().get(start.index),
        Role::Regular => inputs.pod.regular().get(start.index),
        Role::Ephemeral => None,
    };
    initialised && pod_level_changes(inputs.pod, actuated)
        || plan.start.iter().filter_map(container).any(|c| starts_resized(inputs.pod, c, actuated))
}

/// The pod is over: all containers stop and none starts.
fn end() -> PodPlan {
    PodPlan { kill_pod: true, ..PodPlan::default() }
}

/// Running instances that a newer running instance of the same name has replaced. Upstream has no such rule; it heals a
/// reply of the runtime that was lost.
fn surplus(seen: &PodObservation) -> impl Iterator<Item = KillContainer> {
    seen.running().filter(|c| seen.current(&c.name).is_some_and(|current| current.id != c.id)).map(|c| KillContainer {
        id: c.id.clone(),
        name: c.name.clone(),
        reason: KillReason::Unwanted,
        message: format!("Container {} runs more than once, stopping the older instance", c.name),
    })
}

fn init_role(pod: &Pod, index: usize) -> Role {
    if pod.init().get(index).is_some_and(is_sidecar) { Role::Sidecar } else { Role::Init }
}

/// A deleted pod starts no container, not even a first one. Upstream leaves part of this to its pod worker; here it is an
/// invariant of the plan (RT-21).
fn start_nothing(plan: &mut PodPlan) {
    plan.start.clear();
    plan.resize = ResizePlan::default();
    if matches!(plan.sandbox, SandboxPlan::Create { .. }) {
        plan.sandbox = SandboxPlan::None;
    }
}

/// Of each init container the newest ended instance is kept, older ones are removed (RT-03).
#[doc(alias = "pruneInitContainersBeforeStart")]
fn prune_init(pod: &Pod, seen: &PodObservation, plan: &mut PodPlan) {
    for container in pod.init() {
        let ended = |c: &&ContainerObservation| match c.state.kind() {
            ContainerStateKind::Exited | ContainerStateKind::Unknown => true,
            ContainerStateKind::Created | ContainerStateKind::Running => false,
        };
        for old in seen.instances(&container.name).filter(ended).skip(1) {
            if !plan.remove.contains(&old.id) {
                plan.remove.push(old.id.clone());
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
