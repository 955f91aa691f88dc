//! Stops containers: emits the event, runs the preStop hook, waits for the container's turn, stops it (section 7.12).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use rubelet_core::id::{ContainerId, SandboxId};
use rubelet_core::lifecycle::{Grace, Subject};
use rubelet_core::observe::{ContainerObservation, PodObservation, SandboxState};
use rubelet_core::plan::{
    KillContainer, KillReason, MIN_STOP_GRACE, grace_for, grace_from_marks, kill_message, plan_kill_order,
    pre_stop_from_marks,
};
use rubelet_core::pod::container_named;
use tokio::sync::watch;

use super::PodRuntime;
use crate::chain::Chain;
use crate::hooks::Hook;
use crate::job::{JobContext, Note};
use crate::look::look;
use crate::node::Node;
use crate::ports::{EventKind, RpcError};
use crate::resources;

/// How many containers a step names while their pod stops.
const NAMED: usize = 16;

/// What to do with the sandboxes when a container could not be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// Stop them, which ends all containers in them.
    StopSandboxes,
    /// Keep them until the grace period is over: a container that the runtime failed to stop still has its grace.
    KeepGrace,
}

/// Stops a pod: all containers at once, but sidecars in their order; then every sandbox. Goes on after a failure, and
/// returns all failures (KILL-01).
///
/// Upstream stops the sandboxes even if a container could not be stopped; one failed call then costs that container its
/// grace period. upstream: kuberuntime_manager.go killPodWithSyncResult (v1.36)
#[doc(alias = "killPodWithSyncResult")]
pub(crate) async fn kill_pod(
    node: &Node,
    subject: &Subject,
    seen: &PodObservation,
    grace: Grace,
    or_else: OnFailure,
    job: &JobContext,
) -> Vec<String> {
    let began = node.clock.mono();
    let pod = subject.pod();
    let order = plan_kill_order(pod.map(AsRef::as_ref), seen);
    let ended: BTreeMap<&ContainerId, watch::Sender<bool>> =
        order.steps.iter().map(|step| (&step.id, watch::channel(false).0)).collect();
    let names: Vec<&str> = order.steps.iter().map(|s| s.name.as_str()).collect();
    if !names.is_empty() {
        job.step(left_to_stop(&names, grace)).await;
    }
    let by_id: BTreeMap<&ContainerId, &ContainerObservation> = seen.containers.iter().map(|c| (&c.id, c)).collect();
    let stops = order.steps.iter().map(|step| {
        let (ended, order, by_id) = (&ended, &order, &by_id);
        async move {
            let result = match by_id.get(&step.id) {
                Some(container) => {
                    // The grace of the pod's end overrides that of the container's probes (KILL-02).
                    let (message, ip) = (None, address(node, seen));
                    let kill = Kill { node, pod, job, container, message, grace: grace.get(), ip };
                    kill.run(turn(ended, &step.after)).await
                }
                None => Ok(()),
            };
            if result.is_ok()
                && let Some(has_ended) = ended.get(&step.id)
            {
                has_ended.send_replace(true);
                // With many containers the step is not updated after each: the cost would be quadratic.
                if order.steps.len() <= NAMED {
                    let runs = |id: &ContainerId| ended.get(id).is_some_and(|ended| !*ended.borrow());
                    let left: Vec<_> = order.steps.iter().filter(|s| runs(&s.id)).map(|s| s.name.as_str()).collect();
                    if !left.is_empty() {
                        job.step(left_to_stop(&left, grace)).await;
                    }
                }
            }
            result
        }
    });
    let mut problems: Vec<String> = join_all(stops).await.into_iter().filter_map(Result::err).collect();
    let spent = grace == Grace::MIN || node.clock.mono().since(began) >= grace.get();
    if !problems.is_empty() && or_else == OnFailure::KeepGrace && !spent {
        return problems;
    }
    for sandbox in &seen.sandboxes {
        if sandbox.state == SandboxState::Ready || !seen.containers.is_empty() {
            job.step("its sandbox to stop").await;
        }
        if let Err(err) = node.ports.runtime.stop_sandbox(&sandbox.id).await {
            problems.push(err.to_string());
        }
    }
    problems
}

