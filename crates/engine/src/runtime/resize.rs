//! Actuates a resize of running containers (RT-06, RSZ-07, RSZ-08).
//!
//! The pod's cgroup has room for the old and the new size while containers change: it is raised before them and lowered
//! after them. Each step is added to the actuated resources, so that the next job goes on where this one was cut off.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use rubelet_core::id::SandboxId;
use rubelet_core::launch::{LinuxResources, container_resources};
use rubelet_core::observe::ContainerStateKind;
use rubelet_core::pod::PodExt;
use rubelet_core::qos::{CgroupValues, pod_values};
use rubelet_core::resize::{PodAllocation, ResizeContainer, ResizePlan, larger, lower_memory_limit, with_allocation};

use super::PodRuntime;
use crate::chain::Chain;
use crate::job::PodMemory;
use crate::ports::RpcErrorKind;

impl PodRuntime<'_> {
    /// Carries out `plan`. The error is the message of the pod's condition and event.
    #[doc(alias = "doPodResizeAction")]
    pub(super) async fn resize(
        &self,
        plan: &ResizePlan,
        sandbox: &SandboxId,
        memory: &mut PodMemory,
    ) -> Result<(), String> {
        if plan.is_empty() {
            return Ok(());
        }
        let began = self.node.clock.mono();
        let resized = self.carry_out_resize(plan, sandbox, memory).await;
        self.node.metrics.resize_done(resized.is_ok(), self.node.clock.mono().since(began));
        resized
    }

    async fn carry_out_resize(
        &self,
        plan: &ResizePlan,
        sandbox: &SandboxId,
        memory: &mut PodMemory,
    ) -> Result<(), String> {
        self.job.step("other resources").await;
        let mut actuated = memory.actuated.as_deref().cloned().unwrap_or_default();
        let policy = self.node.settings.launch.pod_cgroup_policy();
        let new = pod_values(self.pod, &policy);
        let old = with_allocation(self.pod, &actuated).map_or_else(|| new.clone(), |pod| pod_values(&pod, &policy));
        self.check_memory(plan, &old, &new).await?;
        self.set_pod(&larger(&old, &new)).await?;
        for (change, resources) in plan.steps() {
            self.resize_one(change, resources, &mut actuated).await?;
            memory.actuated = Some(Arc::new(actuated.clone()));
        }
        self.set_pod(&new).await?;
        self.resize_sandbox(sandbox, &new).await;
        // The pod's cgroup was set for all containers. Those that do not run get their resources when they start; without
        // a record of that a container that waits for its start would have the cgroup set again by every job.
        let seen = memory.seen.as_deref();
        let has_ended = |c: &&Container| {
            let at = seen.and_then(|seen| seen.current(&c.name)).map(|c| c.state.kind());
            at.is_none_or(|state| state == ContainerStateKind::Exited)
        };
        self.pod.init().iter().chain(self.pod.regular()).filter(has_ended).for_each(|c| actuated.set(c));
        actuated.pod = self.pod.pod_spec().and_then(|spec| spec.resources.clone());
        memory.actuated = Some(Arc::new(actuated));
        Ok(())
    }

    /// A memory limit below the usage would get processes killed: such a resize fails until the usage is lower (RSZ-08).
    #[doc(alias = "validateMemoryResizeAction")]
    async fn check_memory(&self, plan: &ResizePlan, old: &CgroupValues, new: &CgroupValues) -> Result<(), String> {
        let tree = &self.node.settings.launch.tree;
        if !tree.per_qos() {
            return Ok(());
        }
        let path = tree.of_pod(self.pod);
        let of_pod = lower_memory_limit(old, new).map(|limit| (None, "pod".to_owned(), limit));
        let of_containers = plan.memory.iter().filter_map(|change| {
            Some((Some(&change.id), format!("container \"{}\"", change.name), change.lower_memory_limit()?))
        });
        let mut problems = Vec::new();
        for (container, name, limit) in of_pod.into_iter().chain(of_containers) {
            let used = self.node.ports.cgroups.memory_used(&path, container).await;
            let used = used.map_err(|err| Chain(&err).to_string())?;
            if i64::try_from(used).unwrap_or(i64::MAX) >= limit {
                problems.push(format!("attempting to set {name} memory limit ({limit}) below current usage ({used})"));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!("cannot decrease memory limits: {}", problems.join(", ")))
    }

    /// Resizes `resources` of one container. Its other resources stay as actuated.
    async fn resize_one(
        &self,
        change: &ResizeContainer,
        resources: &[&str],
        actuated: &mut PodAllocation,
    ) -> Result<(), String> {
        let mut all = self.pod.init().iter().chain(self.pod.regular());
        let Some(container) = all.find(|c| c.name == change.name) else { return Ok(()) };
        let container = actuated.with_resized(container, resources);
        let resources = container_resources(&self.node.settings.launch, self.pod, &container, false);
        let runtime = &self.node.ports.runtime;
        runtime.resize_container(&change.id, &resources).await.map_err(|err| err.to_string())?;
        actuated.set(&container);
        Ok(())
    }

    async fn set_pod(&self, values: &CgroupValues) -> Result<(), String> {
        let tree = &self.node.settings.launch.tree;
        if !tree.per_qos() {
            return Ok(());
        }
        let set = self.node.ports.cgroups.ensure(&tree.of_pod(self.pod), values).await;
        set.map_err(|err| Chain(&err).to_string())
    }

    /// Sends the pod's resources to the runtime. Best effort: few runtimes use them.
    async fn resize_sandbox(&self, sandbox: &SandboxId, values: &CgroupValues) {
        match self.node.ports.runtime.resize_sandbox(sandbox, &LinuxResources::of_pod(values)).await {
            Ok(()) => {}
            Err(err) if err.kind == RpcErrorKind::Unimplemented => {}
            Err(err) => {
                tracing::debug!(%err, "The runtime did not accept the resources of the sandbox: the pod's cgroup has them, nothing to do")
            }
        }
    }
}
