//! Lifecycle hooks: a command in the container, a pause, a request (section 14).

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use rubelet_core::id::ContainerId;

use crate::node::Node;
use crate::ports::RpcError;

/// A hook that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The command could not be run.
    #[error("run the hook's command")]
    Exec(#[source] RpcError),
    /// The command failed.
    #[error("the hook's command exited with {code}")]
    Exit {
        /// Its exit code.
        code: i32,
    },
    /// Nothing here can run it.
    #[error("cannot run handler: {0} hooks are not supported")]
    Unsupported(&'static str),
}

/// Runs a hook to its end. Who calls it bounds it.
pub(crate) async fn run(node: &Node, id: &ContainerId, hook: &LifecycleHandler) -> Result<(), HookError> {
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let output = node.ports.runtime.exec_sync(id, &command, Duration::ZERO).await.map_err(HookError::Exec)?;
        return if output.exit_code == 0 { Ok(()) } else { Err(HookError::Exit { code: output.exit_code }) };
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
        return Ok(());
    }
    Err(HookError::Unsupported(if hook.http_get.is_some() { "httpGet" } else { "tcpSocket" }))
}
