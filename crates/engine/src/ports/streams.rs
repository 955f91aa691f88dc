//! Sessions with containers: commands with their streams, attaching, forwarded ports.

use async_trait::async_trait;
use rubelet_core::id::{ContainerId, SandboxId};

use super::RpcError;

/// Sessions that the runtime serves itself. Each answer is the address of a streaming server, good for one session that
/// begins soon; whoever asked for it connects there.
#[async_trait]
#[doc(alias = "StreamingRuntime")]
pub trait Streams: Send + Sync {
    /// A command in a container.
    #[doc(alias = "GetExec")]
    async fn exec(&self, id: &ContainerId, command: &[String], wanted: StdStreams) -> Result<String, RpcError>;
    /// The first process of a container. `wanted.tty` must be as the container was made.
    #[doc(alias = "GetAttach")]
    async fn attach(&self, id: &ContainerId, wanted: StdStreams) -> Result<String, RpcError>;
    /// Ports of a pod. Over SPDY the ports come with the session, and `ports` is empty.
    #[doc(alias = "GetPortForward")]
    async fn port_forward(&self, id: &SandboxId, ports: &[u16]) -> Result<String, RpcError>;
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
