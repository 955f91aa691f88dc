//! Garbage collection: which dead containers and sandboxes are removed (GC-01 … GC-05, LOOP-09).
//!
//! Only dead containers and sandboxes are listed. A pod that may run, or whose end is not known to be complete, keeps the
//! newest instance of each container and its newest sandbox: they hold its exit codes, logs and restart counts.
//! upstream: `kuberuntime_gc.go`, `pod_container_deletor.go` (v1.36)

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::id::{ContainerId, PodRef, PodUid, SandboxId};
use crate::observe::{ContainerStateKind, PodObservation, PodSummary, SandboxState};

/// How many dead containers are kept.
#[doc(alias = "GCPolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcPolicy {
    /// Younger containers are kept.
    pub min_age: Duration,
    /// Dead instances kept per container; `None` for all.
    pub per_container: Option<usize>,
    /// Dead containers kept on the node; `None` for any number.
    pub total: Option<usize>,
}

impl GcPlan {
    /// There is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.sandboxes.is_empty()
    }
}

impl Default for GcPolicy {
    /// The defaults of upstream's flags: no age, one instance each, any number.
    fn default() -> Self {
        Self { min_age: Duration::ZERO, per_container: Some(1), total: None }
    }
}

/// Which dead containers of a pod are still needed. The pod workers know, not the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodFate {
    /// The pod may run. So may every pod without a worker before all sources have been read.
    MayRun,
    /// No container of the pod runs, nor will one, but its logs are still of use.
    #[doc(alias = "ShouldPodRuntimeBeRemoved")]
    Ended,
    /// The pod was evicted, or was deleted and has ended: none of its containers is needed.
    #[doc(alias = "ShouldPodContentBeRemoved")]
    Unneeded,
}

/// The inputs of a pass, apart from the runtime's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcView {
    /// How many dead containers are kept.
    pub policy: GcPolicy,
    /// Every source has been read, so that a pod that is not desired has to go (TRAP-03).
    pub all_sources_seen: bool,
    /// Disk space is short: dead containers of pods that have ended go as well (EV-10).
    #[doc(alias = "evictNonDeletedPods")]
    pub remove_ended: bool,
    /// The wall clock.
    pub now: Timestamp,
}

/// Containers and sandboxes to remove. Containers go first: a sandbox is listed as if they were gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcPlan {
    /// Containers, oldest first within each group.
    pub containers: Vec<GcContainer>,
    /// Sandboxes, each to be stopped and removed.
    pub sandboxes: Vec<SandboxId>,
}

/// A container to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcContainer {
    /// The instance.
    pub id: ContainerId,
    /// Its name in the spec.
    pub name: String,
    /// Its pod.
    pub pod: PodRef,
    /// Its restart count, which is part of the name of its log.
    pub restart_count: u32,
    /// Its state is unknown to the runtime, so that it may run: it is stopped first (GC-02).
    pub stop_first: bool,
}

/// The message of the `Killing` event of a container with `stop_first`.
pub const STOP_FIRST_MESSAGE: &str = "Container is in unknown state, try killing it before removal";

struct Dead {
    container: GcContainer,
    created_at: Timestamp,
}

/// The containers and sandboxes of `pods` to remove.
#[doc(alias = "GarbageCollect")]
pub fn plan_gc(pods: &[&PodSummary], fate: impl Fn(&PodUid) -> PodFate, view: &GcView) -> GcPlan {
    let goes = |uid: &PodUid| match fate(uid) {
        PodFate::Unneeded => true,
        PodFate::Ended => view.remove_ended,
        PodFate::MayRun => false,
    };
    let containers = dead_containers(pods, &goes, view);
    let removed: BTreeSet<&ContainerId> = containers.iter().map(|c| &c.id).collect();
    let sandboxes = pods.iter().flat_map(|pod| dead_sandboxes(pod, &removed, goes(&pod.pod.uid))).collect();
    GcPlan { containers, sandboxes }
}

fn dead_containers(pods: &[&PodSummary], goes: &impl Fn(&PodUid) -> bool, view: &GcView) -> Vec<GcContainer> {
    let mut removed = Vec::new();
    let mut units: Vec<Vec<Dead>> = Vec::new();
    for pod in pods {
        for unit in units_of(pod, view) {
            if view.all_sources_seen && goes(&pod.pod.uid) {
                removed.extend(unit.into_iter().rev());
            } else {
                units.push(unit);
            }
        }
    }
    if let Some(keep) = view.policy.per_container {
        units.iter_mut().for_each(|unit| removed.extend(beyond(unit, keep)));
    }
    if let Some(total) = view.policy.total {
        limit_total(units, total, &mut removed);
    }
    removed.into_iter().map(|dead| dead.container).collect()
}

