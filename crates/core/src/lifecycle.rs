//! The life cycle of one pod on this node, as a state machine.
//!
//! ```text
//!  Waiting ──name free──► Syncing ──deleted, removed, killed, ended──► Terminating ──► Terminated ──► Finished
//!     └───────────────────────deleted, removed, killed──────────────────────┘
//! ```
//!
//! It owns the pod's stage and decides which job comes next; it does not know how a job works. The driver feeds it events
//! and carries out its commands: start a job, or cancel the one in flight. At most one job is in flight; the pod only moves
//! to the right; grace only shrinks. After a restart of the process a new machine begins, and the first job, which begins
//! with a look at the runtime, finds what the jobs before the restart did.

mod names;
mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

pub use names::Names;
pub use types::*;

use crate::pod::PodExt;
use crate::time::Instant;

/// One pod's life cycle. Only `step` changes it.
#[doc(alias = "podSyncStatus")]
#[derive(Clone, Debug)]
pub struct PodLifecycle {
    subject: Subject,
    stage: Stage,
    pace: Pace,
    job: Option<JobInFlight>,
    /// When to act again with no event at all.
    due: Option<Instant>,
    /// Jobs in a row that failed or were lost, for the log and for `explain`.
    failures: u32,
    /// When the last of them ended.
    failed_at: Instant,
    /// The pod of the same UID that a source added while this one was terminating (WORK-06).
    recreated: Option<Arc<Pod>>,
}

#[derive(Clone, Debug)]
struct JobInFlight {
    job: Job,
    /// The newest event that the job cannot have taken into account, if there is one.
    news: Option<Instant>,
    /// The spec changed since the job began.
    stale: bool,
    cancelled: bool,
}

impl PodLifecycle {
    /// A pod that a source wants. It waits until its name is free ([`Event::NameFree`]).
    pub fn new(pod: Arc<Pod>, pace: Pace) -> Self {
        Self::with(Subject::Pod(pod), Stage::Waiting, pace)
    }

    /// An orphan: it is ended at once, with the shortest grace (HK-10, TERM-10).
    pub fn orphan(orphan: crate::pod::OrphanPod, pace: Pace, now: Instant) -> (Self, Vec<Command>) {
        let stage = Stage::terminating(now, Grace::MIN, Cause::Orphaned.into());
        let mut life = Self::with(Subject::Orphan(orphan), stage, pace);
        let commands = life.start_job();
        (life, commands)
    }

    /// Ends a finished pod again, at once, because one of its containers runs. The first cause no longer counts: logs and
    /// dead containers stay, as after an end by itself.
    #[must_use]
    pub fn end_again(self, now: Instant) -> (Self, Vec<Command>) {
        let stage = Stage::terminating(now, Grace::MIN, Cause::Ended.into());
        let mut life = Self { recreated: self.recreated, ..Self::with(self.subject, stage, self.pace) };
        let commands = life.start_job();
        (life, commands)
    }

    fn with(subject: Subject, stage: Stage, pace: Pace) -> Self {
        Self { subject, stage, pace, job: None, due: None, failures: 0, failed_at: Instant::START, recreated: None }
    }

