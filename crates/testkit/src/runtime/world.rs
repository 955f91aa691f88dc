//! The state of the fake world. Nothing here waits: time is an argument, and due effects happen on each access.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rubelet_core::id::{ContainerId, PodUid, SandboxId};
use rubelet_core::launch::{ContainerConfig, HandlerFeatures, SandboxConfig};
use rubelet_core::observe::{Exit, Hint, SandboxState};
use rubelet_engine::ports::{ExecOutput, ReadyCondition, RpcError, RpcErrorKind};

use super::behaviour::Behaviour;
use super::images::ImageStore;
use crate::clock::TestClock;
use crate::files::FakePodLogs;

/// Time since the start of the test's clock.
pub(super) type At = Duration;

pub(super) struct World {
    pub(super) clock: TestClock,
    pub(super) pods: BTreeMap<PodUid, FakePod>,
    pub(super) sandbox_pod: BTreeMap<SandboxId, PodUid>,
    pub(super) container_pod: BTreeMap<ContainerId, PodUid>,
    /// When containers end; an entry of a container that ended otherwise is stale and skipped.
    pub(super) ends: BTreeSet<(At, ContainerId)>,
    late: BTreeMap<(At, u64), LateEffect>,
    /// Names reserved by calls in flight.
    pub(super) reserved: BTreeSet<String>,
    pub(super) made: u64,
    pub(super) images: ImageStore,
    pub(super) scripts: BTreeMap<String, Vec<Behaviour>>,
    pub(super) exec_scripts: BTreeMap<String, (Duration, ExecOutput)>,
    pub(super) sandbox_errors: BTreeMap<String, String>,
    /// By operation: how many calls to let pass, and how many to refuse after that.
    pub(super) refusals: BTreeMap<&'static str, (u32, u32)>,
    pub(super) network: ReadyCondition,
    /// What its handlers can do, by name.
    pub(super) handlers: BTreeMap<String, HandlerFeatures>,
    pub(super) hung: BTreeSet<PodUid>,
    pub(super) silent: bool,
    pub(super) down_until: Option<At>,
    pub(super) log: Vec<Call>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) violations: Vec<String>,
    /// Where containers write their logs.
    pub(super) logs: Option<FakePodLogs>,
    /// How many more calls do not find a sandbox or container that exists.
    pub(super) forgetful: u32,
    /// Hints that are not sent yet.
    pub(super) hints: Vec<Hint>,
    /// Something changed for which a call may be waiting.
    pub(super) dirty: bool,
}

/// The effect of a late call, after its caller has timed out.
pub(super) struct LateEffect {
    pub(super) reserved: Option<String>,
    pub(super) effect: Effect,
}

/// The effect of a call, kept for later.
pub(super) type Effect = Box<dyn FnOnce(&mut World, At) + Send>;

/// A mutating call, failed ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time of its effect, on the test's clock.
    pub at: Duration,
    /// Time of the call: a start may take a while.
    pub asked: Duration,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: PodUid,
    /// The effect, such as `stop app grace=30s`.
    pub line: String,
}

#[derive(Default)]
pub(super) struct FakePod {
    pub(super) sandboxes: BTreeMap<SandboxId, FakeSandbox>,
    pub(super) containers: BTreeMap<ContainerId, FakeContainer>,
}

pub(super) struct FakeSandbox {
    pub(super) seq: u64,
    pub(super) config: SandboxConfig,
    pub(super) state: SandboxState,
    pub(super) created_at: Timestamp,
    pub(super) ips: Vec<IpAddr>,
    /// It was stopped by a call, which releases its network: a sandbox that exited by itself has not released it.
    pub(super) torn_down: bool,
}

pub(super) struct FakeContainer {
    pub(super) seq: u64,
    pub(super) sandbox: SandboxId,
    pub(super) config: ContainerConfig,
    pub(super) image_id: String,
    pub(super) log_path: String,
    pub(super) created_at: Timestamp,
    pub(super) behaviour: Behaviour,
    pub(super) life: Life,
}

/// The stage of a fake container.
pub(super) enum Life {
    Created,
    Running { started: At, ends: Option<End> },
    Exited(Exit),
}

/// The scheduled end of a running container.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) at: At,
    pub(super) code: i32,
}

impl World {
    pub(super) fn new(clock: TestClock) -> Self {
        Self {
            clock,
            pods: BTreeMap::new(),
            sandbox_pod: BTreeMap::new(),
            container_pod: BTreeMap::new(),
            ends: BTreeSet::new(),
            late: BTreeMap::new(),
            reserved: BTreeSet::new(),
            made: 0,
            images: ImageStore::default(),
            scripts: BTreeMap::new(),
            exec_scripts: BTreeMap::new(),
            sandbox_errors: BTreeMap::new(),
            refusals: BTreeMap::new(),
            network: ReadyCondition { ready: true, ..ReadyCondition::default() },
            handlers: ["", "sandboxed"].map(|name| (name.to_owned(), HandlerFeatures::default())).into(),
            hung: BTreeSet::new(),
            silent: false,
            down_until: None,
            log: Vec::new(),
            counts: BTreeMap::new(),
            violations: Vec::new(),
            logs: None,
            forgetful: 0,
            hints: Vec::new(),
            dirty: false,
        }
    }

