//! The active deadline of a pod (PST-12).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

/// Reason of a pod that ran out of time, and of the event about it.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// Message of a pod that ran out of time.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// How long a pod that started at `start` may still be active; zero if it may not. `None` if it has no deadline or has
/// not started.
#[doc(alias = "pastActiveDeadline")]
pub fn deadline_left(pod: &Pod, start: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let allowed = pod.spec.as_ref().and_then(|s| s.active_deadline_seconds)?;
    let left = SignedDuration::from_secs(allowed).saturating_sub(now.duration_since(start?));
    Some(Duration::try_from(left).unwrap_or_default())
}
