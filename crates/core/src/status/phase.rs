//! The phase of a pod from the states of its containers (PST-10).

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

use crate::observe::PodObservation;
use crate::plan::{PlanGates, restarts_on_exit};
use crate::pod::{PodExt, RestartPolicy, is_sidecar};
use crate::reason::WaitingReason;

/// The phase of a pod, as the API has it. The last two are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Something has yet to start.
    Pending,
    /// Something runs, or will run again.
    Running,
    /// All ended well.
    Succeeded,
    /// All ended, something badly; or the pod was put to an end.
    Failed,
}

impl Phase {
    /// The API's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Reads the API's word; `Unknown`, which nobody sets any more, is none of ours.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed].into_iter().find(|p| p.as_str() == word)
    }

    /// It is final.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running => false,
        }
    }
}

/// What the phase depends on besides the states of the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseFacts {
    /// No container will run again, whatever the restart policy says.
    pub terminal: bool,
    /// A regular container was made in the current sandbox: a sidecar that restarts does not make the pod pending again.
    pub initialised: bool,
    /// The pod never restarts and its sandbox is gone: what has not begun never will.
    pub abandoned: bool,
    /// Feature gates that matter here.
    pub gates: PlanGates,
}

/// Where a container stands, as far as the phase cares.
enum Standing<'a> {
    Running {
        started: bool,
    },
    Ended(&'a ContainerStateTerminated),
    /// It waits to run again.
    Again(&'a ContainerStateTerminated),
    /// It waits for its first run.
    Waiting,
    Unknown,
}

fn standing(status: Option<&ContainerStatus>) -> Standing<'_> {
    let Some(status) = status else { return Standing::Unknown };
    let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let Some(state) = status.state.as_ref() else { return Standing::Unknown };
    if state.running.is_some() {
        Standing::Running { started: status.started == Some(true) }
    } else if let Some(end) = &state.terminated {
        Standing::Ended(end)
    } else if state.waiting.is_none() {
        Standing::Unknown
    } else {
        last.map_or(Standing::Waiting, Standing::Again)
    }
}

/// How many containers stand where.
#[derive(Default)]
struct Count {
    running: usize,
    waiting: usize,
    unknown: usize,
    /// Regular containers that have ended, for now or for good.
    stopped: usize,
    /// Those of them that will not run again.
    for_good: usize,
    succeeded: usize,
    /// Ordinary init containers that have yet to end well.
    init_pending: bool,
    /// A sidecar has yet to start.
    sidecar_pending: bool,
    /// An ordinary init container failed and will not be tried again.
    init_failed: bool,
}

/// The phase of `pod`, given the container statuses in `status`.
#[doc(alias = "getPhase")]
pub fn pod_phase(pod: &Pod, status: &PodStatus, facts: PhaseFacts) -> Phase {
    let phase = phase_of_containers(pod, status, facts);
    // Upstream's pod waits for ever for a container that no sandbox will be made for.
    let lost = facts.abandoned && !phase.is_terminal() && !has_running(status);
    if lost { Phase::Failed } else { phase }
}

fn has_running(status: &PodStatus) -> bool {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

fn phase_of_containers(pod: &Pod, status: &PodStatus, facts: PhaseFacts) -> Phase {
    let count = count(pod, status, facts.gates);
    if count.init_failed {
        return Phase::Failed;
    }
    if count.init_pending || (count.sidecar_pending && !facts.initialised) || count.waiting > 0 || count.unknown > 0 {
        return Phase::Pending;
    }
    if count.running > 0 {
        return Phase::Running;
    }
    if count.stopped == 0 {
        return Phase::Pending;
    }
    // Static pods come back under the same name, so ending one here does not end it for those who watch (PST-11).
    let over = (facts.terminal && !pod.is_static()) || have_ended_for_good(pod, &count, facts.gates);
    match (over, count.stopped == count.succeeded) {
        (false, _) => Phase::Running,
        (true, true) => Phase::Succeeded,
        (true, false) => Phase::Failed,
    }
}

/// No regular container runs again. Without rules of their own the pod's policy decides for all of them together: under
/// `OnFailure` one that waits for its next run keeps the pod going, however it exited.
fn have_ended_for_good(pod: &Pod, count: &Count, gates: PlanGates) -> bool {
    if gates.container_restart_rules {
        return count.stopped == count.for_good;
    }
    match pod.restart_policy() {
        RestartPolicy::Always => false,
        RestartPolicy::OnFailure => count.stopped == count.succeeded,
        RestartPolicy::Never => true,
    }
}

fn find<'a>(list: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    list.unwrap_or_default().iter().find(|s| s.name == name)
}

