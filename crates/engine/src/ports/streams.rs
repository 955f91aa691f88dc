//! Sessions with containers: commands with their streams, attaching, forwarded ports.

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, SandboxId};

use super::RpcError;

/// Sessions with containers.
#[async_trait]
#[doc(alias = "StreamingRuntime")]
pub trait Streams: Send + Sync {
    /// A command in a container.
    #[doc(alias = "GetExec")]
    async fn exec(&self, id: &ContainerId, command: &[String], wanted: StdStreams) -> Result<Session, RpcError>;
    /// The first process of a container. `wanted.tty` must be as the container was made.
    #[doc(alias = "GetAttach")]
    async fn attach(&self, id: &ContainerId, wanted: StdStreams) -> Result<Session, RpcError>;
    /// Ports of a pod. Over SPDY the ports come with the session, and `ports` is empty.
    #[doc(alias = "GetPortForward")]
    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<Session, RpcError>;
}

/// A session that the runtime has prepared. A runtime that serves sessions in another way adds a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// At a streaming server of the runtime, good for one connection that begins soon.
    Url(String),
}

/// The streams of a session. At least one of the three is wanted; with a terminal, `stderr` is not one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StdStreams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}
