//! Graceful node shutdown: which pods end when, and with how much grace (section 25).
//!
//! [`ShutdownPlan`] divides the time that the configuration grants among groups of pods, from the lowest priority to the
//! highest. [`Shutdown`] is the state machine of one shutdown:
//!
//! ```text
//!  Idle ──announced──► Listing ──pods──► Ending(group) ─┬─ all have ended, or the group's time is over ──► next group
//!   ▲                                                   └─ last group ──► Flushing ──► Done
//!   └─────────────────────────────────────── cancelled, from everywhere ──────────────────┘
//! ```
//!
//! The login manager can be asked whether a shutdown of its own is still on, but not about one that a process of root
//! announced. So a login manager that knows of no shutdown cancels its own at once, and the other only after it is done.
//!
//! It owns no pod and no timer: the driver feeds it events and carries out its commands.
//! upstream: nodeshutdown/nodeshutdown_manager.go (v1.36)

mod plan;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::id::{PodRef, PodUid};
use crate::time::Instant;

pub use plan::{PodGroup, ShutdownGroup, ShutdownPlan};
pub use times::ShutdownTimes;

/// The message of the node's condition `Ready` while the machine shuts down (NODE-20).
pub const NODE_SHUTTING_DOWN: &str = "node is shutting down";
/// The reason of a pod that is rejected because the machine shuts down (ADM-08).
pub const NODE_SHUTDOWN: &str = "NodeShutdown";
/// The message of such a rejection.
pub const NODE_SHUTDOWN_MESSAGE: &str = "Pod was rejected as the node is shutting down.";
/// How long the machine is kept up after the last group for the statuses of its pods to reach the API server. Upstream
/// does not wait for them. If logind's own limit is over before, the machine goes down all the same.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(5);

/// How far a shutdown of the machine has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ShutdownStage {
    /// None is announced.
    #[default]
    Idle,
    /// Announced; the list of active pods is on its way.
    Listing {
        /// When the shutdown goes on without the list.
        until: Instant,
    },
    /// One group ends.
    Ending {
        /// When the next group's turn comes.
        until: Instant,
        /// Pods of this group that have not ended.
        left: BTreeSet<PodUid>,
        /// The groups after this one, those with pods only.
        next: Vec<PodGroup>,
    },
    /// All groups had their time; the last statuses are being written.
    Flushing {
        /// When it goes on without them.
        until: Instant,
    },
    /// The machine may go down.
    Done,
}

/// Who announced a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcer {
    /// The login manager. It can be asked whether the shutdown is still on.
    #[default]
    LoginManager,
    /// Another process of root.
    Root,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum ShutdownEvent {
    /// The machine is about to go down.
    Announced(Announcer),
    /// The shutdown is off.
    Cancelled,
    /// The login manager was asked, and knows of no shutdown.
    Unknown,
    /// The pods that may run.
    Active(Vec<Arc<Pod>>),
    /// A pod has stopped and its volumes are unmounted.
    Ended(PodUid),
    /// Every status has been written.
    Flushed,
    /// [`Shutdown::next_deadline`] has come.
    Deadline,
}

/// What the driver has to do.
#[derive(Clone, Debug)]
pub enum ShutdownCommand {
    /// Publish that the machine shuts down: the node is not ready, and new pods are rejected.
    Begin,
    /// List the active pods.
    List,
    /// End a pod.
    End {
        /// The pod.
        pod: Arc<Pod>,
        /// How long its containers may take.
        grace: Duration,
    },
    /// Wait until all statuses have been written.
    Flush,
    /// Let the machine go down.
    Release,
    /// Publish that the machine stays up, delay the next shutdown, and run the static pods again.
    Resume,
}

/// The state machine. Only `step` changes it.
#[derive(Clone, Debug)]
pub struct Shutdown {
    plan: ShutdownPlan,
    stage: ShutdownStage,
    /// Who announced this shutdown. The login manager's announcement outweighs another.
    announcer: Announcer,
    /// The login manager knew of no shutdown when it was asked, after the announcement: it may have been cancelled unseen.
    doubted: bool,
}

impl Shutdown {
    /// No shutdown is announced.
    pub fn new(plan: ShutdownPlan) -> Self {
        Self { plan, stage: ShutdownStage::Idle, announcer: Announcer::default(), doubted: false }
    }

    /// How far it has come.
    pub fn stage(&self) -> &ShutdownStage {
        &self.stage
    }

