//! The effects and refusals of CRI calls in the fake world: the laws that `contract` checks.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, LinuxResources, NamespaceMode, SandboxConfig};
use rubelet_core::observe::{Exit, SandboxState};
use rubelet_engine::ports::{RpcError, RpcErrorKind};

use super::behaviour::Behaviour;
use super::world::{At, End, FakeContainer, FakeSandbox, Life, World, fail};

/// Exit code of a process killed by SIGKILL.
const KILLED: i32 = 137;
/// containerd's exit code of a container that could not be started.
const START_ERROR: i32 = 128;

impl World {
    /// Sets the resources of a running container; a container that does not run keeps its own.
    pub(super) fn resize(
        &mut self,
        now: At,
        operation: &'static str,
        id: &ContainerId,
        resources: LinuxResources,
    ) -> Result<(), RpcError> {
        let missing = || fail(operation, RpcErrorKind::NotFound, format!("container \"{id}\" not found"));
        let uid = self.container_pod.get(id).cloned().ok_or_else(missing)?;
        let container = self.pods.get_mut(&uid).and_then(|pod| pod.containers.get_mut(id)).ok_or_else(missing)?;
        if !matches!(container.life, Life::Running { .. }) {
            return Err(fail(operation, RpcErrorKind::Failed, "container is not running"));
        }
        let line = format!(
            "resize {} shares={} quota={} memory={}",
            container.config.name, resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes
        );
        container.config.resources = resources;
        self.record(now, &uid, line, &Ok(()));
        Ok(())
    }

    pub(super) fn run_sandbox(&mut self, now: At, config: &SandboxConfig) -> Result<SandboxId, RpcError> {
        const OP: &str = "run_podsandbox";
        let uid = PodUid::from(config.uid.as_str());
        let name = sandbox_name(config);
        let pod = self.pods.entry(uid.clone()).or_default();
        let taken = pod.sandboxes.values().any(|other| other.config.attempt == config.attempt);
        if taken || self.reserved.contains(&name) {
            let detail = format!("failed to reserve sandbox name \"{name}\": name is reserved");
            return Err(fail(OP, RpcErrorKind::AlreadyExists, detail));
        }
        if let Some(message) = self.sandbox_errors.get(&config.name) {
            return Err(fail(OP, RpcErrorKind::Failed, message));
        }
        if pod.sandboxes.values().any(|other| other.state == SandboxState::Ready) {
            self.violations.push(format!("{}: two ready sandboxes", config.name));
        }
        self.made += 1;
        let id = SandboxId::from(format!("sandbox-{:06}", self.made));
        let own_network = config.security.namespaces.network != NamespaceMode::Node;
        let sandbox = FakeSandbox {
            seq: self.made,
            config: config.clone(),
            state: SandboxState::Ready,
            created_at: self.clock.wall_at(now),
            ips: if own_network { vec![pod_ip(self.made)] } else { Vec::new() },
            torn_down: false,
        };
        pod.sandboxes.insert(id.clone(), sandbox);
        self.sandbox_pod.insert(id.clone(), uid.clone());
        self.hint(uid);
        Ok(id)
    }

    pub(super) fn stop_sandbox(&mut self, now: At, id: &SandboxId) {
        for container in self.containers_in(id) {
            self.kill(now, &container);
        }
        let Some(uid) = self.sandbox_pod.get(id).cloned() else { return };
        let Some(sandbox) = self.pods.get_mut(&uid).and_then(|pod| pod.sandboxes.get_mut(id)) else { return };
        if sandbox.state == SandboxState::Ready {
            sandbox.state = SandboxState::NotReady;
            sandbox.ips.clear();
            self.hint(uid);
        }
    }

    /// A stop call also releases the sandbox's network.
    pub(super) fn tear_down_sandbox(&mut self, now: At, id: &SandboxId) {
        self.stop_sandbox(now, id);
        let pod = self.sandbox_pod.get(id).and_then(|uid| self.pods.get_mut(uid));
        if let Some(sandbox) = pod.and_then(|pod| pod.sandboxes.get_mut(id)) {
            sandbox.torn_down = true;
        }
    }

