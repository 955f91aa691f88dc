//! Actuates a resize of running containers (RT-06, RSZ-07, RSZ-08).
//!
//! The pod's cgroup has room for the old and the new size while containers change: it is raised before them and lowered
//! after them. Each step is added to the actuated resources, so that the next job goes on where this one was cut off.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use rubelet_core::id::SandboxId;
use rubelet_core::launch::{LinuxResources, container_resources};
use rubelet_core::pod::{PodExt, is_sidecar};
use rubelet_core::qos::{CgroupValues, pod_values};
use rubelet_core::resize::{PodAllocation, ResizeContainer, ResizePlan, with_allocation};
use rubelet_core::resources::{CPU, MEMORY};

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
        for (change, resources) in steps(plan) {
            self.resize_one(change, resources, &mut actuated).await?;
            memory.actuated = Some(Arc::new(actuated.clone()));
        }
        self.set_pod(&new).await?;
        self.resize_sandbox(sandbox, &new).await;
        // The pod's cgroup was set for all containers, also for ordinary init containers that have ended.
        self.pod.init().iter().filter(|c| !is_sidecar(c)).for_each(|c| actuated.set(c));
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
        let mut problems = Vec::new();
        if let Some(limit) = new.memory_limit.filter(|new| *new > 0 && limit_of(old.memory_limit) > *new) {
            let used = self.node.ports.cgroups.memory_used(&path, None).await.map_err(|err| Chain(&err).to_string())?;
            if i64::try_from(used).unwrap_or(i64::MAX) >= limit {
                problems.push(format!("attempting to set pod memory limit ({limit}) below current usage ({used})"));
            }
        }
        for change in &plan.memory {
            let Some(limit) = change.lower_memory_limit else { continue };
            let used = self.node.ports.cgroups.memory_used(&path, Some(&change.id)).await;
            let used = used.map_err(|err| Chain(&err).to_string())?;
            if i64::try_from(used).unwrap_or(i64::MAX) >= limit {
                let name = &change.name;
                problems.push(format!(
                    "attempting to set container \"{name}\" memory limit ({limit}) below current usage ({used})"
                ));
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
        let all = self.pod.init().iter().chain(self.pod.regular());
        let Some(container) = all.into_iter().find(|c| c.name == change.name) else { return Ok(()) };
        let before = actuated.containers.get(&change.name).cloned().unwrap_or_default();
        let new = container.resources.as_ref();
        let mixed = resources.iter().fold(before, |mixed, resource| mix(&mixed, new, resource));
        let container = Container { resources: Some(mixed), ..container.clone() };
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
        let resources = LinuxResources {
            cpu_shares: values.cpu_shares.and_then(|n| i64::try_from(n).ok()).unwrap_or_default(),
            cpu_quota: values.cpu_quota.unwrap_or_default(),
            cpu_period: values.cpu_period.and_then(|n| i64::try_from(n).ok()).unwrap_or_default(),
            memory_limit_in_bytes: values.memory_limit.unwrap_or_default().max(0),
            ..LinuxResources::default()
        };
        match self.node.ports.runtime.resize_sandbox(sandbox, &resources).await {
            Ok(()) => {}
            Err(err) if err.kind == RpcErrorKind::Unimplemented => {}
            Err(err) => {
                tracing::debug!(%err, "The runtime did not accept the resources of the sandbox: the pod's cgroup has them, nothing to do")
            }
        }
    }
}

/// The memory of all containers, then their CPU. A container that changes alone changes both in one step: every step is a
/// call of the runtime, and costs the runtime a process.
fn steps(plan: &ResizePlan) -> Vec<(&ResizeContainer, &'static [&'static str])> {
    if let ([memory], [cpu]) = (plan.memory.as_slice(), plan.cpu.as_slice())
        && memory.id == cpu.id
    {
        return vec![(memory, &[MEMORY, CPU])];
    }
    let memory = plan.memory.iter().map(|change| (change, [MEMORY].as_slice()));
    memory.chain(plan.cpu.iter().map(|change| (change, [CPU].as_slice()))).collect()
}

/// `before`, with the amounts of one resource from `new`.
fn mix(before: &ResourceRequirements, new: Option<&ResourceRequirements>, resource: &str) -> ResourceRequirements {
    type List = std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;
    let list = |old: &Option<List>, new: Option<&List>| {
        let mut mixed = old.clone().unwrap_or_default();
        match new.and_then(|list| list.get(resource)) {
            Some(quantity) => mixed.insert(resource.to_owned(), quantity.clone()),
            None => mixed.remove(resource),
        };
        Some(mixed).filter(|list| !list.is_empty())
    };
    ResourceRequirements {
        limits: list(&before.limits, new.and_then(|r| r.limits.as_ref())),
        requests: list(&before.requests, new.and_then(|r| r.requests.as_ref())),
        claims: new.and_then(|r| r.claims.clone()),
    }
}

/// The larger of each value, so that both sizes fit.
fn larger(a: &CgroupValues, b: &CgroupValues) -> CgroupValues {
    let unlimited_or_more = |a: Option<i64>, b: Option<i64>| {
        if limit_of(a) >= limit_of(b) { a.or(Some(-1)) } else { b.or(Some(-1)) }
    };
    CgroupValues {
        cpu_shares: a.cpu_shares.max(b.cpu_shares),
        cpu_quota: unlimited_or_more(a.cpu_quota, b.cpu_quota),
        memory_limit: unlimited_or_more(a.memory_limit, b.memory_limit),
        ..b.clone()
    }
}

/// The limit as a number: no limit is larger than every limit.
fn limit_of(value: Option<i64>) -> i64 {
    value.filter(|limit| *limit > 0).unwrap_or(i64::MAX)
}
