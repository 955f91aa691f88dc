//! The node's conditions (24.3). `Ready` is always the last of the kubelet's.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::aggregate;
use super::view::{NodeNews, NodeObservation};

const TRUE: &str = "True";
const FALSE: &str = "False";

/// A condition that is false when all is well.
struct Words {
    kind: &'static str,
    /// Reason, message, event while it holds.
    bad: [&'static str; 3],
    /// The same while it does not.
    good: [&'static str; 3],
}

const MEMORY: Words = Words {
    kind: "MemoryPressure",
    bad: ["KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"],
    good: ["KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"],
};
const DISK: Words = Words {
    kind: "DiskPressure",
    bad: ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"],
    good: ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"],
};
const PID: Words = Words {
    kind: "PIDPressure",
    bad: ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"],
    good: ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"],
};

/// Updates the four conditions of the kubelet and leaves all others alone; `missing` are resources whose capacity is unknown.
pub(super) fn set_conditions(
    conditions: &mut Vec<NodeCondition>,
    seen: &NodeObservation<'_>,
    missing: &[&str],
) -> Vec<NodeNews> {
    let name = &seen.setup.name;
    let now = seconds(seen.now);
    let mut news = Vec::new();
    let pressure = seen.pressure;
    for (words, holds) in [
        (&MEMORY, pressure.map(|now| now.memory)),
        (&DISK, pressure.map(|now| now.disk)),
        (&PID, pressure.map(|now| now.pid)),
    ] {
        if let Some(event) = set_pressure(conditions, words, holds, now) {
            news.push(NodeNews::is_now(name, event));
        }
    }
    if let Some(event) = set_ready(conditions, seen, missing, now) {
        news.push(NodeNews::is_now(name, event));
    }
    news
}

/// Reason and message change only with the status, as upstream.
/// upstream: nodestatus/setters.go MemoryPressureCondition and its like (v1.36)
fn set_pressure(
    conditions: &mut Vec<NodeCondition>,
    words: &Words,
    holds: Option<bool>,
    now: Timestamp,
) -> Option<&'static str> {
    let at = place(conditions, words.kind);
    let condition = conditions.get_mut(at)?;
    // Before the first measurement, what was reported before a restart counts.
    let holds = holds.unwrap_or(condition.status == TRUE);
    let (status, [reason, message, event]) = if holds { (TRUE, words.bad) } else { (FALSE, words.good) };
    condition.last_heartbeat_time = Some(Time(now));
    if condition.status == status {
        return None;
    }
    condition.status = status.to_owned();
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
    condition.last_transition_time = Some(Time(now));
    Some(event)
}

/// upstream: nodestatus/setters.go ReadyCondition (v1.36). One difference: a node that is ready in its first
/// report gets `NodeReady` too; upstream's is never ready that early.
fn set_ready(
    conditions: &mut Vec<NodeCondition>,
    seen: &NodeObservation<'_>,
    missing: &[&str],
    now: Timestamp,
) -> Option<&'static str> {
    let problem = aggregate(&seen.health.problems(missing));
    let ready = problem.is_none();
    let (status, reason) = if ready { (TRUE, "KubeletReady") } else { (FALSE, "KubeletNotReady") };
    let mut message = problem.unwrap_or_else(|| "kubelet is posting ready status".to_owned());
    if let Some(warning) = &seen.health.warning {
        message = format!("{message}. WARNING: {warning}");
    }
    let at = place(conditions, "Ready");
    let condition = conditions.get_mut(at)?;
    let is_new = condition.last_transition_time.is_none();
    let turned = condition.status != status;
    if turned {
        condition.last_transition_time = Some(Time(now));
    }
    condition.status = status.to_owned();
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message);
    condition.last_heartbeat_time = Some(Time(now));
    match (turned, ready) {
        (true, true) => Some("NodeReady"),
        (true, false) if !is_new => Some("NodeNotReady"),
        (true | false, _) => None,
    }
}

/// Where the condition is; a new one is put at the end, its status unknown.
fn place(conditions: &mut Vec<NodeCondition>, kind: &str) -> usize {
    if let Some(at) = conditions.iter().position(|condition| condition.type_ == kind) {
        return at;
    }
    conditions.push(NodeCondition { type_: kind.to_owned(), status: "Unknown".to_owned(), ..NodeCondition::default() });
    conditions.len() - 1
}

/// The API keeps whole seconds: a finer time would differ from its answer.
pub(super) fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