/// Kills the containers of a pod that still run after the grace period though the runtime was asked to stop them: stops
/// them without grace, so that the runtime sends SIGKILL; then stops the sandboxes; then kills all processes in the pod's
/// cgroup, without the runtime. Returns all failures, with the names of containers that still run (KILL-01).
///
/// Upstream repeats the same stop, and such a pod stays for as long as the runtime fails.
pub(crate) async fn force_kill_pod(
    node: &Node,
    subject: &Subject,
    seen: &PodObservation,
    job: &JobContext,
) -> Vec<String> {
    let runtime = &node.ports.runtime;
    let names = seen.running().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        job.step(format!("containers that could not be stopped to be killed: {names}")).await;
    }
    let mut problems = Vec::new();
    let mut refused = false;
    for container in seen.running() {
        if let Err(err) = runtime.stop_container(&container.id, Duration::ZERO).await {
            refused = true;
            problems.push(format!("container {}: {err}", container.name));
        }
    }
    for sandbox in &seen.sandboxes {
        if let Err(err) = runtime.stop_sandbox(&sandbox.id).await {
            problems.push(err.to_string());
        }
    }
    // A process may be left even if the runtime answered that it killed the container: then only the cgroup ends it.
    let left = match look(node, &job.pod, Some(seen)).await {
        Ok(now) => now.running().map(|c| c.name.clone()).collect::<Vec<_>>().join(", "),
        Err(_) if refused => names,
        Err(_) => String::new(),
    };
    if !left.is_empty() {
        tracing::warn!(containers = %left, "The runtime does not stop containers of this pod: killing all in its cgroup");
        job.happened("Killed what is in its cgroup: the runtime does not stop it", None).await;
        if let Err(err) = resources::remove_pod(node, subject.pod().map(AsRef::as_ref), &job.pod.uid).await {
            problems.push(format!("{left} still runs: {}", Chain(&err)));
        }
    }
    problems
}

fn left_to_stop(names: &[&str], grace: Grace) -> String {
    let (some, seconds) = (names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", "), grace.get().as_secs());
    match names.len().saturating_sub(NAMED) {
        0 => format!("containers to stop: {some} ({seconds} s of grace)"),
        more => format!("containers to stop: {some} and {more} more ({seconds} s of grace)"),
    }
}

/// Removes a sandbox. One that ended by itself and was never stopped still has its network, and some runtimes refuse to
/// remove it: then it is stopped first. upstream: kuberuntime_gc.go removeSandbox (v1.36) always stops first
pub(crate) async fn remove_sandbox(node: &Node, id: &SandboxId) -> Result<(), RpcError> {
    if node.ports.runtime.remove_sandbox(id).await.is_ok() {
        return Ok(());
    }
    node.ports.runtime.stop_sandbox(id).await?;
    node.ports.runtime.remove_sandbox(id).await
}

/// Stops one container of a pod that goes on (RT-03).
#[doc(alias = "killContainer")]
pub(crate) async fn kill_one(
    runtime: &PodRuntime<'_>,
    victim: &KillContainer,
    seen: &PodObservation,
) -> Result<(), String> {
    let Some(container) = seen.containers.iter().find(|c| c.id == victim.id) else { return Ok(()) };
    let spec = container_named(runtime.pod, &victim.name);
    let grace = match &spec {
        Some(spec) => grace_for(runtime.pod, spec, victim.reason, None),
        None => grace_from_marks(&container.marks, None),
    };
    let message = (victim.reason != KillReason::Unwanted).then(|| victim.message.clone());
    runtime.job.step(format!("container {} to stop: {}", victim.name, victim.message)).await;
    let (node, ip) = (runtime.node, address(runtime.node, seen));
    let kill = Kill { node, pod: Some(runtime.pod), job: runtime.job, container, message, grace, ip };
    kill.run(async {}).await
}

/// The address of the pod. A sandbox without an address is on the host network.
fn address(node: &Node, seen: &PodObservation) -> Option<IpAddr> {
    seen.ips().first().copied().or_else(|| node.now().ips.first().copied())
}

