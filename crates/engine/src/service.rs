//! Tells the service manager how many pods run and wait, in one line that `systemctl status` shows.
//!
//! The line is sent when it has changed and not more often than `PACE`. On a node where nothing happens nothing is sent
//! and nobody wakes.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::metrics::Census;
use crate::ports::{ServiceManager, ServiceMessage};
use crate::sync_loop::SyncLoopHandle;

/// The shortest time between two lines.
const PACE: Duration = Duration::from_secs(2);

/// Keeps the line true until cancelled.
pub async fn keep_status(sync_loop: SyncLoopHandle, manager: Arc<dyn ServiceManager>, cancel: CancellationToken) {
    let _cancelled = cancel.run_until_cancelled(keep(&sync_loop, &*manager)).await;
    // The task ends with the others and not before: without a service manager it has nothing to do.
    cancel.cancelled().await;
}

async fn keep(sync_loop: &SyncLoopHandle, manager: &dyn ServiceManager) {
    let mut beats = sync_loop.beats();
    let mut sent = String::new();
    while let Some(census) = sync_loop.census().await {
        // The question itself was an event of the loop. What happened right after it shows at the next event: a pod is
        // looked at again within a minute or so.
        beats.mark_unchanged();
        let line = status_line(&census);
        if line != sent {
            // A message that is lost is sent again with the next change: nobody needs it to be complete.
            manager.notify(&ServiceMessage::Status(&line));
            sent = line;
        }
        tokio::time::sleep(PACE).await;
        if beats.changed().await.is_err() {
            return;
        }
    }
}

/// The pods in one line.
fn status_line(census: &Census) -> String {
    let count = |number: u64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut parts = vec![count(census.running, "pod runs", "pods run"), count(census.waiting, "waits", "wait")];
    let ending: u64 = census
        .working
        .get(1)
        .map(|of| of.desired.fixed + of.desired.other + of.orphan.fixed + of.orphan.other + of.runtime_only)
        .unwrap_or_default();
    if ending > 0 {
        parts.push(count(ending, "ends", "end"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Split, Working};

    #[test]
    fn the_line_counts_pods_that_run_wait_and_end() {
        let census = |running, waiting, ending| {
            let desired = Split { fixed: 0, other: ending };
            let working = [Working::default(), Working { desired, ..Working::default() }, Working::default()];
            status_line(&Census { running, waiting, working, ..Census::default() })
        };
        assert_eq!(census(0, 0, 0), "0 pods run, 0 wait");
        assert_eq!(census(1, 1, 0), "1 pod runs, 1 waits");
        assert_eq!(census(12, 3, 1), "12 pods run, 3 wait, 1 ends");
        assert_eq!(census(2, 0, 4), "2 pods run, 0 wait, 4 end");
    }
}
