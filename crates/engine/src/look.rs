//! A look at one pod: asks the runtime for its sandboxes and containers, and adds the termination messages (RT-110).

use std::time::Duration;

use rubelet_core::id::PodRef;
use rubelet_core::observe::{ContainerObservation, ContainerState, PodObservation};

use rubelet_core::status::{
    MAX_LOG_BYTES, MAX_LOG_LINES, MAX_MESSAGE_BYTES, complete_message as with_own_message, wants_log_tail,
};
use tracing::debug;

use crate::node::Node;
use crate::ports::{RpcError, RpcErrorKind};

/// The deadline of a look. The time-out of a call to the runtime is minutes, and the pod's job would wait that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks at `pod`. `before` is the last observation: termination messages in it are not read again.
#[doc(alias = "podCache")]
#[doc(alias = "GetNewerThan")]
#[doc(alias = "GetPodStatus")]
pub(crate) async fn look(
    node: &Node,
    pod: &PodRef,
    before: Option<&PodObservation>,
) -> Result<PodObservation, RpcError> {
    let began = node.clock.mono();
    let inspected = tokio::time::timeout(PATIENCE, node.ports.runtime.inspect(&pod.uid, began)).await;
    node.metrics.pleg.looked(node.clock.mono().since(began));
    let mut seen = inspected.unwrap_or_else(|_| {
        let detail = format!("the runtime did not answer within {} s", PATIENCE.as_secs());
        Err(RpcError { operation: "inspect_pod", kind: RpcErrorKind::Timeout, detail })
    })?;
    seen.pod = pod.clone();
    for container in &mut seen.containers {
        if !matches!(container.state, ContainerState::Exited(_)) {
            continue;
        }
        let known = before.and_then(|b| b.containers.iter().find(|c| c.id == container.id && c.state.exit().is_some()));
        match known {
            Some(known) => container.state = known.state.clone(),
            None => complete_message(node, pod, container).await,
        }
    }
    Ok(seen)
}

/// Appends the container's termination message, or the end of its log, to the runtime's message.
async fn complete_message(node: &Node, pod: &PodRef, container: &mut ContainerObservation) {
    let marks = &container.marks;
    let left = match &marks.termination_message_host_path {
        Some(path) => node.ports.dirs.read_termination_file(&pod.uid, path, MAX_MESSAGE_BYTES).await,
        None => Ok(Vec::new()),
    };
    let left = left.unwrap_or_else(|err| {
        debug!(%err, container = %container.name, "Could not read the termination message");
        Vec::new()
    });
    let policy = marks.termination_message_policy.clone();
    let log_path = container.log_path.clone();
    let ContainerState::Exited(exit) = &mut container.state else { return };
    let mut message = String::from_utf8_lossy(&left).into_owned();
    if wants_log_tail(&policy, exit.code, &exit.reason, message.is_empty()) {
        let tail = node.ports.logs.tail(&log_path, MAX_LOG_LINES, MAX_LOG_BYTES).await.unwrap_or_default();
        message = String::from_utf8_lossy(&tail).into_owned();
    }
    exit.message = with_own_message(&exit.message, &message);
}
