//! Actuates a resize of running containers (RT-06, RSZ-07, RSZ-08).
//!
//! Core decides the steps. Each is added to the actuated resources, so that the next job goes on where this one was cut off.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use rubelet_core::id::SandboxId;
use rubelet_core::launch::{LinuxResources, container_resources};
use rubelet_core::observe::ContainerStateKind;
use rubelet_core::pod::PodExt;
use rubelet_core::qos::CgroupValues;
use rubelet_core::resize::{LoweredLimit, ResizePlan, ResizeStep, limits_below_usage};

use super::PodRuntime;
use crate::chain::Chain;
use crate::job::PodMemory;
use crate::metrics::CgroupOperation;
use crate::ports::RpcErrorKind;
use crate::resources::timed;

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
        let launch = &self.node.settings.launch;
        let actuation = plan.actuation(self.pod, &actuated, &launch.pod_cgroup_policy());
        self.check_memory(actuation.lowered).await?;
        for step in &actuation.steps {
            match step {
                ResizeStep::Pod(values) => self.set_pod(values).await?,
                ResizeStep::Container { id, container } => {
                    let resources = container_resources(launch, self.pod, container, false);
                    let resized = self.node.ports.runtime.resize_container(id, &resources).await;
                    resized.map_err(|err| err.to_string())?;
                    actuated.set(self.pod, container);
                    memory.actuated = Some(Arc::new(actuated.clone()));
                }
            }
        }
        self.resize_sandbox(sandbox, &actuation.pod).await;
        // The pod's cgroup was set for all containers. Those that do not run get their resources when they start; without
        // a record of that a container that waits for its start would have the cgroup set again by every job.
        let seen = memory.seen.as_deref();
        let has_ended = |c: &&Container| {
            let at = seen.and_then(|seen| seen.current(&c.name)).map(|c| c.state.kind());
            at.is_none_or(|state| state == ContainerStateKind::Exited)
        };
        self.pod.init().iter().chain(self.pod.regular()).filter(has_ended).for_each(|c| actuated.set(self.pod, c));
        actuated.pod = self.pod.pod_spec().and_then(|spec| spec.resources.clone());
        memory.actuated = Some(Arc::new(actuated));
        Ok(())
    }

    /// A memory limit below the usage would get processes killed: such a resize fails until the usage is lower (RSZ-08).
    async fn check_memory(&self, lowered: Vec<LoweredLimit>) -> Result<(), String> {
        let tree = &self.node.settings.launch.tree;
        if !tree.per_qos() {
            return Ok(());
        }
        let path = tree.of_pod(self.pod);
        let mut usage = Vec::new();
        for limit in lowered {
            let container = limit.container.as_ref().map(|(id, _)| id);
            let used = self.node.ports.cgroups.memory_used(&path, container).await;
            usage.push((limit, used.map_err(|err| Chain(&err).to_string())?));
        }
        limits_below_usage(&usage).map_or(Ok(()), Err)
    }

    async fn set_pod(&self, values: &CgroupValues) -> Result<(), String> {
        let tree = &self.node.settings.launch.tree;
        if !tree.per_qos() {
            return Ok(());
        }
        let path = tree.of_pod(self.pod);
        let set = timed(self.node, CgroupOperation::Update, self.node.ports.cgroups.ensure(&path, values)).await;
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
