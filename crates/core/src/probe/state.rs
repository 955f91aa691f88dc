//! The state machine of each probe, and of all probes of a container.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use super::{Answer, ProbeKind, Timing};
use crate::id::ContainerId;
use crate::plan::{ProbeView, Verdict};
use crate::time::{Instant, Now};

/// One look at a container's current instance, as its probes need it.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The instance.
    pub id: &'a ContainerId,
    /// Since when it runs; `None` if it does not run.
    pub running_since: Option<Timestamp>,
    /// The pod's status shows this instance as started: it started before a restart of rubelet (PRB-11).
    pub started_before: bool,
    /// The pod is terminating: only readiness probes still run (PRB-09, TERM-02).
    pub ending: bool,
}

/// One probe of one container.
#[doc(alias = "prober worker")]
#[derive(Clone, Debug)]
pub struct ProbeState {
    timing: Timing,
    phase: Phase,
    /// The last result, and how often in a row it came.
    streak: Option<(Verdict, u32)>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The container does not run, or has not started.
    Idle,
    /// The next run is at this time.
    Due(Instant),
    /// A run is under way; it was due at this time.
    Asking { due: Instant },
    /// Decided: no more runs until there is another instance (PRB-05).
    OnHold,
}

impl ProbeState {
    fn new(timing: Timing) -> Self {
        Self { timing, phase: Phase::Idle, streak: None, verdict: None }
    }

    /// When and how often the probe runs.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The result; `None` as long as no threshold was reached for this instance.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// When the probe runs next.
    pub fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due(at) => Some(at),
            Phase::Idle | Phase::Asking { .. } | Phase::OnHold => None,
        }
    }

    /// The last result, and how often in a row it came.
    pub fn streak(&self) -> Option<(Verdict, u32)> {
        self.streak
    }

    fn rest(&mut self) {
        // The result of this instance stays, even if the runtime shows it as running again.
        if self.phase != Phase::OnHold {
            self.phase = Phase::Idle;
        }
        self.streak = None;
    }

    fn decide(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
        self.phase = Phase::OnHold;
        self.streak = None;
    }

    /// Takes in the answer of one run. An error does not count (PRB-06).
    fn answered(&mut self, kind: ProbeKind, answer: &Answer, now: Instant) {
        let Phase::Asking { due } = self.phase else { return };
        // The next run keeps the pace of the first, however late this one was begun; one that took longer than a period
        // is followed at once.
        self.phase = Phase::Due((due + self.timing.period).max(now));
        let Some(result) = answer.result() else { return };
        let run = match self.streak {
            Some((last, run)) if last == result => run.saturating_add(1),
            Some(_) | None => 1,
        };
        self.streak = Some((result, run));
        let needed =
            if result == Verdict::Success { self.timing.success_threshold } else { self.timing.failure_threshold };
        if run < needed {
            return;
        }
        match (kind, result) {
            (ProbeKind::Startup, _) | (ProbeKind::Liveness, Verdict::Failure | Verdict::Unknown) => {
                self.decide(result);
            }
            (ProbeKind::Readiness, _) | (ProbeKind::Liveness, Verdict::Success) => self.verdict = Some(result),
        }
    }
}

/// The probes of one container.
#[derive(Clone, Debug)]
pub struct ContainerProbes {
    startup: Option<ProbeState>,
    readiness: Option<ProbeState>,
    liveness: Option<ProbeState>,
    instance: Option<ContainerId>,
    running_since: Option<Timestamp>,
    ending: bool,
}

impl ContainerProbes {
    /// The probes of a container without an instance.
    pub fn new(container: &Container) -> Self {
        let state = |kind: ProbeKind| kind.of(container).map(|probe| ProbeState::new(Timing::of(probe)));
        Self {
            startup: state(ProbeKind::Startup),
            readiness: state(ProbeKind::Readiness),
            liveness: state(ProbeKind::Liveness),
            instance: None,
            running_since: None,
            ending: false,
        }
    }

