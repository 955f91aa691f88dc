//! The engine's ports on top of the fake world.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, LinuxResources, SandboxConfig};
use rubelet_core::observe::{Hint, PodObservation, PodSummary};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{
    CgroupDriver, ContainerCheckpoints, Containers, ExecOutput, ReadyCondition, Resizes, RpcError, RpcErrorKind,
    RuntimeInfo, RuntimeStatus, RuntimeVersion, RuntimeView, Sandboxes, Session, StdStreams, Streams,
};

use super::behaviour::run_command;
use super::effects::{container_name, sandbox_name};
use super::world::{Life, World, fail};
use super::{FakeRuntime, hints};

/// An address on this machine at which no server can listen.
const NOWHERE: &str = "127.0.0.1:0";

#[async_trait]
impl RuntimeInfo for FakeRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RpcError> {
        let version = RuntimeVersion { name: "fake".into(), version: "1.0".into(), api_version: "v1".into() };
        self.read("version", None, move |_, _| version).await
    }

    async fn status(&self) -> Result<RuntimeStatus, RpcError> {
        self.wait_while_silent().await;
        self.read("status", None, |world, _| RuntimeStatus {
            runtime: ReadyCondition { ready: true, ..ReadyCondition::default() },
            network: world.network.clone(),
            handlers: world.handlers.clone(),
            supplemental_groups_policy: true,
        })
        .await
    }

    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RpcError> {
        self.read("runtime_config", None, |_, _| Some(CgroupDriver::Cgroupfs)).await
    }
}

#[async_trait]
impl RuntimeView for FakeRuntime {
    async fn list(&self) -> Result<Vec<PodSummary>, RpcError> {
        self.read("list_podsandbox", None, |world, _| world.list()).await
    }

    async fn inspect(&self, uid: &PodUid, at: Instant) -> Result<PodObservation, RpcError> {
        let wanted = uid.clone();
        self.read("podsandbox_status", Some(uid.clone()), move |world, _| world.inspect(&wanted, at)).await
    }

    async fn hints(&self) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError> {
        const OP: &str = "get_container_events";
        if !self.offers_hints() {
            return Err(fail(OP, RpcErrorKind::Unimplemented, "unknown method GetContainerEvents"));
        }
        self.read(OP, None, |_, _| ()).await?;
        Ok(hints::stream(self.clone()))
    }
}

