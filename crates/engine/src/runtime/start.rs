//! Starts one container: pulls its image, makes its configuration, creates it, starts it, links its log, runs its
//! postStart hook (section 7.6).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, Secret};
use rubelet_core::backoff::{crash_event_message, crash_message};
use rubelet_core::container_mounts::subpaths;
use rubelet_core::hash::{backoff_key, container_hash};
use rubelet_core::hostname::pod_hostname;
use rubelet_core::hosts::hosts_file;
use rubelet_core::id::ContainerId;
use rubelet_core::launch::{ContainerConfig, ContainerInputs, ExtraOptions, ImageUser, container_config, container_of};
use rubelet_core::lifecycle::Retry;
use rubelet_core::observe::{ContainerObservation, ContainerState, PodObservation};
use rubelet_core::plan::{KillReason, MIN_STOP_GRACE, StartContainer, grace_for};
use rubelet_core::pod::{PodExt, Role};
use rubelet_core::reason::{StartFailure, WaitingReason};
use rubelet_core::status::{MAX_MESSAGE_BYTES, cut};

use super::{LiveSandbox, NotStarted, PodRuntime};
use crate::chain::Chain;
use crate::hooks::Hook;
use crate::job::{PodMemory, retry_after};
use crate::ports::{EventKind, LogId, RpcError, RpcErrorKind, SubpathRequest};
use crate::slots::StartSlot;

/// For how long after its creation the runtime may still be starting an instance: a call may outlive the agent process
/// that made it by this long (ADR 13).
const LONGEST_START: SignedDuration = SignedDuration::from_secs(600);