/// The dead instances of each container of a pod, newest first.
fn units_of(pod: &PodSummary, view: &GcView) -> Vec<Vec<Dead>> {
    let mut units: BTreeMap<&str, Vec<Dead>> = BTreeMap::new();
    let youngest = SignedDuration::try_from(view.policy.min_age).unwrap_or(SignedDuration::MAX);
    for (id, container) in &pod.containers {
        let unknown = container.state == ContainerStateKind::Unknown;
        if container.state == ContainerStateKind::Running || view.now.duration_since(container.created_at) < youngest {
            continue;
        }
        let dead = GcContainer {
            id: id.clone(),
            name: container.name.clone(),
            pod: pod.pod.clone(),
            restart_count: container.restart_count,
            stop_first: unknown,
        };
        units.entry(&container.name).or_default().push(Dead { container: dead, created_at: container.created_at });
    }
    let mut units: Vec<Vec<Dead>> = units.into_values().collect();
    units.iter_mut().for_each(|unit| newest_first(unit));
    units
}

fn newest_first(dead: &mut [Dead]) {
    dead.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.container.id.cmp(&b.container.id)));
}

/// Removes all but the newest `keep` from `unit`, oldest first.
fn beyond(unit: &mut Vec<Dead>, keep: usize) -> impl Iterator<Item = Dead> {
    unit.split_off(keep.min(unit.len())).into_iter().rev()
}

/// An equal number for each container, but at least one; then the oldest of all.
fn limit_total(mut units: Vec<Vec<Dead>>, total: usize, removed: &mut Vec<Dead>) {
    let count = |units: &[Vec<Dead>]| units.iter().map(Vec::len).sum::<usize>();
    if count(&units) <= total {
        return;
    }
    let keep = total.checked_div(units.len()).unwrap_or_default().max(1);
    units.iter_mut().for_each(|unit| removed.extend(beyond(unit, keep)));
    let mut left: Vec<Dead> = units.into_iter().flatten().collect();
    newest_first(&mut left);
    removed.extend(beyond(&mut left, total));
}

/// Sandboxes without containers; the newest sandbox of a pod that may run is kept (GC-03).
fn dead_sandboxes(pod: &PodSummary, removed: &BTreeSet<&ContainerId>, goes: bool) -> Vec<SandboxId> {
    let mut sandboxes: Vec<_> = pod.sandboxes.iter().collect();
    sandboxes.sort_by(|(a_id, a), (b_id, b)| b.created_at.cmp(&a.created_at).then_with(|| a_id.cmp(b_id)));
    let holds = |id: &SandboxId| pod.containers.iter().any(|(c, at)| at.sandbox == *id && !removed.contains(c));
    let old = sandboxes.into_iter().skip(usize::from(!goes));
    let mut dead: Vec<SandboxId> = old
        .filter(|(id, sandbox)| sandbox.state == SandboxState::NotReady && !holds(id))
        .map(|(id, _)| id.clone())
        .collect();
    dead.reverse();
    dead
}

/// Instances to remove as soon as a container of the pod has ended, without waiting for a pass: all but the newest of each
/// name, or all that have ended if the pod is `Unneeded` (GC-05, LOOP-09).
#[doc(alias = "deleteContainersInPod")]
pub fn prune_dead(seen: &PodObservation, policy: &GcPolicy, fate: PodFate) -> Vec<ContainerId> {
    let keep = match fate {
        PodFate::Unneeded => 0,
        // At least one under every policy: it holds the restart count and the last exit code.
        PodFate::MayRun | PodFate::Ended => policy.per_container.unwrap_or_default().max(1),
    };
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut dead = Vec::new();
    for container in seen.containers.iter().filter(|c| c.state.exit().is_some()) {
        let count = kept.entry(&container.name).or_default();
        if *count < keep {
            *count += 1;
        } else {
            dead.push(container.id.clone());
        }
    }
    dead.reverse();
    dead
}

#[cfg(test)]
mod tests;