#[async_trait]
impl Sandboxes for FakeRuntime {
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RpcError> {
        let uid = PodUid::from(config.uid.as_str());
        let name = sandbox_name(config);
        let config = config.clone();
        self.change("run_podsandbox", Some(uid.clone()), Some(name), move |world, now| {
            let outcome = world.run_sandbox(now, &config);
            let line = format!("run_sandbox attempt={}", config.attempt);
            world.record_as(now, &config.name, &uid, line, &outcome);
            outcome
        })
        .await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RpcError> {
        let uid = self.with(|world, _| world.sandbox_pod.get(id).cloned());
        let id = id.clone();
        self.change("stop_podsandbox", uid, None, move |world, now| {
            let outcome = match world.sandbox_stop_error(&id) {
                Some(message) => Err(fail("stop_podsandbox", RpcErrorKind::Failed, message)),
                None => Ok(()),
            };
            if let Some(uid) = world.sandbox_pod.get(&id).cloned() {
                world.record(now, &uid, "stop_sandbox".into(), &outcome);
            }
            if outcome.is_ok() {
                world.tear_down_sandbox(now, &id);
            }
            outcome
        })
        .await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RpcError> {
        let uid = self.with(|world, _| world.sandbox_pod.get(id).cloned());
        let id = id.clone();
        self.change("remove_podsandbox", uid, None, move |world, now| {
            let pod = world.sandbox_pod.get(&id).cloned();
            let pod = pod.map(|uid| (world.name_of(&uid), uid));
            let outcome = world.remove_sandbox(now, &id);
            if let Some((name, uid)) = pod {
                world.record_as(now, &name, &uid, "remove_sandbox".into(), &outcome);
            }
            outcome
        })
        .await
    }
}

#[async_trait]
impl Containers for FakeRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RpcError> {
        let uid = PodUid::from(sandbox_config.uid.as_str());
        let pod = sandbox_config.name.clone();
        let name = container_name(&uid, config);
        let (sandbox, config) = (sandbox.clone(), config.clone());
        self.change("create_container", Some(uid.clone()), Some(name), move |world, now| {
            let outcome = world.create_container(now, &sandbox, &config);
            world.record_as(now, &pod, &uid, format!("create {}", config.name), &outcome);
            outcome
        })
        .await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RpcError> {
        let (owner, takes, asked) = self.with(|world, now| (owner_of(world, id), world.start_takes(id), now));
        if !takes.is_zero() {
            let given_up = AbandonedStart { runtime: self, id };
            tokio::time::sleep(takes).await;
            std::mem::forget(given_up);
        }
        let id = id.clone();
        self.change("start_container", owner.map(|(uid, _)| uid), None, move |world, now| {
            let owner = owner_of(world, &id);
            let outcome = world.start_container(now, &id);
            if let Some((uid, name)) = owner {
                world.record(now, &uid, format!("start {name}"), &outcome);
                if let Some(call) = world.log.last_mut() {
                    call.asked = asked;
                }
            }
            outcome
        })
        .await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RpcError> {
        let owner = self.with(|world, _| owner_of(world, id));
        let wanted = id.clone();
        self.change("stop_container", owner.map(|(uid, _)| uid), None, move |world, now| {
            if let Some((uid, name)) = owner_of(world, &wanted) {
                world.record(now, &uid, format!("stop {name} grace={grace:?}"), &Ok(()));
            }
            let refusal = world.container(&wanted).and_then(|(_, container)| container.behaviour.stop_error.clone());
            if let Some(message) = refusal.filter(|_| world.is_running(&wanted)) {
                return Err(fail("stop_container", RpcErrorKind::Failed, message));
            }
            if grace.is_zero() {
                world.kill(now, &wanted)
            } else {
                world.term(now, &wanted)
            }
            Ok(())
        })
        .await?;
        // If the caller stops waiting, no SIGKILL is sent: so it is with containerd.
        self.wait_for_end(id, grace).await;
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RpcError> {
        let owner = self.with(|world, _| owner_of(world, id));
        let id = id.clone();
        self.change("remove_container", owner.map(|(uid, _)| uid), None, move |world, now| {
            if let Some((uid, name)) = owner_of(world, &id) {
                world.record(now, &uid, format!("remove {name}"), &Ok(()));
            }
            world.remove_container(now, &id);
            Ok(())
        })
        .await
    }

    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Result<ExecOutput, RpcError> {
        const OP: &str = "exec_sync";
        let wanted = id.clone();
        let words = command.to_vec();
        let owner = self.with(|world, _| owner_of(world, id));
        let plan = self.change(OP, owner.map(|(uid, _)| uid), None, move |world, now| {
            let Some((uid, name)) = owner_of(world, &wanted) else {
                return Err(fail(OP, RpcErrorKind::NotFound, format!("container \"{wanted}\": not found")));
            };
            if !world.is_running(&wanted) {
                return Err(fail(OP, RpcErrorKind::Failed, "container is not running"));
            }
            world.record(now, &uid, format!("exec {name}: {}", words.join(" ")), &Ok(()));
            let scripted = world.exec_scripts.get(&name).cloned();
            Ok(scripted.map_or_else(|| run_command(&words), |(takes, output)| (takes, Some(output))))
        });
        let (takes, output) = plan.await?;
        let bounded = !timeout.is_zero();
        match output {
            Some(output) if !bounded || takes <= timeout => {
                tokio::time::sleep(takes).await;
                Ok(output)
            }
            _ if bounded => {
                tokio::time::sleep(timeout).await;
                Err(fail(OP, RpcErrorKind::Timeout, format!("timeout {timeout:?} exceeded")))
            }
            _ => {
                let _call = AbandonedExec { runtime: self, id };
                std::future::pending().await
            }
        }
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RpcError> {
        const OP: &str = "reopen_container_log";
        let id = id.clone();
        self.change(OP, None, None, move |world, _| {
            if !world.is_running(&id) {
                return Err(fail(OP, RpcErrorKind::Failed, "container is not running"));
            }
            if let (Some(logs), Some((_, container))) = (&world.logs, world.container(&id)) {
                logs.reopen(&container.log_path);
            }
            Ok(())
        })
        .await
    }
}

/// Session URLs lead to an address without a server: the runtime serves sessions, not the kubelet.
#[async_trait]
impl Streams for FakeRuntime {
    async fn exec(&self, id: &ContainerId, _command: &[String], _wanted: StdStreams) -> Result<Session, RpcError> {
        self.session("exec", id).await
    }

    async fn attach(&self, id: &ContainerId, _wanted: StdStreams) -> Result<Session, RpcError> {
        self.session("attach", id).await
    }

    async fn port_forward(&self, id: &SandboxId, _ports: &[u16]) -> Result<Session, RpcError> {
        const OP: &str = "port_forward";
        let id = id.clone();
        self.change(OP, None, None, move |world, _| match world.sandbox_pod.get(&id) {
            Some(_) => Ok(Session::Url(format!("http://{NOWHERE}/portforward/{id}"))),
            None => Err(fail(OP, RpcErrorKind::NotFound, format!("sandbox \"{id}\": not found"))),
        })
        .await
    }
}

/// As a runtime without checkpoints.
impl ContainerCheckpoints for FakeRuntime {}

#[async_trait]
impl Resizes for FakeRuntime {
    async fn resize_container(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RpcError> {
        const OP: &str = "update_container";
        let (id, resources) = (id.clone(), resources.clone());
        self.change(OP, None, None, move |world, now| world.resize(now, OP, &id, resources)).await
    }

    async fn resize_sandbox(&self, _id: &SandboxId, _resources: &LinuxResources) -> Result<(), RpcError> {
        Err(fail("update_podsandbox_resources", RpcErrorKind::Unimplemented, "not implemented"))
    }
}

impl FakeRuntime {
    async fn session(&self, operation: &'static str, id: &ContainerId) -> Result<Session, RpcError> {
        let id = id.clone();
        self.change(operation, None, None, move |world, _| {
            if owner_of(world, &id).is_none() {
                return Err(fail(operation, RpcErrorKind::NotFound, format!("container \"{id}\": not found")));
            }
            if !world.is_running(&id) {
                return Err(fail(operation, RpcErrorKind::Failed, "container is not running"));
            }
            Ok(Session::Url(format!("http://{NOWHERE}/{operation}/{id}")))
        })
        .await
    }

    async fn wait_for_end(&self, id: &ContainerId, grace: Duration) {
        let clock = self.clock();
        let deadline = clock.elapsed().saturating_add(grace);
        let mut changed = self.subscribe().1;
        loop {
            changed.borrow_and_update();
            let ends = self.with(|world, now| {
                if now >= deadline {
                    world.kill(now, id);
                    return None;
                }
                let (_, container) = world.container(id)?;
                match &container.life {
                    Life::Running { ends, .. } => Some(ends.map_or(deadline, |end| end.at.min(deadline))),
                    Life::Created | Life::Exited(_) => None,
                }
            });
            let Some(at) = ends else { return };
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = clock.sleep_until(at) => {}
            }
        }
    }
}

/// The container's pod and name.
fn owner_of(world: &World, id: &ContainerId) -> Option<(PodUid, String)> {
    world.container(id).map(|(uid, container)| (uid.clone(), container.config.name.clone()))
}

/// A command that never ends by itself. Dropped if the caller abandoned the call: a runtime then kills the command.
struct AbandonedExec<'a> {
    runtime: &'a FakeRuntime,
    id: &'a ContainerId,
}

impl Drop for AbandonedExec<'_> {
    fn drop(&mut self) {
        self.runtime.with(|world, now| {
            let Some((uid, name)) = owner_of(world, self.id).filter(|_| world.is_running(self.id)) else { return };
            world.record(now, &uid, format!("exec {name}: abandoned"), &Ok(()));
        });
    }
}

/// Dropped if the caller abandoned a start: containerd 2.1 then cancels it, and shows it as failed.
struct AbandonedStart<'a> {
    runtime: &'a FakeRuntime,
    id: &'a ContainerId,
}

impl Drop for AbandonedStart<'_> {
    fn drop(&mut self) {
        let why = "failed to start containerd task: context canceled";
        self.runtime.with(|world, now| world.could_not_start(now, self.id, why));
    }
}
