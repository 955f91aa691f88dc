//! The container runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, HandlerFeatures, LinuxResources, SandboxConfig};
use rubelet_core::observe::{Hint, PodObservation, PodSummary};
use rubelet_core::time::Instant;

use super::{ContainerCheckpoints, Streams};

pub use rubelet_core::qos::CgroupDriver;

/// A call to the runtime that did not succeed.
///
/// The detail is for people only (it becomes part of a container's status); decisions are made on `kind`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{operation}: {detail}")]
pub struct RpcError {
    /// Name of the call as upstream's metrics spell it, such as `run_podsandbox`.
    pub operation: &'static str,
    /// What kind of failure it is.
    pub kind: RpcErrorKind,
    /// What the runtime said, with its wrapping removed.
    pub detail: String,
}

/// What kind of failure a call met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcErrorKind {
    /// The runtime cannot be reached: not there, or gone in the middle of the call, whose effect is then unknown.
    Unavailable,
    /// The deadline passed; the call may still take effect.
    Timeout,
    /// The object is not there.
    NotFound,
    /// The name is taken, or the container is started: an earlier call whose answer was lost may have succeeded, or may
    /// still be at work.
    AlreadyExists,
    /// The runtime does not know this call.
    Unimplemented,
    /// The answer could not be understood.
    Garbage,
    /// The runtime tried and failed, or refused.
    Failed,
}

/// Version, readiness and configuration of the runtime.
#[async_trait]
pub trait RuntimeInfo: Send + Sync {
    /// Name and version; fails unless it speaks CRI v1.
    async fn version(&self) -> Result<RuntimeVersion, RpcError>;
    /// Whether it and its network are ready.
    async fn status(&self) -> Result<RuntimeStatus, RpcError>;
    /// The cgroup driver that it wants; `None` if it does not report one (BOOT-05).
    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RpcError>;
    /// The image of sandboxes, if the runtime names it. It must not be collected, pinned or not.
    async fn sandbox_image(&self) -> Result<Option<String>, RpcError> {
        Ok(None)
    }
    /// Sets the pod CIDRs of this node (NODE-16). A runtime that has no use for them succeeds.
    #[doc(alias = "UpdateRuntimeConfig")]
    async fn set_pod_cidr(&self, _cidr: &str) -> Result<(), RpcError> {
        Ok(())
    }
}

/// Lists and looks. Their answers are the truth; an event of the runtime is only a reason to look.
#[async_trait]
pub trait RuntimeView: Send + Sync {
    /// Every pod that has a sandbox or container, in any state, labelled as ours (RT-70).
    async fn list(&self) -> Result<Vec<PodSummary>, RpcError>;
    /// A full look at one pod; `at` is when it began. A pod that the runtime does not know is an empty observation.
    async fn inspect(&self, uid: &PodUid, at: Instant) -> Result<PodObservation, RpcError>;
    /// A stream of hints, or `Unimplemented`. It ends when the connection does.
    async fn hints(&self) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError>;
}

/// Pod sandboxes.
#[async_trait]
pub trait Sandboxes: Send + Sync {
    /// Makes and starts a sandbox.
    #[doc(alias = "RunPodSandbox")]
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RpcError>;
    /// Stops it and all in it. Stopping what is stopped or gone succeeds (CRI-05).
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RpcError>;
    /// Removes it and all in it. Removing what is gone succeeds.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RpcError>;
}

/// Containers.
#[async_trait]
pub trait Containers: Send + Sync {
    /// Makes a container in a sandbox; it does not run yet.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RpcError>;
    /// Starts it.
    async fn start_container(&self, id: &ContainerId) -> Result<(), RpcError>;
    /// Asks it to stop and kills it when `grace` is over. Stopping what is stopped or gone succeeds (CRI-05).
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RpcError>;
    /// Removes it. Removing what is gone succeeds.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), RpcError>;
    /// Runs a command in it and waits for its end; `timeout` zero waits for ever.
    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Result<ExecOutput, RpcError>;
    /// Makes the runtime open its log file anew.
    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RpcError>;
}

/// Changing what runs.
#[async_trait]
pub trait Resizes: Send + Sync {
    /// Sets a running container's resources.
    #[doc(alias = "UpdateContainerResources")]
    async fn resize_container(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RpcError>;
    /// Sets the resources of the whole pod; `Unimplemented` if the runtime does not use them.
    #[doc(alias = "UpdatePodSandboxResources")]
    async fn resize_sandbox(&self, id: &SandboxId, resources: &LinuxResources) -> Result<(), RpcError>;
}

/// All of the runtime but its images.
pub trait Runtime:
    RuntimeInfo + RuntimeView + Sandboxes + Containers + Resizes + Streams + ContainerCheckpoints
{
}

impl<T: RuntimeInfo + RuntimeView + Sandboxes + Containers + Resizes + Streams + ContainerCheckpoints> Runtime for T {}

/// Who answers on the runtime's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Such as `containerd`; the scheme of container ids in the API.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its CRI version, such as `v1`.
    pub api_version: String,
}

/// How the runtime fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// `RuntimeReady`.
    pub runtime: ReadyCondition,
    /// `NetworkReady`.
    pub network: ReadyCondition,
    /// What each handler that it offers can do, by name; the empty name is the default one.
    pub handlers: BTreeMap<String, HandlerFeatures>,
    /// It can set the supplementary groups of a container strictly.
    pub supplemental_groups_policy: bool,
}

/// A condition that the runtime reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether it holds.
    pub ready: bool,
    /// The runtime's word for why not.
    pub reason: String,
    /// The runtime's sentence for why not.
    pub message: String,
}

/// What a command printed and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Exit code.
    pub exit_code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}
