//! The fake world as lists and observations.

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::launch::LinuxResources;
use rubelet_core::observe::{
    ContainerObservation, ContainerState, ContainerStateKind, ContainerSummary, ObservedResources, PodObservation,
    PodSummary, SandboxObservation, SandboxSummary,
};
use rubelet_core::time::Instant;

use super::marks;
use super::world::{FakeContainer, FakePod, FakeSandbox, Life, World};

impl World {
    pub(super) fn list(&self) -> Vec<PodSummary> {
        self.pods.iter().filter_map(|(uid, pod)| summary(uid, pod)).collect()
    }

    pub(super) fn inspect(&self, uid: &PodUid, at: Instant) -> PodObservation {
        let unknown = PodRef { namespace: "".into(), name: "".into(), uid: uid.clone() };
        let Some(pod) = self.pods.get(uid) else { return PodObservation::nothing(unknown, at) };
        let pod_ref = pod_ref(uid, pod).unwrap_or(unknown);
        let mut sandboxes: Vec<_> = pod.sandboxes.iter().filter(|(_, s)| is_ours(s)).collect();
        sandboxes.sort_by_key(|(_, s)| std::cmp::Reverse(s.seq));
        let sandboxes = sandboxes.into_iter().map(|(id, sandbox)| SandboxObservation {
            id: id.clone(),
            attempt: sandbox.config.attempt,
            state: sandbox.state,
            created_at: sandbox.created_at,
            network: sandbox.config.security.namespaces.network.clone(),
            ips: sandbox.ips.clone(),
            runtime_handler: sandbox.config.runtime_handler.clone(),
        });
        let mut containers: Vec<_> = pod.containers.iter().filter(|(_, c)| is_our_container(c)).collect();
        containers.sort_by_key(|(_, c)| std::cmp::Reverse(c.seq));
        let containers = containers.into_iter().map(|(id, container)| ContainerObservation {
            id: id.clone(),
            sandbox: container.sandbox.clone(),
            name: container.config.name.clone(),
            state: self.state(container),
            created_at: container.created_at,
            image: spec_image(container),
            image_id: container.image_id.clone(),
            marks: marks::of(&container.config),
            log_path: container.log_path.clone(),
            resources: Some(in_force(&container.config.resources)),
            user: None,
        });
        PodObservation { pod: pod_ref, sandboxes: sandboxes.collect(), containers: containers.collect(), at }
    }

    fn state(&self, container: &FakeContainer) -> ContainerState {
        match &container.life {
            Life::Created => ContainerState::Created,
            Life::Running { started, .. } => ContainerState::Running { started_at: self.clock.wall_at(*started) },
            Life::Exited(exit) => ContainerState::Exited(exit.clone()),
        }
    }
}

fn in_force(resources: &LinuxResources) -> ObservedResources {
    ObservedResources {
        cpu_shares: Some(resources.cpu_shares),
        cpu_quota: Some(resources.cpu_quota),
        cpu_period: Some(resources.cpu_period),
        memory_limit: Some(resources.memory_limit_in_bytes),
    }
}

fn summary(uid: &PodUid, pod: &FakePod) -> Option<PodSummary> {
    let sandboxes =
        pod.sandboxes.iter().filter(|(_, s)| is_ours(s)).map(|(id, sandbox)| (id.clone(), sandbox_summary(sandbox)));
    let containers = pod.containers.iter().filter(|(_, c)| is_our_container(c)).map(|(id, c)| {
        let summary = ContainerSummary {
            name: c.config.name.clone(),
            sandbox: c.sandbox.clone(),
            state: kind(&c.life),
            created_at: c.created_at,
            restart_count: marks::restart_count(&c.config.annotations),
            image_id: c.image_id.clone(),
        };
        (id.clone(), summary)
    });
    Some(PodSummary { pod: pod_ref(uid, pod)?, sandboxes: sandboxes.collect(), containers: containers.collect() })
}

fn sandbox_summary(sandbox: &FakeSandbox) -> SandboxSummary {
    SandboxSummary { state: sandbox.state, attempt: sandbox.config.attempt, created_at: sandbox.created_at }
}

pub(super) fn kind(life: &Life) -> ContainerStateKind {
    match life {
        Life::Created => ContainerStateKind::Created,
        Life::Running { .. } => ContainerStateKind::Running,
        Life::Exited(_) => ContainerStateKind::Exited,
    }
}

/// The pod, from the labels of its sandboxes or containers; `None` if none has our labels (RT-70).
fn pod_ref(uid: &PodUid, pod: &FakePod) -> Option<PodRef> {
    let sandbox = pod.sandboxes.values().find(|s| is_ours(s)).map(|s| &s.config.labels);
    let labels = sandbox.or_else(|| pod.containers.values().find(|c| is_our_container(c)).map(|c| &c.config.labels))?;
    let get = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
    Some(PodRef { namespace: get(marks::POD_NAMESPACE).into(), name: get(marks::POD_NAME).into(), uid: uid.clone() })
}

fn is_ours(sandbox: &FakeSandbox) -> bool {
    sandbox.config.labels.contains_key(marks::POD_UID)
}

fn is_our_container(container: &FakeContainer) -> bool {
    let labels = &container.config.labels;
    labels.contains_key(marks::POD_UID) && labels.contains_key(marks::CONTAINER_NAME)
}

fn spec_image(container: &FakeContainer) -> String {
    let image = &container.config.image;
    if image.user_specified_image.is_empty() { image.image.clone() } else { image.user_specified_image.clone() }
}
