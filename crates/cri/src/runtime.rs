//! The ports of the runtime: `RuntimeInfo`, `RuntimeView`, `Sandboxes`, `Containers`, `Resizes`, `Streams`,
//! `ContainerCheckpoints`.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, LinuxResources, SandboxConfig};
use rubelet_core::observe::{Hint, PodObservation, PodSummary};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{
    CgroupDriver, ContainerCheckpoints, Containers, ExecOutput, Resizes, RpcError, RuntimeInfo, RuntimeStatus,
    RuntimeVersion, RuntimeView, Sandboxes, Session, StdStreams, Streams,
};

use crate::connection::Connection;
use crate::version::VersionCache;
use crate::{
    cgroup_driver, container_checkpoint, container_create, container_remove, container_resize, container_start,
    container_stop, exec_sync, hints, inspect, list, log_reopen, runtime_config_update, sandbox_image, sandbox_remove,
    sandbox_resize, sandbox_run, sandbox_stop, status, streams,
};

/// A CRI runtime.
#[doc(alias = "remoteRuntimeService")]
pub struct CriRuntime {
    connection: Connection,
    version: VersionCache,
}

impl CriRuntime {
    /// The runtime behind `connection`. No call is made yet.
    pub fn new(connection: Connection) -> Self {
        Self { connection, version: VersionCache::default() }
    }
}

#[async_trait]
impl RuntimeInfo for CriRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RpcError> {
        self.version.get(&self.connection).await
    }

    async fn status(&self) -> Result<RuntimeStatus, RpcError> {
        status::status(&self.connection).await
    }

    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RpcError> {
        cgroup_driver::cgroup_driver(&self.connection).await
    }

    async fn sandbox_image(&self) -> Result<Option<String>, RpcError> {
        sandbox_image::sandbox_image(&self.connection).await
    }

    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RpcError> {
        runtime_config_update::set_pod_cidr(&self.connection, cidr).await
    }
}

#[async_trait]
impl RuntimeView for CriRuntime {
    async fn list(&self) -> Result<Vec<PodSummary>, RpcError> {
        list::list(&self.connection).await
    }

    async fn inspect(&self, uid: &PodUid, at: Instant) -> Result<PodObservation, RpcError> {
        inspect::inspect(&self.connection, uid, at).await
    }

    async fn hints(&self) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError> {
        hints::hints(&self.connection).await
    }
}

#[async_trait]
impl Sandboxes for CriRuntime {
    async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RpcError> {
        sandbox_run::run_sandbox(&self.connection, config).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RpcError> {
        sandbox_stop::stop_sandbox(&self.connection, id).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RpcError> {
        sandbox_remove::remove_sandbox(&self.connection, id).await
    }
}

#[async_trait]
impl Containers for CriRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RpcError> {
        container_create::create_container(&self.connection, sandbox, config, sandbox_config).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RpcError> {
        container_start::start_container(&self.connection, id).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RpcError> {
        container_stop::stop_container(&self.connection, id, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RpcError> {
        container_remove::remove_container(&self.connection, id).await
    }

    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Result<ExecOutput, RpcError> {
        exec_sync::exec_sync(&self.connection, id, command, timeout).await
    }

    async fn reopen_log(&self, id: &ContainerId) -> Result<(), RpcError> {
        log_reopen::reopen_log(&self.connection, id).await
    }
}

#[async_trait]
impl Resizes for CriRuntime {
    async fn resize_container(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RpcError> {
        container_resize::resize_container(&self.connection, id, resources).await
    }

    async fn resize_sandbox(&self, id: &SandboxId, resources: &LinuxResources) -> Result<(), RpcError> {
        sandbox_resize::resize_sandbox(&self.connection, id, resources).await
    }
}

#[async_trait]
impl Streams for CriRuntime {
    async fn exec(&self, id: &ContainerId, command: &[String], wanted: StdStreams) -> Result<Session, RpcError> {
        streams::exec(&self.connection, id, command, wanted).await
    }

    async fn attach(&self, id: &ContainerId, wanted: StdStreams) -> Result<Session, RpcError> {
        streams::attach(&self.connection, id, wanted).await
    }

    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<Session, RpcError> {
        streams::port_forward(&self.connection, id, ports).await
    }
}

#[async_trait]
impl ContainerCheckpoints for CriRuntime {
    async fn checkpoint(&self, id: &ContainerId, location: &Path, timeout: Duration) -> Result<(), RpcError> {
        container_checkpoint::checkpoint_container(&self.connection, id, location, timeout).await
    }
}