    /// The probe of this kind.
    pub fn probe(&self, kind: ProbeKind) -> Option<&ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        }
    }

    fn probe_mut(&mut self, kind: ProbeKind) -> Option<&mut ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
        }
    }

    /// The instance that is probed.
    pub fn instance(&self) -> Option<&ContainerId> {
        self.instance.as_ref()
    }

    /// The instance runs, by the last look.
    pub fn is_running(&self) -> bool {
        self.running_since.is_some()
    }

    /// When the probe of this kind runs next.
    pub fn due(&self, kind: ProbeKind) -> Option<Instant> {
        self.probe(kind).and_then(ProbeState::due)
    }

    /// The container has started, by the results of its probes (PRB-04).
    pub fn has_started(&self) -> bool {
        self.startup.as_ref().is_none_or(|probe| probe.verdict == Some(Verdict::Success))
    }

    /// Takes in a look at the container. `jitter` is a random number from 0 up to 1.
    pub fn see(&mut self, sight: &Sight<'_>, now: Now, jitter: f64) {
        if self.instance.as_ref() != Some(sight.id) {
            self.begin_instance(sight);
        }
        self.running_since = sight.running_since;
        self.ending = sight.ending;
        let Some(since) = sight.running_since else {
            // A container that does not run is neither ready nor started, whatever its last results (PRB-08).
            for kind in ProbeKind::ALL {
                if let Some(probe) = self.probe_mut(kind) {
                    probe.rest();
                }
            }
            return;
        };
        if sight.ending {
            self.stop_all_but_readiness();
        }
        self.wake(since, now, jitter);
    }

    fn begin_instance(&mut self, sight: &Sight<'_>) {
        for kind in ProbeKind::ALL {
            if let Some(probe) = self.probe_mut(kind) {
                *probe = ProbeState::new(probe.timing);
            }
        }
        self.instance = Some(sight.id.clone());
        if sight.started_before
            && let Some(startup) = &mut self.startup
        {
            startup.decide(Verdict::Success);
        }
    }

    fn stop_all_but_readiness(&mut self) {
        // The pod is terminating: none of its containers is restarted, and an undecided start stays undecided, so that a
        // container that never started does not become ready.
        for probe in [&mut self.startup, &mut self.liveness].into_iter().flatten() {
            probe.phase = Phase::OnHold;
        }
        if let Some(liveness) = &mut self.liveness {
            liveness.verdict = None;
        }
    }

    /// Plans the first run of every probe that may run and is idle.
    fn wake(&mut self, since: Timestamp, now: Now, jitter: f64) {
        let started = self.has_started();
        for kind in ProbeKind::ALL {
            if kind != ProbeKind::Startup && !started {
                continue;
            }
            if let Some(probe) = self.probe_mut(kind)
                && probe.phase == Phase::Idle
            {
                probe.phase = Phase::Due(first_run(kind, &probe.timing, since, now, jitter));
            }
        }
    }

    /// Begins a run of the probe. Returns the instance, or `None` if the probe is not due.
    pub fn begin(&mut self, kind: ProbeKind, now: Instant) -> Option<ContainerId> {
        let instance = self.instance.clone()?;
        let probe = self.probe_mut(kind)?;
        let due = probe.due().filter(|due| *due <= now)?;
        probe.phase = Phase::Asking { due };
        Some(instance)
    }

    /// Takes in the answer of `instance`; that of an earlier instance does not count.
    pub fn answered(&mut self, kind: ProbeKind, instance: &ContainerId, answer: &Answer, now: Now) {
        if self.instance.as_ref() != Some(instance) {
            return;
        }
        let Some(probe) = self.probe_mut(kind) else { return };
        probe.answered(kind, answer, now.mono);
        // The container has started, so that the other probes run at once, not at the next tick (PRB-10).
        if let Some(since) = self.running_since {
            self.wake(since, now, 0.0);
        }
    }

    /// Adds the results to `view`.
    pub fn show(&self, view: &mut ProbeView) {
        let (Some(id), Some(_)) = (&self.instance, self.running_since) else { return };
        for (probe, list) in [
            (&self.startup, &mut view.startup),
            (&self.readiness, &mut view.readiness),
            (&self.liveness, &mut view.liveness),
        ] {
            if let Some(verdict) = probe.as_ref().and_then(|probe| probe.verdict) {
                list.insert(id.clone(), verdict);
            }
        }
    }
}

/// When a probe first runs.
///
/// Readiness and startup as soon as the container runs and its initial delay is over. Liveness without a delay waits a
/// period: upstream's first tick comes up to a period after the start, and a container that needs a moment is used to
/// that. Probes of containers from before a restart are spread over a period, so that not all run at once (PRB-02).
fn first_run(kind: ProbeKind, timing: &Timing, since: Timestamp, now: Now, jitter: f64) -> Instant {
    let delay = match kind {
        ProbeKind::Liveness if timing.initial_delay.is_zero() => timing.period,
        ProbeKind::Startup | ProbeKind::Readiness | ProbeKind::Liveness => timing.initial_delay,
    };
    // A clock that was set back makes the age negative: then the delay counts from now.
    let age = Duration::try_from(now.wall.duration_since(since)).unwrap_or_default();
    let up = now.mono.since_start();
    let spread =
        if age > up && up < timing.period { timing.period.mul_f64(jitter.clamp(0.0, 1.0)) } else { Duration::ZERO };
    now.mono + delay.saturating_sub(age) + spread
}
