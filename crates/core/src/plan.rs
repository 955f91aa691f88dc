//! What has to happen for a pod to be as it should: `plan_pod` compares the spec with what was seen and answers with a
//! `PodPlan`. The engine carries it out and decides nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::id::{ContainerId, SandboxId};
use crate::observe::PodObservation;
use crate::pod::Role;

/// What the plan is made from, besides what was seen.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// The pod as desired, with its allocated resources.
    pub pod: &'a Pod,
    /// What its probes say.
    pub probes: &'a ProbeView,
    /// Feature gates that matter here.
    pub gates: PlanGates,
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
    /// Then remove these instances: earlier runs of init containers, or all containers of a pod that starts over.
    pub remove: Vec<ContainerId>,
    /// Then see to the sandbox.
    pub sandbox: SandboxPlan,
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
    /// It is not in the spec, or the pod starts over.
    Unwanted,
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
    let _ = (view, seen);
    PodPlan::default()
}