impl PodRuntime<'_> {
    /// Starts the container, unless its crash loop back-off has not ended (RT-60).
    #[doc(alias = "startContainer")]
    pub(super) async fn start(
        &self,
        start: &StartContainer,
        sandbox: &LiveSandbox,
        secrets: &[Arc<Secret>],
        memory: &mut PodMemory,
        slot: &mut StartSlot<'_>,
    ) -> Result<(), NotStarted> {
        let Some(container) = container_of(self.pod, start) else { return Ok(()) };
        let container = container.as_ref();
        let seen = memory.seen.clone();
        if start.role != Role::Ephemeral {
            self.crash_backoff(container, seen.as_deref(), memory).await?;
        }
        if let Some(made) = self.clear_unstarted(container, sandbox, seen.as_deref()).await? {
            return self.start_made(container, made, sandbox, memory, slot).await;
        }
        let image = self.ensure_image(container, &sandbox.config, secrets, memory, slot).await?;
        if let Err(err) = slot.take(self.job).await {
            let failure = StartFailure { reason: WaitingReason::ContainerCreating, message: err.problem };
            return Err(NotStarted { failure, retry: err.retry });
        }
        let user = ImageUser { uid: image.uid, username: image.username };
        let prepared = Prepared { start, container, image_ref: &image.image_ref, image_user: &user };
        let config = self.configure(&prepared, sandbox, seen.as_deref()).await;
        let config = match config {
            Ok(config) => config,
            Err(problem) => {
                return Err(self.failed(container, WaitingReason::CreateContainerConfigError, problem).await);
            }
        };
        // Before the create call, whose answer may be lost (RT-44).
        // upstream: kuberuntime_container.go startContainer (v1.36)
        Arc::make_mut(memory.actuated.get_or_insert_default()).set(self.pod, container);
        let id = self.create(container, sandbox, &config).await?;
        // From here on the container itself keeps the image.
        drop(image.lease);
        self.run(container, &id, config.attempt).await?;
        // A postStart hook has no deadline, so it must not hold a start slot.
        slot.release();
        self.post_start(container, &id, sandbox).await?;
        memory.unseen = true;
        Ok(())
    }

    /// Handles instances that were created and not started, because the agent was restarted or an answer was lost. Returns
    /// the one to start, and removes the others.
    ///
    /// The runtime may be starting such an instance right now, for the agent process before this one. Removal would kill
    /// it although it runs, and a second instance would run in its place. So an instance that matches the spec is started:
    /// the runtime refuses to start it twice. An instance that does not match is removed. So is one that is too old to
    /// have a call in flight, because the config maps and secrets in its environment may have changed since. Upstream
    /// leaves such an instance where it is and creates another beside it.
    async fn clear_unstarted<'a>(
        &self,
        container: &'a Container,
        sandbox: &LiveSandbox,
        seen: Option<&'a PodObservation>,
    ) -> Result<Option<&'a ContainerObservation>, NotStarted> {
        let now = self.node.clock.wall();
        let hash = container_hash(container);
        let mut wanted = None;
        for unstarted in seen.into_iter().flat_map(|s| s.instances(&container.name)).filter(|c| is_unstarted(c)) {
            let is_young = now.duration_since(unstarted.created_at) < LONGEST_START;
            let is_right = unstarted.sandbox == sandbox.id && unstarted.marks.hash == Some(hash);
            if is_young && is_right && wanted.is_none() {
                wanted = Some(unstarted);
            } else if let Err(err) = self.node.ports.runtime.remove_container(&unstarted.id).await {
                return Err(self.runtime_failed(container, WaitingReason::RunContainerError, err).await);
            }
        }
        Ok(wanted)
    }

    /// Starts an instance that an earlier job, or the agent process before this one, created.
    async fn start_made(
        &self,
        container: &Container,
        made: &ContainerObservation,
        sandbox: &LiveSandbox,
        memory: &mut PodMemory,
        slot: &mut StartSlot<'_>,
    ) -> Result<(), NotStarted> {
        if let Err(err) = slot.take(self.job).await {
            let failure = StartFailure { reason: WaitingReason::ContainerCreating, message: err.problem };
            return Err(NotStarted { failure, retry: err.retry });
        }
        // The instance was created with the recorded resources. Without a record, the agent stopped before it wrote one.
        let actuated = Arc::make_mut(memory.actuated.get_or_insert_default());
        if !actuated.containers.contains_key(&container.name) {
            actuated.set(self.pod, container);
        }
        self.run(container, &made.id, made.marks.restart_count).await?;
        slot.release();
        self.post_start(container, &made.id, sandbox).await?;
        memory.unseen = true;
        Ok(())
    }

    /// Fails during a crash loop back-off. The first restart is immediate; later ones wait from the last exit on (RT-60,
    /// RT-61).
    async fn crash_backoff(
        &self,
        container: &Container,
        seen: Option<&PodObservation>,
        memory: &mut PodMemory,
    ) -> Result<(), NotStarted> {
        let ended = seen.and_then(|s| s.instances(&container.name).find_map(|c| c.state.exit()));
        let Some(ended) = ended else { return Ok(()) };
        let image = container.image.as_deref().unwrap_or_default();
        let key = backoff_key(&self.job.pod, &container.name, image, container.resources.as_ref());
        let now = self.node.clock.wall();
        if let Some(left) = memory.crashes.wait_left(&key, ended.finished_at, now) {
            let message = crash_event_message(&container.name, &self.job.pod);
            let path = self.field_path(container);
            self.job.emit(self.pod, path, EventKind::Warning, "BackOff", message).await;
            let delay = memory.crashes.delay(&key);
            let message = crash_message(delay, &container.name, &self.job.pod);
            let failure = StartFailure { reason: WaitingReason::CrashLoopBackOff, message };
            return Err(NotStarted { failure, retry: Retry::In(left) });
        }
        // The key depends on the spec: without this, a pod whose spec changes often would keep a key of each version.
        memory.crashes.gc(now);
        memory.crashes.next(&key, ended.finished_at, now);
        Ok(())
    }

    async fn configure(
        &self,
        prepared: &Prepared<'_>,
        sandbox: &LiveSandbox,
        seen: Option<&PodObservation>,
    ) -> Result<ContainerConfig, String> {
        let container = prepared.container;
        let target = self.target(prepared.start, seen)?;
        let envs = self.environment(container, &self.addresses(sandbox)).await?;
        let bound = self.bind_subpaths(container, &envs).await?;
        let (from_logs, hosts, termination) =
            tokio::try_join!(self.make_logs(container), self.write_hosts(sandbox), self.termination_file(container))?;
        // The highest, not the newest: they differ after the clock was set back, and a restart count that is in use would
        // collide.
        let started = seen.iter().flat_map(|s| s.instances(&container.name)).filter(|c| !is_unstarted(c));
        let last = started.map(|c| c.marks.restart_count).max();
        // If the runtime has no instance, the log files show how often the container ran (RT-41).
        let restart_count = last.or(from_logs).map_or(0, |n| n.saturating_add(1));
        let extra = ExtraOptions::default();
        let inputs = ContainerInputs {
            container,
            restart_count,
            hash: container_hash(container),
            image_ref: prepared.image_ref,
            image_user: prepared.image_user,
            envs: &envs,
            pod_ips: &sandbox.ips,
            volumes: self.volumes,
            subpaths: &bound,
            image_volumes: &BTreeMap::new(),
            block_devices: &BTreeMap::new(),
            hosts_file: hosts.as_deref(),
            termination_file: termination.as_deref(),
            target: target.as_ref(),
            extra: &extra,
            runtime_handler: &sandbox.config.runtime_handler,
            features: self.node.now().handler(&sandbox.config.runtime_handler),
            user_namespace: None,
            volume_groups: &[],
            exclusive_cpus: false,
        };
        container_config(&self.node.settings.launch, self.pod, &inputs).map_err(|err| err.to_string())
    }

    /// The container whose processes an ephemeral container sees (RT-42).
    fn target(&self, start: &StartContainer, seen: Option<&PodObservation>) -> Result<Option<ContainerId>, String> {
        if start.role != Role::Ephemeral {
            return Ok(None);
        }
        let name = self.pod.ephemeral().get(start.index).and_then(|e| e.target_container_name.as_deref());
        let Some(name) = name.filter(|n| !n.is_empty()) else { return Ok(None) };
        let running = seen.and_then(|s| s.newest(name)).filter(|c| c.state.is_running());
        let id = running.map(|c| c.id.clone());
        id.map(Some).ok_or_else(|| format!("unable to find target container {name}"))
    }

    async fn bind_subpaths(
        &self,
        container: &Container,
        envs: &[(String, String)],
    ) -> Result<BTreeMap<usize, PathBuf>, String> {
        let mut bound = BTreeMap::new();
        for wanted in subpaths(self.pod, container, envs).map_err(|err| err.to_string())? {
            let Some(volume_path) = self.volumes.get(&wanted.volume) else { continue };
            let request = SubpathRequest {
                uid: self.job.pod.uid.clone(),
                volume: wanted.volume.clone(),
                volume_path: volume_path.clone(),
                container: container.name.clone(),
                index: wanted.index,
                subpath: wanted.path.clone(),
            };
            let path = self.node.ports.subpaths.bind(&request).await;
            let path = path.map_err(|err| {
                format!(
                    "failed to prepare subPath for volumeMount \"{}\" of container \"{}\": {}",
                    wanted.volume,
                    container.name,
                    Chain(&err)
                )
            })?;
            bound.insert(wanted.index, path);
        }
        Ok(bound)
    }

    /// Makes the log directory. Returns the restart count that its log files show, if there are any.
    async fn make_logs(&self, container: &Container) -> Result<Option<u32>, String> {
        let made = self.node.ports.logs.make(&self.job.pod, &container.name).await;
        made.map_err(|err| Chain(&err).to_string())
    }

    async fn termination_file(&self, container: &Container) -> Result<Option<PathBuf>, String> {
        if container.termination_message_path.as_deref().unwrap_or_default().is_empty() {
            return Ok(None);
        }
        let name = format!("{:08x}", self.node.ports.rng.next() >> 32);
        let made = self.node.ports.dirs.make_termination_file(&self.job.pod.uid, &container.name, &name).await;
        made.map(Some).map_err(|err| Chain(&err).to_string())
    }

    async fn write_hosts(&self, sandbox: &LiveSandbox) -> Result<Option<PathBuf>, String> {
        let domain = &self.node.settings.launch.cluster_domain;
        let host_hosts =
            if self.pod.host_network() { self.node.ports.host_files.hosts().await } else { Ok(String::new()) };
        let host_hosts = host_hosts.map_err(|err| Chain(&err).to_string())?;
        let name = pod_hostname(self.pod, domain, self.node.settings.launch.gates.hostname_override);
        let name = name.map_err(|err| err.to_string())?;
        let text = hosts_file(self.pod, &name, &sandbox.ips, &host_hosts);
        let written = self.node.ports.dirs.write_hosts(&self.job.pod.uid, &text).await;
        written.map(Some).map_err(|err| Chain(&err).to_string())
    }

    async fn create(
        &self,
        container: &Container,
        sandbox: &LiveSandbox,
        config: &ContainerConfig,
    ) -> Result<ContainerId, NotStarted> {
        self.job.step(format!("container {} to be created", container.name)).await;
        let began = self.node.clock.mono();
        match self.node.ports.runtime.create_container(&sandbox.id, config, &sandbox.config).await {
            Ok(id) => {
                let took = self.node.clock.mono().since(began);
                self.job.happened(format!("Container {} created", container.name), Some(took)).await;
                self.event(container, "Created", "Container created").await;
                Ok(id)
            }
            Err(err) => Err(self.runtime_failed(container, WaitingReason::CreateContainerError, err).await),
        }
    }

    async fn run(&self, container: &Container, id: &ContainerId, attempt: u32) -> Result<(), NotStarted> {
        self.job.step(format!("container {} to be started", container.name)).await;
        let starting = self.job.starting().await;
        let began = self.node.clock.mono();
        if let Err(err) = self.node.ports.runtime.start_container(id).await {
            drop(starting);
            if err.kind == RpcErrorKind::AlreadyExists {
                // An earlier call has started the container, or is about to. That is no failure: the next look shows it.
                let failure = StartFailure { reason: WaitingReason::ContainerCreating, message: String::new() };
                return Err(NotStarted { failure, retry: Retry::Soon });
            }
            return Err(self.runtime_failed(container, WaitingReason::RunContainerError, err).await);
        }
        let took = self.node.clock.mono().since(began);
        self.event(container, "Started", "Container started").await;
        drop(starting);
        self.job.wait_if_ending().await;
        self.job.happened(format!("Container {} started", container.name), Some(took)).await;
        let log = LogId { pod: self.job.pod.clone(), container: container.name.clone(), restart_count: attempt };
        self.node.log_rotator.started(id, log).await;
        let linked = self.node.ports.logs.link(&self.job.pod, &container.name, id.as_str(), attempt).await;
        if let Err(err) = linked {
            tracing::warn!(container = %container.name, err = %Chain(&err), "Could not link the container's log");
        }
        Ok(())
    }

    /// Runs the postStart hook. Until it has ended, the container does not count as started (RT-50).
    async fn post_start(
        &self,
        container: &Container,
        id: &ContainerId,
        sandbox: &LiveSandbox,
    ) -> Result<(), NotStarted> {
        let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return Ok(()) };
        self.job.step(format!("the postStart hook of container {}", container.name)).await;
        let ip = self.address(sandbox);
        let hook = Hook { handler: hook, id, container: Cow::Borrowed(container), pod: Some(self.pod), ip };
        let Err(err) = hook.run(self.node).await else { return Ok(()) };
        tracing::warn!(container = %container.name, err = %Chain(&err), "The postStart hook failed");
        let path = self.field_path(container);
        self.job.emit(self.pod, path, EventKind::Warning, "FailedPostStartHook", "PostStartHook failed").await;
        let grace = grace_for(self.pod, container, KillReason::Unwanted, None).max(MIN_STOP_GRACE);
        if let Err(err) = self.node.ports.runtime.stop_container(id, grace).await {
            tracing::warn!(container = %container.name, %err, "Could not stop a container whose postStart hook failed");
        }
        let failure =
            StartFailure { reason: WaitingReason::PostStartHookError, message: "PostStartHook failed".to_owned() };
        Err(NotStarted { failure, retry: Retry::Later })
    }

    /// The address for an HTTP hook.
    fn address(&self, sandbox: &LiveSandbox) -> Option<IpAddr> {
        self.addresses(sandbox).first().copied()
    }

    /// The addresses of the pod; on the host network, those of the node.
    /// upstream: kubelet.go SyncPod, kubelet_pods.go generateAPIPodStatus (v1.36)
    fn addresses(&self, sandbox: &LiveSandbox) -> Vec<IpAddr> {
        if self.pod.host_network() { self.node.now().ips.to_vec() } else { sandbox.ips.clone() }
    }

    /// A failed call to the runtime. A call whose answer was lost may have succeeded, and then the next one finds the name
    /// taken: look again soon. The look finds the container by its labels.
    async fn runtime_failed(&self, container: &Container, reason: WaitingReason, err: RpcError) -> NotStarted {
        let retry = match err.kind {
            RpcErrorKind::AlreadyExists | RpcErrorKind::NotFound => Retry::Soon,
            RpcErrorKind::Unavailable
            | RpcErrorKind::Timeout
            | RpcErrorKind::Unimplemented
            | RpcErrorKind::Garbage
            | RpcErrorKind::Failed => retry_after(err.kind),
        };
        NotStarted { retry, ..self.failed(container, reason, err.detail).await }
    }

    async fn failed(&self, container: &Container, reason: WaitingReason, message: String) -> NotStarted {
        let message = cut(&message, MAX_MESSAGE_BYTES).to_owned();
        let path = self.field_path(container);
        self.job.emit(self.pod, path, EventKind::Warning, "Failed", format!("Error: {message}")).await;
        NotStarted { failure: StartFailure { reason, message }, retry: Retry::Later }
    }

    async fn event(&self, container: &Container, reason: &'static str, message: &str) {
        let path = self.field_path(container);
        let pod = Arc::clone(self.pod);
        let message = message.to_owned();
        let event =
            crate::ports::PodEvent { pod, field_path: path, kind: EventKind::Normal, reason: reason.into(), message };
        self.node.ports.events.record(event);
    }

    pub(super) fn field_path(&self, container: &Container) -> Option<String> {
        rubelet_core::pod::field_path(self.pod, &container.name)
    }
}

/// Created, but never started: it does not count as a run.
fn is_unstarted(container: &ContainerObservation) -> bool {
    container.state == ContainerState::Created
}

/// A container whose image is present and that is to be configured.
struct Prepared<'a> {
    start: &'a StartContainer,
    container: &'a Container,
    image_ref: &'a str,
    image_user: &'a ImageUser,
}
