//! Stages, events, commands and pauses of a pod's life cycle.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::backoff::Doubling;
use crate::id::PodRef;
use crate::pod::{OrphanPod, PodExt};
use crate::status::EndReason;
use crate::time::Instant;

/// The stage of a pod's life cycle. A pod only ever moves down this list.
#[doc(alias = "PodWorkerState")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Known, but an older pod of the same name has not left yet (WORK-08).
    Waiting,
    /// Sync jobs keep the pod as its spec says.
    #[doc(alias = "SyncPod")]
    Syncing {
        /// When its name became free.
        since: Instant,
    },
    /// No container may start from here on. `grace` can only shrink.
    Terminating {
        /// When its end began.
        since: Instant,
        /// How long its containers have to stop by themselves.
        grace: Grace,
        /// When the grace is over: a stop that is tried again has only the rest of it.
        until: Instant,
        /// Why it ends.
        ending: Ending,
    },
    /// No container runs; mounts and cgroups may remain.
    Terminated {
        /// When the last container was known to have stopped.
        since: Instant,
        /// Why it ended.
        ending: Ending,
    },
    /// Nothing is left but what garbage collection takes: dead containers and logs.
    Finished,
}

impl Stage {
    /// The pod is terminating, or has ended.
    pub fn is_past_syncing(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Syncing { .. })
    }

    /// A container of it may run (WORK-12).
    #[doc(alias = "CouldHaveRunningContainers")]
    pub fn may_have_running_containers(&self) -> bool {
        matches!(self, Self::Syncing { .. } | Self::Terminating { .. })
    }

    /// Why the pod ends, from `Terminating` on.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Self::Terminating { ending, .. } | Self::Terminated { ending, .. } => Some(ending),
            Self::Waiting | Self::Syncing { .. } | Self::Finished => None,
        }
    }

    /// The cause of the end, from `Terminating` on.
    pub fn cause(&self) -> Option<Cause> {
        self.ending().map(|ending| ending.cause)
    }

    /// The rest of the grace at `now`, but at least [`Grace::MIN`].
    pub fn grace_left(&self, now: Instant) -> Grace {
        match self {
            Self::Terminating { until, .. } => Grace::of(until.since(now)),
            Self::Waiting | Self::Syncing { .. } | Self::Terminated { .. } | Self::Finished => Grace::MIN,
        }
    }

    /// One word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Syncing { .. } => "Syncing",
            Self::Terminating { .. } => "Terminating",
            Self::Terminated { .. } => "Terminated",
            Self::Finished => "Finished",
        }
    }

    pub(super) fn terminating(now: Instant, grace: Grace, ending: Ending) -> Self {
        Self::Terminating { since: now, grace, until: now + grace.get(), ending }
    }

    pub(super) fn job_kind(&self) -> Option<JobKind> {
        match self {
            Self::Waiting | Self::Finished => None,
            Self::Syncing { .. } => Some(JobKind::Sync),
            Self::Terminating { .. } => Some(JobKind::Terminate),
            Self::Terminated { .. } => Some(JobKind::CleanUp),
        }
    }

    pub(super) fn grace(&self) -> Option<Grace> {
        match self {
            Self::Terminating { grace, .. } => Some(*grace),
            Self::Waiting | Self::Syncing { .. } | Self::Terminated { .. } | Self::Finished => None,
        }
    }
}

/// Why a pod ends. The event that ends the pod carries it, and the stage keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The cause, which decides how much of the pod is removed.
    pub cause: Cause,
    /// The reason for the status; `None` if the status follows from the containers alone.
    pub reason: Option<Arc<EndReason>>,
}

impl Ending {
    /// The pod makes room for a critical one (ADM-31).
    pub fn preempted() -> Self {
        Self { cause: Cause::Evicted, reason: Some(Arc::new(EndReason::preempted())) }
    }

    /// The machine is about to go down (SHUT-03).
    pub fn node_shutdown() -> Self {
        Self { cause: Cause::NodeShutdown, reason: Some(Arc::new(EndReason::node_shutdown())) }
    }
}

impl From<Cause> for Ending {
    fn from(cause: Cause) -> Self {
        Self { cause, reason: None }
    }
}

/// The cause of a pod's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A person or controller deleted it.
    Deleted,
    /// Its source no longer wants it.
    Removed,
    /// All its containers ended for good, or its deadline passed.
    Ended,
    /// The node needed its resources.
    Evicted,
    /// The machine is about to go down. Logs and dead containers stay, as after an end by itself.
    NodeShutdown,
    /// It ran here though no source wants it.
    Orphaned,
}

/// Time given to containers to end by themselves: at least a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grace(Duration);

impl Grace {
    /// The least that is ever given (WORK-05).
    pub const MIN: Self = Self(Duration::from_secs(1));

    /// `secs` seconds, but at least [`Grace::MIN`].
    pub fn secs(secs: i64) -> Self {
        Self::of(Duration::from_secs(u64::try_from(secs).unwrap_or_default()))
    }

    /// `time`, but at least [`Grace::MIN`].
    pub fn of(time: Duration) -> Self {
        Self(time).max(Self::MIN)
    }

    /// As a duration.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// The pod of a life cycle: a pod with a spec, or an orphan.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A source wants it.
    Pod(Arc<Pod>),
    /// No source wants it: it has a name and a UID, and no spec.
    Orphan(OrphanPod),
}

impl Subject {
    /// Its names.
    pub fn reference(&self) -> PodRef {
        match self {
            Self::Pod(pod) => PodRef::of(pod),
            Self::Orphan(orphan) => orphan.pod.clone(),
        }
    }