    /// The machine is about to go down.
    pub fn is_on(&self) -> bool {
        self.stage != ShutdownStage::Idle
    }

    /// When [`ShutdownEvent::Deadline`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.stage {
            ShutdownStage::Listing { until }
            | ShutdownStage::Ending { until, .. }
            | ShutdownStage::Flushing { until } => Some(*until),
            ShutdownStage::Idle | ShutdownStage::Done => None,
        }
    }

    /// Handles one event and returns the commands that follow. An event that comes too late changes nothing.
    pub fn step(&mut self, event: ShutdownEvent, now: Instant) -> Vec<ShutdownCommand> {
        let overdue = self.next_deadline().is_some_and(|until| until <= now);
        match (event, &mut self.stage) {
            (ShutdownEvent::Announced(announcer), ShutdownStage::Idle) => {
                (self.announcer, self.doubted) = (announcer, false);
                self.stage = ShutdownStage::Listing { until: now + self.plan.period() };
                vec![ShutdownCommand::Begin, ShutdownCommand::List]
            }
            // A second announcement: the pods are ending already, or have ended.
            (ShutdownEvent::Announced(announcer), _) => {
                self.doubted = false;
                if announcer == Announcer::LoginManager {
                    self.announcer = announcer;
                }
                Vec::new()
            }
            (ShutdownEvent::Cancelled | ShutdownEvent::Unknown, ShutdownStage::Idle) => Vec::new(),
            (ShutdownEvent::Cancelled, _) => self.cancel(),
            (ShutdownEvent::Unknown, stage) => {
                if self.announcer == Announcer::LoginManager || *stage == ShutdownStage::Done {
                    return self.cancel();
                }
                self.doubted = true;
                Vec::new()
            }
            (ShutdownEvent::Active(pods), ShutdownStage::Listing { .. }) => {
                let groups = self.plan.groups(pods);
                self.turn(groups.into_iter().filter(|group| !group.pods.is_empty()).collect(), now)
            }
            (ShutdownEvent::Ended(uid), ShutdownStage::Ending { left, next, .. }) => {
                if left.remove(&uid) && left.is_empty() {
                    let next = std::mem::take(next);
                    return self.turn(next, now);
                }
                Vec::new()
            }
            (ShutdownEvent::Flushed, ShutdownStage::Flushing { .. }) => self.release(),
            (ShutdownEvent::Deadline, _) if overdue => self.overdue(now),
            (
                ShutdownEvent::Active(_) | ShutdownEvent::Ended(_) | ShutdownEvent::Flushed | ShutdownEvent::Deadline,
                _,
            ) => Vec::new(),
        }
    }

    /// The time of this stage is over.
    fn overdue(&mut self, now: Instant) -> Vec<ShutdownCommand> {
        match &mut self.stage {
            ShutdownStage::Listing { .. } => self.turn(Vec::new(), now),
            ShutdownStage::Ending { next, .. } => {
                let next = std::mem::take(next);
                self.turn(next, now)
            }
            ShutdownStage::Flushing { .. } => self.release(),
            ShutdownStage::Idle | ShutdownStage::Done => Vec::new(),
        }
    }

    /// The first of these groups ends; without one the shutdown is nearly done.
    fn turn(&mut self, mut groups: Vec<PodGroup>, now: Instant) -> Vec<ShutdownCommand> {
        if groups.is_empty() {
            self.stage = ShutdownStage::Flushing { until: now + STATUS_PATIENCE };
            return vec![ShutdownCommand::Flush];
        }
        let PodGroup { group, pods } = groups.remove(0);
        let left = pods.iter().map(|(pod, _)| PodRef::of(pod).uid).collect();
        self.stage = ShutdownStage::Ending { until: now + group.grace, left, next: groups };
        pods.into_iter().map(|(pod, grace)| ShutdownCommand::End { pod, grace }).collect()
    }

    /// A shutdown that may have been cancelled unseen ends here: nobody else would end it.
    fn release(&mut self) -> Vec<ShutdownCommand> {
        self.stage = ShutdownStage::Done;
        let mut commands = vec![ShutdownCommand::Release];
        if self.doubted {
            commands.extend(self.cancel());
        }
        commands
    }

    fn cancel(&mut self) -> Vec<ShutdownCommand> {
        self.stage = ShutdownStage::Idle;
        vec![ShutdownCommand::Resume]
    }
}
