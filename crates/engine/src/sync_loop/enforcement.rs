//! Node allocatable stays enforced: when the node's own cgroups are looked at, and which events and log lines a look
//! leads to (CG-22, CG-24).

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::node::{ENFORCED, NOT_ENFORCED, NodeCgroups, PODS_ENFORCED, pods_not_enforced};
use rubelet_core::qos::CgroupPath;
use rubelet_core::time::Instant;
use tracing::{info, warn};

use crate::node_cgroups::NodeLook;
use crate::ports::{CgroupState, EventKind, NodeEvent};

/// The least time between two looks. Less than the period of surveys, so that each survey of an idle node comes with a
/// look; upstream looks each minute.
const PAUSE: Duration = Duration::from_secs(50);

/// The state of the cgroups of the node, as of the last look.
pub(super) struct Enforcement {
    due: Instant,
    looking: bool,
    /// Cgroups that had their limits at the last look: their event was emitted.
    enforced: BTreeMap<Target, bool>,
    /// The last problem with processes.
    problems: Vec<String>,
}

/// A cgroup with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Pods,
    Reserved(usize),
}

impl Enforcement {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now, looking: false, enforced: BTreeMap::new(), problems: Vec::new() }
    }

    /// Whether to look now. If so, the look counts as begun.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let begin = !self.looking && self.due <= now;
        if begin {
            self.looking = true;
            self.due = now + PAUSE;
        }
        begin
    }

    /// The task of the look was lost.
    pub(super) fn lost(&mut self) {
        self.looking = false;
    }

    /// Returns the events of a look. One event for each cgroup that got its limits for the first time, or after a
    /// failure; for the cgroup of all pods one after each failure, as upstream.
    pub(super) fn looked(&mut self, look: &NodeLook, root: &CgroupPath, wanted: &NodeCgroups) -> Vec<NodeEvent> {
        self.looking = false;
        let mut events = Vec::new();
        if let Some(pods) = &look.pods {
            let failed = |err: &String| pods_not_enforced(root, err);
            let before = self.enforced.insert(Target::Pods, pods.is_ok());
            match pods {
                Ok(state) => {
                    report_repair(state, &root.cgroupfs(), before);
                    events.extend((before != Some(true)).then(|| normal(PODS_ENFORCED.to_owned())));
                }
                Err(err) => events.push(warning(failed(err))),
            }
        }
        for (at, (result, reserved)) in look.reserved.iter().zip(&wanted.reserved).enumerate() {
            let before = self.enforced.insert(Target::Reserved(at), result.is_ok());
            match result {
                Ok(state) => {
                    report_repair(state, &reserved.name, before);
                    events.extend((before != Some(true)).then(|| normal(reserved.enforced())));
                }
                Err(err) => events.extend((before != Some(false)).then(|| warning(reserved.not_enforced(err)))),
            }
        }
        if look.moved > 0 {
            info!(processes = look.moved, cgroup = wanted.system, "Moved processes out of the root cgroup");
        }
        if self.problems != look.processes {
            for problem in &look.processes {
                warn!(%problem, "Processes are not in their cgroup; it is tried again each minute");
            }
            self.problems.clone_from(&look.processes);
        }
        events
    }
}

/// Logs what somebody changed. At the first look of a process, values may be those of an older configuration.
fn report_repair(state: &CgroupState, cgroup: &str, before: Option<bool>) {
    match state {
        CgroupState::Differs(values) if before == Some(true) => {
            warn!(cgroup, changed = values.join("; "), "Somebody changed the limits of a cgroup: they are set again");
        }
        CgroupState::Missing(places) if before == Some(true) => {
            warn!(cgroup, missing = places.join(", "), "Somebody removed a cgroup: it is made again");
        }
        CgroupState::AsWanted | CgroupState::Differs(_) | CgroupState::Missing(_) => {}
    }
}

fn normal(message: String) -> NodeEvent {
    NodeEvent { kind: EventKind::Normal, reason: ENFORCED.into(), message }
}

fn warning(message: String) -> NodeEvent {
    warn!("{message}");
    NodeEvent { kind: EventKind::Warning, reason: NOT_ENFORCED.into(), message }
}