    /// A sandbox that exited by itself and was never stopped is refused, as by containerd 1.6.
    pub(super) fn remove_sandbox(&mut self, now: At, id: &SandboxId) -> Result<(), RpcError> {
        let pod = self.sandbox_pod.get(id).and_then(|uid| self.pods.get(uid));
        let sandbox = pod.and_then(|pod| pod.sandboxes.get(id));
        if sandbox.is_some_and(|s| s.state == SandboxState::NotReady && !s.torn_down) {
            let detail = format!("sandbox network namespace of \"{id}\" is not fully closed");
            return Err(fail("remove_podsandbox", RpcErrorKind::Failed, detail));
        }
        self.stop_sandbox(now, id);
        for container in self.containers_in(id) {
            self.remove_container(now, &container);
        }
        let Some(uid) = self.sandbox_pod.remove(id) else { return Ok(()) };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.sandboxes.remove(id);
        }
        self.hint(uid);
        Ok(())
    }

    pub(super) fn create_container(
        &mut self,
        now: At,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> Result<ContainerId, RpcError> {
        const OP: &str = "create_container";
        let missing =
            || fail(OP, RpcErrorKind::NotFound, format!("an error occurred when try to find sandbox: {sandbox}"));
        if self.forgets() {
            return Err(missing());
        }
        let uid = self.sandbox_pod.get(sandbox).ok_or_else(missing)?.clone();
        let pod = self.pods.get(&uid).ok_or_else(missing)?;
        let home = pod.sandboxes.get(sandbox).ok_or_else(missing)?;
        let name = container_name(&uid, config);
        let same = |c: &FakeContainer| c.config.name == config.name && c.config.attempt == config.attempt;
        if pod.containers.values().any(same) || self.reserved.contains(&name) {
            let detail = format!("failed to reserve container name \"{name}\": name is reserved");
            return Err(fail(OP, RpcErrorKind::AlreadyExists, detail));
        }
        if home.state != SandboxState::Ready {
            let detail = format!("failed to get sandbox container task: no running task found: {sandbox}");
            return Err(fail(OP, RpcErrorKind::Failed, detail));
        }
        let behaviour = self.behaviour_of(&home.config.name, config);
        if let Some(message) = behaviour.create_error {
            return Err(fail(OP, RpcErrorKind::Failed, message));
        }
        let Some(image_id) = self.images.find(&config.image.image).map(|image| image.id.clone()) else {
            let detail = format!("failed to resolve image \"{}\": not found", config.image.image);
            return Err(fail(OP, RpcErrorKind::NotFound, detail));
        };
        let log_path = format!("{}/{}", home.config.log_directory, config.log_path);
        self.made += 1;
        let id = ContainerId::from(format!("container-{:06}", self.made));
        let container = FakeContainer {
            seq: self.made,
            sandbox: sandbox.clone(),
            config: config.clone(),
            image_id,
            log_path,
            created_at: self.clock.wall_at(now),
            behaviour,
            life: Life::Created,
        };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.containers.insert(id.clone(), container);
        }
        self.container_pod.insert(id.clone(), uid.clone());
        self.hint(uid);
        Ok(id)
    }

    /// The container has exited without having run, with the runtime's reason.
    pub(super) fn could_not_start(&mut self, now: At, id: &ContainerId, why: &str) {
        let exit = Exit {
            code: START_ERROR,
            started_at: jiff::Timestamp::UNIX_EPOCH,
            finished_at: self.clock.wall_at(now),
            reason: "StartError".into(),
            message: why.to_owned(),
        };
        let uid = self.container(id).map(|(uid, _)| uid.clone());
        if let Some(container) = self.container_mut(id) {
            container.life = Life::Exited(exit);
        }
        if let Some(uid) = uid {
            self.hint(uid);
        }
    }

    pub(super) fn start_container(&mut self, now: At, id: &ContainerId) -> Result<(), RpcError> {
        const OP: &str = "start_container";
        let not_found = || fail(OP, RpcErrorKind::NotFound, format!("container \"{id}\": not found"));
        if self.forgets() {
            return Err(not_found());
        }
        let (uid, container) = self.container(id).ok_or_else(not_found)?;
        let uid = uid.clone();
        let state = match &container.life {
            Life::Created => None,
            Life::Running { .. } => Some("CONTAINER_RUNNING"),
            Life::Exited(_) => Some("CONTAINER_EXITED"),
        };
        if let Some(state) = state {
            // An agent that cannot know of a start in flight may start a running container again: that is refused, but
            // no violation.
            let kind = if matches!(container.life, Life::Exited(_)) {
                self.violations.push(format!("{uid}: an instance is started that is {state}"));
                RpcErrorKind::Failed
            } else {
                RpcErrorKind::AlreadyExists
            };
            return Err(fail(OP, kind, format!("container is in {state} state")));
        }
        let behaviour = container.behaviour.clone();
        let name = container.config.name.clone();
        if self.sandbox_state(&container.sandbox) != Some(SandboxState::Ready) {
            return Err(fail(OP, RpcErrorKind::Failed, "sandbox container is not running"));
        }
        if let Some(message) = behaviour.start_error {
            self.could_not_start(now, id, &message);
            return Err(fail(OP, RpcErrorKind::Failed, message));
        }
        let twin = |c: &FakeContainer| c.config.name == name && matches!(c.life, Life::Running { .. });
        if self.pods.get(&uid).is_some_and(|pod| pod.containers.values().any(twin)) {
            self.violations.push(format!("{uid}: container {name} runs twice"));
        }
        self.check_start(&uid, id);
        if let Some(container) = self.container_mut(id) {
            container.life = Life::Running { started: now, ends: None };
        }
        self.hint(uid);
        if let Some((after, code)) = behaviour.ends {
            self.end_at(id, End { at: now.saturating_add(after), code });
        }
        Ok(())
    }

    /// Sends SIGTERM. A container that ignores it ends only by `kill`.
    pub(super) fn term(&mut self, now: At, id: &ContainerId) {
        let on_term = self.container(id).and_then(|(_, c)| c.behaviour.on_term);
        if let Some((after, code)) = on_term {
            self.end_at(id, End { at: now.saturating_add(after), code });
            self.settle(now);
        }
    }

    pub(super) fn kill(&mut self, now: At, id: &ContainerId) {
        if self.container(id).is_some_and(|(_, c)| c.behaviour.unkillable || c.behaviour.outlives_sandbox) {
            return;
        }
        self.end(now, id, KILLED);
    }

    /// Sends SIGKILL to every process of a pod, without the runtime. Returns how many are left.
    pub(super) fn kill_all_of(&mut self, now: At, uid: &PodUid) -> usize {
        let all = self.pods.get(uid).into_iter().flat_map(|pod| pod.containers.keys());
        let all: Vec<ContainerId> = all.cloned().collect();
        let mut left = 0;
        for id in all {
            let (runs, unkillable) = self
                .container(&id)
                .map_or((false, false), |(_, c)| (matches!(c.life, Life::Running { .. }), c.behaviour.unkillable));
            if runs && unkillable {
                left += 1;
            } else if runs {
                self.end(now, &id, KILLED);
            }
        }
        left
    }

    /// Why this sandbox cannot be stopped, if so.
    pub(super) fn sandbox_stop_error(&self, id: &SandboxId) -> Option<String> {
        let holds = |c: &FakeContainer| c.behaviour.outlives_sandbox && matches!(c.life, Life::Running { .. });
        let mut all = self.containers_in(id).into_iter().filter_map(|id| self.container(&id).map(|(_, c)| c));
        all.find(|c| holds(c)).and_then(|c| c.behaviour.stop_error.clone())
    }

    /// Ends a running container now, whatever its behaviour.
    pub(super) fn end(&mut self, now: At, id: &ContainerId, code: i32) {
        self.end_at(id, End { at: now, code });
        self.settle(now);
    }

    pub(super) fn remove_container(&mut self, now: At, id: &ContainerId) {
        self.kill(now, id);
        let Some(uid) = self.container_pod.remove(id) else { return };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.containers.remove(id);
        }
        self.hint(uid);
    }

    /// A power cut: all objects stay, no process runs.
    pub(super) fn power_cut(&mut self, now: At) {
        let sandboxes: Vec<SandboxId> = self.sandbox_pod.keys().cloned().collect();
        let containers: Vec<ContainerId> = self.container_pod.keys().cloned().collect();
        for id in &containers {
            self.end(now, id, 255);
        }
        // The network namespaces are gone with the kernel.
        for id in &sandboxes {
            self.tear_down_sandbox(now, id);
        }
    }

    pub(super) fn sandbox_state(&self, id: &SandboxId) -> Option<SandboxState> {
        Some(self.pods.get(self.sandbox_pod.get(id)?)?.sandboxes.get(id)?.state)
    }

    fn containers_in(&self, sandbox: &SandboxId) -> Vec<ContainerId> {
        let pod = self.sandbox_pod.get(sandbox).and_then(|uid| self.pods.get(uid));
        let all = pod.into_iter().flat_map(|pod| &pod.containers);
        all.filter(|(_, c)| c.sandbox == *sandbox).map(|(id, _)| id.clone()).collect()
    }

    /// The script for `pod/container`, for the container, or for the image; else the behaviour of its command.
    fn behaviour_of(&self, pod: &str, config: &ContainerConfig) -> Behaviour {
        let full = format!("{pod}/{}", config.name);
        let image = if config.image.user_specified_image.is_empty() {
            &config.image.image
        } else {
            &config.image.user_specified_image
        };
        let script = [&full, &config.name, image].into_iter().find_map(|key| self.scripts.get(key));
        let attempt = usize::try_from(config.attempt).unwrap_or(usize::MAX);
        let of_attempt = script.and_then(|script| script.get(attempt).or(script.last()));
        of_attempt.cloned().unwrap_or_else(|| Behaviour::of_command(config))
    }

    pub(super) fn start_takes(&self, id: &ContainerId) -> Duration {
        self.container(id).map(|(_, c)| c.behaviour.start_takes).unwrap_or_default()
    }
}

/// The name that containerd keeps unique among sandboxes.
pub(super) fn sandbox_name(config: &SandboxConfig) -> String {
    format!("{}_{}_{}_{}", config.name, config.namespace, config.uid, config.attempt)
}

/// The name that containerd keeps unique among containers; the sandbox's attempt is not part of it.
pub(super) fn container_name(uid: &PodUid, config: &ContainerConfig) -> String {
    format!("{}_{uid}_{}", config.name, config.attempt)
}

fn pod_ip(n: u64) -> IpAddr {
    let [.., high, low] = n.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 88, high, low))
}