    /// The pod, unless it is an orphan.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Pod(pod) => Some(pod),
            Self::Orphan(_) => None,
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.pod().is_some_and(|pod| pod.is_deleted())
    }

    /// The grace of the end: that of the deletion in the API, shortened to what the node `asked` for; without either, that
    /// of the spec. upstream: pod_workers.go calculateEffectiveGracePeriod (v1.36), WORK-05
    pub(super) fn grace(&self, asked: Option<Duration>) -> Grace {
        let Some(pod) = self.pod() else { return Grace::MIN };
        let fixed = pod.metadata.deletion_grace_period_seconds.map(Grace::secs);
        let wished = pod.pod_spec().and_then(|s| s.termination_grace_period_seconds).map(Grace::secs);
        [fixed, asked.map(Grace::of)].into_iter().flatten().min().or(wished).unwrap_or(Grace::MIN)
    }
}

/// What happened to a pod.
#[doc(alias = "UpdatePodOptions")]
#[derive(Clone, Debug)]
pub enum Event {
    /// A source wants the pod to be like this.
    Desired {
        /// The pod.
        pod: Arc<Pod>,
        /// Whether it is new to its source.
        how: Arrival,
    },
    /// The status in the API changed; the spec is the same.
    #[doc(alias = "HandlePodReconcile")]
    Refreshed {
        /// The pod.
        pod: Arc<Pod>,
    },
    /// No other pod of its name is left: it may start.
    NameFree,
    /// Its source no longer wants it.
    Removed,
    /// The node ends the pod.
    #[doc(alias = "killPodNow")]
    Kill {
        /// Why.
        ending: Ending,
        /// How long its containers may take; `None` for what the pod says.
        grace: Option<Duration>,
    },
    /// Look at it sooner than planned.
    Hint,
    /// An object that its spec refers to has changed: the next sync job is due at once.
    DependencyChanged,
    /// [`PodLifecycle::next_deadline`](super::PodLifecycle::next_deadline) has come.
    Deadline,
    /// The job in flight has ended.
    Done(JobEnd),
}

/// Whether a pod is new to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was not there before.
    Added,
    /// It was, and has changed.
    Updated,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start this job. None is in flight.
    Start(Job),
    /// Cancel the job in flight; [`Event::Done`] still follows.
    Cancel,
    /// The life cycle is finished.
    Finish,
}

/// Long work on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Make it as its spec says.
    Sync,
    /// Stop its containers and sandboxes.
    Terminate {
        /// What its containers are given.
        grace: Grace,
    },
    /// Undo its mounts and cgroups.
    CleanUp,
}

impl Job {
    pub(super) fn kind(&self) -> Option<JobKind> {
        Some(match self {
            Self::Sync => JobKind::Sync,
            Self::Terminate { .. } => JobKind::Terminate,
            Self::CleanUp => JobKind::CleanUp,
        })
    }

    pub(super) fn grace(&self) -> Option<Grace> {
        match self {
            Self::Terminate { grace } => Some(*grace),
            Self::Sync | Self::CleanUp => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    Sync,
    Terminate,
    CleanUp,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The pod is as it should be, as far as it can be now.
    Synced {
        /// When its last look at the runtime began: that look has seen the effects of earlier events.
        looked_at: Instant,
        /// A time is known at which something will be due: a restart out of back-off, the pod's deadline.
        again_in: Option<Duration>,
        /// The status is terminal: no container runs or will run.
        terminal: bool,
    },
    /// Every container and sandbox is known to have stopped.
    Stopped,
    /// Nothing is left.
    CleanedUp,
    /// The job failed, or was cancelled.
    Failed(Retry),
}

/// When to try again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// The cause is known to pass soon: the network is not ready, no start slot was free.
    Soon,
    /// The usual pause.
    #[default]
    Later,
    /// At a known time: a back-off expires.
    In(Duration),
}

/// How often to act with no event (WORK-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// After success; half as much again is added at random.
    pub resync: Duration,
    /// After a failure that is known to pass.
    pub soon: Duration,
    /// After other failures.
    pub later: Duration,
}

impl Pace {
    /// Upstream's, for the configured `syncFrequency`. upstream: pod_workers.go completeWork (v1.36)
    pub fn new(sync_frequency: Duration) -> Self {
        Self { resync: sync_frequency, soon: Duration::from_secs(1), later: Duration::from_secs(10) }
    }

    /// When to look again. With nothing known to become due it is a whole second, so that of a thousand idle pods those
    /// of one second share a wake-up; upstream looks once a second as well (LOOP-01).
    pub(super) fn after_success(&self, now: Instant, again_in: Option<Duration>, jitter: f64) -> Instant {
        let resync = whole_second(now + spread(self.resync, jitter));
        again_in.map_or(resync, |due| resync.min(now + due))
    }

    pub(super) fn after_failure(&self, retry: Retry, jitter: f64) -> Duration {
        match retry {
            Retry::Soon => spread(self.soon, jitter),
            Retry::Later => spread(self.later, jitter),
            Retry::In(due) => due.min(self.resync),
        }
    }

    /// After a failed job during which an event came; `failures` is the number of failed jobs in a row.
    pub(super) fn after_news(&self, failures: u32) -> Duration {
        Doubling::new(self.soon, Duration::MAX).after(failures.max(1))
    }
}

/// The first whole second that is not before `at`.
fn whole_second(at: Instant) -> Instant {
    let since = at.since_start();
    let late = u64::from(since.subsec_nanos() > 0);
    Instant::from_duration(Duration::from_secs(since.as_secs().saturating_add(late)))
}

/// `base` and up to half as much again, so that many pods do not act in step.
fn spread(base: Duration, jitter: f64) -> Duration {
    base + base.mul_f64(0.5 * jitter.clamp(0.0, 1.0))
}
