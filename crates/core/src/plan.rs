//! What has to happen for a pod to be as it should: `plan_pod` compares the spec with what was seen and answers with a
//! `PodPlan`. The engine carries it out and decides nothing.
//!
//! Invariants: a plan starts nothing for a deleted pod; it starts no container of which an instance runs unless it stops
//! that instance first; with `kill_pod` it names no single container to stop. Carrying a plan out and planning again
//! comes to rest.
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
use crate::observe::{ContainerObservation, ContainerStateKind, PodObservation};
use crate::pod::{PodExt, Role, is_sidecar};
use crate::resize::{PodAllocation, ResizePlan, plan_resize};

/// What the plan is made from, besides what was seen.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// The pod as desired, with its allocated resources.
    pub pod: &'a Pod,
    /// What its probes say.
    pub probes: &'a ProbeView,
    /// Feature gates that matter here.
    pub gates: PlanGates,
    /// What the runtime was last told of its containers' resources; `None` if that is not known, and then nothing is
    /// resized.
    pub told: Option<&'a PodAllocation>,
}

/// Feature gates that change plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanGates {
    /// `ContainerRestartRules`.
    pub container_restart_rules: bool,
    /// `RestartAllContainersOnContainerExits`.
    pub restart_all_containers: bool,
}

impl Default for PlanGates {
    /// As in 1.36.
    fn default() -> Self {
        Self { container_restart_rules: true, restart_all_containers: true }
    }
}

/// What is known of a pod's probes, per container instance. An instance that is not listed has no verdict yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeView {
    /// Liveness.
    pub liveness: BTreeMap<ContainerId, Verdict>,
    /// Readiness.
    pub readiness: BTreeMap<ContainerId, Verdict>,
    /// Startup.
    pub startup: BTreeMap<ContainerId, Verdict>,
}

/// The standing result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Success,
    /// It fails.
    Failure,
    /// It has not been decided.
    Unknown,
}

/// What has to happen, in the order of the fields (section 7.2).
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
    /// Then see to the sandbox.
    pub sandbox: SandboxPlan,
    /// Then change the resources of what runs on (RT-06).
    pub resize: ResizePlan,
    /// Then start these, in this order: ephemeral, init, regular (RT-07 … RT-09).
    pub start: Vec<StartContainer>,
}

impl PodPlan {
    /// Nothing has to happen.
    pub fn is_empty(&self) -> bool {
        !self.kill_pod
            && self.kill.is_empty()
            && self.remove.is_empty()
            && self.start.is_empty()
            && self.resize.is_empty()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
    }
}

/// What happens to the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum SandboxPlan {
    /// No container is to be started, so none is needed.
    #[default]
    None,
    /// The newest one serves.
    Keep(SandboxId),
    /// A new one is made.
    Create {
        /// Its number.
        attempt: u32,
        /// An older one existed: people are told (RT-01).
        replaces: bool,
    },
}

/// A container to stop, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillContainer {
    /// Which instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// Why: decides whose grace period counts (KILL-02).
    pub reason: KillReason,
    /// What the event says.
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
    /// It gets other resources, and asked to be restarted for that (RSZ-09).
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

/// What has to happen for `view.pod` to be as it should, given what was `seen`.
#[doc(alias = "computePodActions")]
pub fn plan_pod(view: &PodView<'_>, seen: &PodObservation) -> PodPlan {
    let need = sandbox_need(view.pod, seen);
    let mut plan = if restarts_all(view.pod, seen, view.gates) {
        restart::start_over(view.pod, seen, &need)
    } else {
        match need {
            SandboxNeed::New { attempt, replaces } => sandbox::recreate(view, seen, attempt, replaces),
            SandboxNeed::Keep(id) => inside(view, seen, id),
        }
    };
    if view.pod.is_deleted() {
        start_nothing(&mut plan);
    }
    prune_init(view.pod, seen, &mut plan);
    plan
}

/// The plan for a pod whose sandbox serves.
fn inside(view: &PodView<'_>, seen: &PodObservation, id: SandboxId) -> PodPlan {
    let mut plan = PodPlan { sandbox: SandboxPlan::Keep(id), ..PodPlan::default() };
    // Ephemeral containers start once, whatever becomes of them, and wait for nobody (RT-07, RT-24).
    for (index, container) in view.pod.ephemeral().iter().enumerate() {
        if seen.newest(&container.name).is_none() {
            plan.start.push(StartContainer { role: Role::Ephemeral, index });
        }
    }
    let init = init::plan_init(view, seen);
    if init.failed {
        return end();
    }
    let regular = if init.done { Some(containers::plan_regular(view, seen)) } else { None };
    // Nothing to keep and nothing to start: the pod has done its work, and sidecars do not keep it alive (RT-23).
    if regular.as_ref().is_some_and(|r| r.keep == 0 && r.start.is_empty()) {
        return end();
    }
    let (kill, start) = regular.map(|r| (r.kill, r.start)).unwrap_or_default();
    plan.kill = init.kill.into_iter().chain(kill).chain(surplus(seen)).collect();
    plan.start.extend(init.start.into_iter().map(|index| StartContainer { role: init_role(view.pod, index), index }));
    plan.start.extend(start.into_iter().map(|index| StartContainer { role: Role::Regular, index }));
    plan.resize = view.told.map(|told| plan_resize(view.pod, seen, told)).unwrap_or_default();
    plan
}

/// The pod is over: everything stops and nothing starts.
fn end() -> PodPlan {
    PodPlan { kill_pod: true, ..PodPlan::default() }
}

/// Running instances that a newer running one of the same name has made superfluous. Upstream has no such rule; it is
/// what makes a lost reply of the runtime heal.
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

/// A deleted pod starts nothing, not even a first container. Upstream leaves part of this to its pod worker; here it is
/// a law of the plan (RT-21).
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