fn count(pod: &Pod, status: &PodStatus, gates: PlanGates) -> Count {
    let mut count = Count::default();
    for container in pod.init() {
        let at = standing(find(status.init_container_statuses.as_deref(), &container.name));
        if is_sidecar(container) {
            count.add_sidecar(&at);
        } else {
            count.add_init(pod, container, &at, gates);
        }
    }
    for container in pod.regular() {
        let at = standing(find(status.container_statuses.as_deref(), &container.name));
        count.add_regular(pod, container, &at, gates);
    }
    count
}

impl Count {
    fn add_init(&mut self, pod: &Pod, container: &Container, at: &Standing<'_>, gates: PlanGates) {
        match at {
            Standing::Ended(end) | Standing::Again(end) if end.exit_code != 0 => {
                self.init_failed |= !runs_again_after_init(pod, container, end, gates);
            }
            Standing::Ended(_) | Standing::Again(_) => {}
            Standing::Running { .. } | Standing::Waiting | Standing::Unknown => self.init_pending = true,
        }
    }

    /// A sidecar that has ended does not count: it runs again, or the pod is over without it.
    fn add_sidecar(&mut self, at: &Standing<'_>) {
        match at {
            Standing::Running { started } => {
                self.running += 1;
                self.sidecar_pending |= !started;
            }
            Standing::Ended(_) | Standing::Again(_) => {}
            Standing::Waiting => {
                self.waiting += 1;
                self.sidecar_pending = true;
            }
            Standing::Unknown => {
                self.unknown += 1;
                self.sidecar_pending = true;
            }
        }
    }

    fn add_regular(&mut self, pod: &Pod, container: &Container, at: &Standing<'_>, gates: PlanGates) {
        match at {
            Standing::Running { .. } => self.running += 1,
            Standing::Waiting => self.waiting += 1,
            Standing::Unknown => self.unknown += 1,
            Standing::Ended(end) | Standing::Again(end) => {
                self.stopped += 1;
                // One that waits to run again has not ended its work, however it exited before.
                self.succeeded += usize::from(matches!(at, Standing::Ended(_)) && end.exit_code == 0);
                self.for_good += usize::from(!runs_again(pod, container, end, gates));
            }
        }
    }
}

fn runs_again(pod: &Pod, container: &Container, end: &ContainerStateTerminated, gates: PlanGates) -> bool {
    restarts_on_exit(pod, container, end.exit_code, gates) || removed_to_restart(end, gates)
}

/// As `runs_again`; without the gate only a pod that never restarts fails by its init containers.
fn runs_again_after_init(pod: &Pod, container: &Container, end: &ContainerStateTerminated, gates: PlanGates) -> bool {
    if gates.container_restart_rules {
        runs_again(pod, container, end, gates)
    } else {
        pod.restart_policy() != RestartPolicy::Never
    }
}

/// It was removed because the whole pod starts over.
fn removed_to_restart(end: &ContainerStateTerminated, gates: PlanGates) -> bool {
    gates.restart_all_containers && end.reason.as_deref() == Some(WaitingReason::RestartingAllContainers.as_str())
}

/// A regular container was made in the sandbox that is ready now.
#[doc(alias = "HasAnyActiveRegularContainerStarted")]
pub(super) fn has_active_regular(pod: &Pod, seen: &PodObservation) -> bool {
    seen.ready_sandbox().is_some_and(|sandbox| {
        let regular = |name: &str| pod.regular().iter().any(|c| c.name == name);
        seen.containers.iter().any(|c| c.sandbox == sandbox.id && regular(&c.name))
    })
}