    /// The stage of the pod.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The pod, or the orphan.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The job in flight.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref().map(|j| &j.job)
    }

    /// When [`Event::Deadline`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due
    }

    /// How many jobs in a row did not succeed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The recreated pod, whose life cycle begins when this one is finished (WORK-06).
    pub fn into_recreated(self) -> Option<Arc<Pod>> {
        self.recreated
    }

    /// Handles one event and returns the commands that follow. `jitter` is a random number from 0 up to 1.
    pub fn step(&mut self, event: Event, now: Instant, jitter: f64) -> Vec<Command> {
        match event {
            Event::Desired { pod, how } => self.desired(pod, how, now),
            Event::Refreshed { pod } => self.refreshed(pod, now),
            Event::NameFree => self.name_free(now),
            Event::Removed => {
                self.recreated = None;
                self.terminate(Cause::Removed.into(), None, now)
            }
            Event::Kill { ending, grace } => self.terminate(ending, grace, now),
            Event::Hint => self.look_sooner(now),
            Event::DependencyChanged => self.dependency_changed(),
            Event::Deadline => self.deadline(now),
            Event::Done(end) => self.done(end, now, jitter),
        }
    }

    fn desired(&mut self, pod: Arc<Pod>, how: Arrival, now: Instant) -> Vec<Command> {
        if self.stage.is_past_syncing() {
            return self.desired_too_late(pod, how, now);
        }
        let ended = if pod.is_deleted() {
            Some(Cause::Deleted)
        } else if pod.is_terminal() {
            Some(Cause::Ended)
        } else {
            None
        };
        self.subject = Subject::Pod(pod);
        if let Some(cause) = ended {
            return self.terminate(cause.into(), None, now);
        }
        match (&self.stage, &mut self.job) {
            (Stage::Waiting, _) => Vec::new(),
            (_, Some(flight)) => {
                flight.stale = true;
                Vec::new()
            }
            (_, None) => self.start_job(),
        }
    }

    /// No update reverses an end. A shorter grace counts; a recreated pod gets its own life cycle after this one.
    fn desired_too_late(&mut self, pod: Arc<Pod>, how: Arrival, now: Instant) -> Vec<Command> {
        let comes_back = how == Arrival::Added || self.recreated.is_some();
        if comes_back && !pod.is_deleted() && !pod.is_terminal() {
            self.recreated = Some(pod);
            return Vec::new();
        }
        let deletion = pod.is_deleted().then_some(Cause::Deleted);
        if let Some(recreated) = &mut self.recreated {
            // The pod that comes back is the one that has been deleted, or has ended: its life begins with that.
            *recreated = Arc::clone(&pod);
        }
        self.subject = Subject::Pod(pod);
        match deletion {
            Some(cause) => self.terminate(cause.into(), None, now),
            None => Vec::new(),
        }
    }

    /// A new status needs no job, unless it is terminal: another client may set the phase of a pod to `Failed`.
    fn refreshed(&mut self, pod: Arc<Pod>, now: Instant) -> Vec<Command> {
        let ended = pod.is_terminal() && !self.stage.is_past_syncing();
        match (&mut self.recreated, &self.subject) {
            (Some(recreated), _) => *recreated = pod,
            (None, Subject::Pod(_)) => self.subject = Subject::Pod(pod),
            (None, Subject::Orphan(_)) => return Vec::new(),
        }
        if ended { self.terminate(Cause::Ended.into(), None, now) } else { Vec::new() }
    }

    fn name_free(&mut self, now: Instant) -> Vec<Command> {
        if self.stage != Stage::Waiting {
            return Vec::new();
        }
        self.stage = Stage::Syncing { since: now };
        self.start_job()
    }

    fn terminate(&mut self, ending: Ending, asked: Option<Duration>, now: Instant) -> Vec<Command> {
        let grace = self.subject.grace(asked);
        match &mut self.stage {
            Stage::Waiting | Stage::Syncing { .. } => {
                self.stage = Stage::terminating(now, grace, ending);
                self.restart_job()
            }
            Stage::Terminating { grace: current, until, ending: first, .. } => {
                // A deletion by a client outranks the node's own cause: it decides when the API object may be deleted.
                // The status keeps the first reason of the node.
                if ending.cause == Cause::Deleted {
                    first.cause = ending.cause;
                }
                if first.reason.is_none() {
                    first.reason = ending.reason;
                }
                if asked.is_none() && !self.subject.is_deleted() || grace >= *current {
                    return Vec::new();
                }
                // Grace may shrink, never grow: a later delete with a longer grace must not reprieve containers that
                // are stopping. upstream: pod_workers.go calculateEffectiveGracePeriod (v1.36)
                *current = grace;
                *until = (*until).min(now + grace.get());
                self.restart_job()
            }
            Stage::Terminated { .. } | Stage::Finished => Vec::new(),
        }
    }

    /// The pod may have changed: starts a job, unless one is in flight.
    fn look_sooner(&mut self, now: Instant) -> Vec<Command> {
        let soon = self.may_retry_at();
        match (&self.stage, &mut self.job) {
            (Stage::Waiting | Stage::Finished, _) => Vec::new(),
            (_, Some(flight)) => {
                flight.news = Some(now);
                Vec::new()
            }
            // After a failed job not at once: the failure itself may have caused the event.
            (_, None) if self.failures > 0 && now < soon => {
                self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
                Vec::new()
            }
            (_, None) => self.start_job(),
        }
    }

    /// As good as another spec: a job in flight may have read what was there before, and no failure puts off the next.
    fn dependency_changed(&mut self) -> Vec<Command> {
        match (&self.stage, &mut self.job) {
            (Stage::Syncing { .. }, Some(flight)) => {
                flight.stale = true;
                Vec::new()
            }
            (Stage::Syncing { .. }, None) => self.start_job(),
            (Stage::Waiting | Stage::Terminating { .. } | Stage::Terminated { .. } | Stage::Finished, _) => Vec::new(),
        }
    }

    /// When an event may end the wait after the last failure.
    fn may_retry_at(&self) -> Instant {
        self.failed_at + self.pace.after_news(self.failures)
    }

    fn deadline(&mut self, now: Instant) -> Vec<Command> {
        if self.job.is_some() || self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.start_job()
    }

    fn done(&mut self, end: JobEnd, now: Instant, jitter: f64) -> Vec<Command> {
        let Some(flight) = self.job.take() else { return Vec::new() };
        if matches!(end, JobEnd::Failed(_)) && !flight.cancelled {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = now;
        } else if !flight.cancelled {
            self.failures = 0;
        }
        // The stage changed, or the grace shrank, while the job ran: its result no longer counts.
        if flight.job.kind() != self.stage.job_kind() || flight.job.grace() != self.stage.grace() {
            return self.start_job();
        }
        match end {
            JobEnd::Synced { terminal: true, .. } => self.terminate(Cause::Ended.into(), None, now),
            JobEnd::Synced { looked_at, again_in, terminal: false } => {
                if flight.stale || flight.cancelled || flight.news.is_some_and(|news| news > looked_at) {
                    return self.start_job();
                }
                self.due = Some(self.pace.after_success(now, again_in, jitter));
                Vec::new()
            }
            JobEnd::Stopped => {
                let ending = self.stage.ending().cloned().unwrap_or(Cause::Ended.into());
                self.stage = Stage::Terminated { since: now, ending };
                self.start_job()
            }
            JobEnd::CleanedUp => {
                self.stage = Stage::Finished;
                self.due = None;
                vec![Command::Finish]
            }
            JobEnd::Failed(retry) => {
                if flight.stale || flight.cancelled {
                    return self.start_job();
                }
                // An event during a failed job may mean that the next one succeeds; but many jobs cause events as they
                // fail (a sandbox whose network cannot be set up), so the pause grows with each failure.
                let wait = self.pace.after_failure(retry, jitter);
                let due = now + wait;
                self.due = Some(if flight.news.is_some() { due.min(self.may_retry_at()) } else { due });
                Vec::new()
            }
        }
    }

    fn start_job(&mut self) -> Vec<Command> {
        self.due = None;
        let job = match (self.stage.job_kind(), self.stage.grace()) {
            (Some(JobKind::Sync), _) => Job::Sync,
            (Some(JobKind::Terminate), grace) => Job::Terminate { grace: grace.unwrap_or(Grace::MIN) },
            (Some(JobKind::CleanUp), _) => Job::CleanUp,
            (None, _) => return Vec::new(),
        };
        self.job = Some(JobInFlight { job: job.clone(), news: None, stale: false, cancelled: false });
        vec![Command::Start(job)]
    }

    /// Cancels the job in flight, if there is one, and starts the next one when it has ended (WORK-04).
    fn restart_job(&mut self) -> Vec<Command> {
        match &mut self.job {
            Some(flight) if flight.cancelled => Vec::new(),
            Some(flight) => {
                flight.cancelled = true;
                vec![Command::Cancel]
            }
            None => self.start_job(),
        }
    }
}