    /// Applies all due effects, in the order of time.
    pub(super) fn settle(&mut self, now: At) {
        loop {
            let end = self.ends.first().map(|(at, _)| *at);
            let late = self.late.first_key_value().map(|((at, _), _)| *at);
            match (end, late) {
                (Some(end), late) if end <= now && late.is_none_or(|late| end <= late) => {
                    if let Some((at, id)) = self.ends.pop_first() {
                        self.end_if_due(&id, at);
                    }
                }
                (_, Some(late)) if late <= now => {
                    if let Some(((at, _), LateEffect { reserved, effect })) = self.late.pop_first() {
                        if let Some(name) = reserved {
                            self.reserved.remove(&name);
                        }
                        effect(self, at);
                    }
                }
                _ => return,
            }
        }
    }

    /// When the next effect is due.
    pub(super) fn next_due(&self) -> Option<At> {
        let end = self.ends.first().map(|(at, _)| *at);
        let late = self.late.first_key_value().map(|((at, _), _)| *at);
        end.into_iter().chain(late).min()
    }

    pub(super) fn schedule(&mut self, at: At, late: LateEffect) {
        self.made += 1;
        if let Some(name) = &late.reserved {
            self.reserved.insert(name.clone());
        }
        self.late.insert((at, self.made), late);
        self.dirty = true;
    }

    /// Whether this call is one that does not find an existing object.
    pub(super) fn forgets(&mut self) -> bool {
        let forgets = self.forgetful > 0;
        self.forgetful = self.forgetful.saturating_sub(1);
        forgets
    }

    pub(super) fn container(&self, id: &ContainerId) -> Option<(&PodUid, &FakeContainer)> {
        let uid = self.container_pod.get(id)?;
        Some((uid, self.pods.get(uid)?.containers.get(id)?))
    }

    pub(super) fn container_mut(&mut self, id: &ContainerId) -> Option<&mut FakeContainer> {
        self.pods.get_mut(self.container_pod.get(id)?)?.containers.get_mut(id)
    }

    pub(super) fn is_running(&self, id: &ContainerId) -> bool {
        self.container(id).is_some_and(|(_, c)| matches!(c.life, Life::Running { .. }))
    }

    /// Schedules the end of a running container, unless an earlier end is scheduled.
    pub(super) fn end_at(&mut self, id: &ContainerId, end: End) {
        let Some(container) = self.container_mut(id) else { return };
        let Life::Running { ends, .. } = &mut container.life else { return };
        if ends.is_none_or(|earlier| end.at < earlier.at) {
            *ends = Some(end);
            self.ends.insert((end.at, id.clone()));
            self.dirty = true;
        }
    }

    fn end_if_due(&mut self, id: &ContainerId, at: At) {
        let clock = self.clock;
        let Some(container) = self.container_mut(id) else { return };
        let Life::Running { started, ends: Some(end) } = &container.life else { return };
        if end.at != at {
            return;
        }
        let usual = if end.code == 0 { "Completed" } else { "Error" };
        let exit = Exit {
            code: end.code,
            started_at: clock.wall_at(*started),
            finished_at: clock.wall_at(at),
            reason: container.behaviour.reason.clone().unwrap_or_else(|| usual.into()),
            message: String::new(),
        };
        container.life = Life::Exited(exit);
        self.hint_container(id);
    }

    pub(super) fn hint_container(&mut self, id: &ContainerId) {
        if let Some(uid) = self.container_pod.get(id).cloned() {
            self.hint(uid);
        }
    }

    pub(super) fn hint(&mut self, uid: PodUid) {
        self.hints.push(Hint { uid });
        self.dirty = true;
    }

    /// Adds a line to the call log, with the error if there is one.
    pub(super) fn record<T>(&mut self, at: At, uid: &PodUid, line: String, outcome: &Result<T, RpcError>) {
        let pod = self.name_of(uid);
        self.record_as(at, &pod, uid, line, outcome);
    }

    pub(super) fn name_of(&self, uid: &PodUid) -> String {
        let newest = self.pods.get(uid).and_then(|pod| pod.sandboxes.values().next_back());
        newest.map(|sandbox| sandbox.config.name.clone()).unwrap_or_default()
    }

    pub(super) fn record_as<T>(
        &mut self,
        at: At,
        pod: &str,
        uid: &PodUid,
        mut line: String,
        outcome: &Result<T, RpcError>,
    ) {
        if let Err(error) = outcome {
            line = format!("{line}: {:?}", error.kind);
        }
        self.log.push(Call { at, asked: at, pod: pod.into(), uid: uid.clone(), line });
    }
}

pub(super) fn fail(operation: &'static str, kind: RpcErrorKind, detail: impl Into<String>) -> RpcError {
    RpcError { operation, kind, detail: detail.into() }
}
