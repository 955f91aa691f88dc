//! Events of memory that ran out on the machine (OOM-01).

use std::sync::Arc;

use rubelet_core::oom::OomParser;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::ports::{EventKind, Events, KernelLog, NodeEvent};

/// Follows the kernel's log and emits an event for each process that was killed because the machine had no memory left. That
/// a container reached its limit is reported by the runtime, in the container's status.
///
/// A log that cannot be read any more ends the events, not the agent.
#[doc(alias = "oomwatcher")]
pub(crate) async fn watch(mut log: Box<dyn KernelLog>, events: Arc<dyn Events>, cancel: CancellationToken) {
    let mut parser = OomParser::default();
    while let Some(line) = cancel.run_until_cancelled(log.next()).await {
        let Some(line) = line else {
            debug!("The kernel's log cannot be read any more: no SystemOOM events");
            cancel.cancelled().await;
            return;
        };
        let Some(kill) = parser.line(&line) else { continue };
        if let Some(cgroup) = &kill.cgroup {
            info!(process = kill.process, pid = kill.pid, cgroup, "The kernel killed a process at its memory limit");
            continue;
        }
        let message = kill.message();
        warn!(message, "The machine ran out of memory");
        events.record_node(NodeEvent { kind: EventKind::Warning, reason: "SystemOOM".into(), message });
    }
}