/// Resolves when every container in `after` has ended.
async fn turn(ended: &BTreeMap<&ContainerId, watch::Sender<bool>>, after: &[ContainerId]) {
    for id in after {
        if let Some(has_ended) = ended.get(id) {
            let mut has_ended = has_ended.subscribe();
            // Fails only if the sender is dropped, and it lives as long as `ended`.
            let _ended = has_ended.wait_for(|done| *done).await;
        }
    }
}

struct Kill<'a> {
    node: &'a Node,
    pod: Option<&'a Arc<Pod>>,
    job: &'a JobContext,
    container: &'a ContainerObservation,
    message: Option<String>,
    grace: Duration,
    ip: Option<IpAddr>,
}

impl Kill<'_> {
    /// Event, hook, turn, stop. The time of the hook and of the wait for the turn counts against the grace (KILL-03). A hook
    /// that uses up the grace goes on until the container has stopped: to drop its call would kill it before the container.
    async fn run(self, turn: impl Future<Output = ()>) -> Result<(), String> {
        let began = self.node.clock.mono();
        let name = &self.container.name;
        let spec = self.pod.and_then(|pod| container_named(pod, name));
        self.emit_killing().await;
        let left = |node: &Node| self.grace.saturating_sub(node.clock.mono().since(began));
        let handler = self.pre_stop(spec.as_deref());
        // Dropped at the end of this function, after the stop.
        let mut hook = pin!(self.run_pre_stop(spec.as_deref(), handler.as_ref()));
        if tokio::time::timeout(self.grace, &mut hook).await.is_err() {
            self.pre_stop_overran(handler.as_ref()).await;
        }
        // If the grace runs out before its turn, the container is stopped out of turn (KILL-04).
        let _timeout = tokio::time::timeout(left(self.node), turn).await;
        let grace = left(self.node).max(MIN_STOP_GRACE);
        let stopped = self.node.ports.runtime.stop_container(&self.container.id, grace).await;
        stopped.map_err(|err| format!("container {name}: {err}"))
    }

    async fn emit_killing(&self) {
        let Some(pod) = self.pod else { return };
        let name = &self.container.name;
        let message = self.message.clone().unwrap_or_else(|| kill_message(name));
        let path = rubelet_core::pod::field_path(pod, name);
        self.job.emit(pod, path, EventKind::Normal, "Killing", message).await;
    }

    /// The preStop hook to run, if there is one and time for it.
    fn pre_stop(&self, spec: Option<&Container>) -> Option<LifecycleHandler> {
        let hook = match spec {
            Some(spec) => spec.lifecycle.as_ref().and_then(|l| l.pre_stop.clone()),
            None => pre_stop_from_marks(&self.container.marks),
        };
        hook.filter(|_| !self.grace.is_zero())
    }

    async fn run_pre_stop(&self, spec: Option<&Container>, handler: Option<&LifecycleHandler>) {
        let Some(handler) = handler else { return };
        self.job.step(format!("the preStop hook of container {}", self.container.name)).await;
        let container = match spec {
            Some(spec) => Cow::Borrowed(spec),
            None => Cow::Owned(self.container.marks_as_container()),
        };
        let hook = Hook { handler, id: &self.container.id, container, pod: self.pod, ip: self.ip };
        let Err(err) = hook.run(self.node).await else { return };
        if let Some(pod) = self.pod {
            // The event does not repeat the hook's output: it may hold secrets (HOOK-02).
            let problem = Chain(&err);
            tracing::warn!(container = %self.container.name, %problem, "The preStop hook failed");
            let path = rubelet_core::pod::field_path(pod, &self.container.name);
            self.job.emit(pod, path, EventKind::Warning, "FailedPreStopHook", "PreStopHook failed").await;
        }
    }

    /// The hook used up the grace. That is no failure of the hook, so no event is emitted.
    async fn pre_stop_overran(&self, handler: Option<&LifecycleHandler>) {
        if handler.is_some_and(|handler| handler.sleep.is_some()) {
            self.node.metrics.sleep_cut();
        }
        let what = format!("The preStop hook of container {} did not end in time", self.container.name);
        tracing::warn!(container = %self.container.name, "The preStop hook did not end within the grace period");
        self.job.note(Note::Happened { what, took: Some(self.grace), bad: true }).await;
    }
}
