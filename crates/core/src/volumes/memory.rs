//! A pod's volumes between jobs: when they have to be renewed, and since when some cannot be mounted.

use std::time::Duration;

use crate::backoff::Doubling;
use crate::time::{Instant, Now};
use jiff::Timestamp;

/// Pauses after a volume could not be set up. upstream: exponential_backoff.go (v1.36), VOL-02
const PAUSES: Doubling = Doubling::new(Duration::from_millis(500), Duration::from_secs(122));

/// How long a pod waits for its volumes before an event says that it waited in vain. upstream: volume_manager.go
/// podAttachAndMountTimeout (v1.36), VOL-02
const PATIENCE: Duration = Duration::from_secs(123);

/// The shortest wait for a renewal, so that a renewal that is always due does not make the jobs spin.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The part of a pod's memory that is about its volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMemory {
    /// When the first volume has to be renewed.
    renew_at: Option<Timestamp>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    problems: Vec<String>,
    /// Since when the pod waits; reset when an event said that it waited in vain.
    since: Instant,
    last: Instant,
    failures: u32,
}

/// Which events to emit about volumes that could not be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountEvents {
    /// None: the same events were emitted a moment ago.
    Nothing,
    /// One for each problem.
    Problems,
    /// One for each problem, and one that the pod has waited in vain.
    Timeout,
}

impl VolumeMemory {
    /// All volumes are mounted and up to date until `renew_at`.
    pub fn well(&mut self, renew_at: Option<Timestamp>) {
        *self = Self { renew_at, trouble: None };
    }

    /// A volume could not be mounted or brought up to date. The same problems are emitted again when their pause is over.
    pub fn failed(&mut self, problems: &[String], now: Instant) -> MountEvents {
        let Some(trouble) = &mut self.trouble else {
            let problems = problems.to_vec();
            self.trouble = Some(Trouble { problems, since: now, last: now, failures: 1 });
            return MountEvents::Problems;
        };
        let is_new = trouble.problems != problems;
        if !is_new && now < trouble.last + PAUSES.after(trouble.failures) {
            return MountEvents::Nothing;
        }
        trouble.problems = problems.to_vec();
        trouble.last = now;
        trouble.failures = trouble.failures.saturating_add(1);
        if now.since(trouble.since) < PATIENCE {
            return MountEvents::Problems;
        }
        trouble.since = now;
        MountEvents::Timeout
    }

    /// When to try again or renew something; `None` if nothing is due.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let retry =
            self.trouble.as_ref().map(|trouble| (trouble.last + PAUSES.after(trouble.failures)).since(now.mono));
        let renew = self.renew_at.map(|at| at.duration_since(now.wall));
        // An overdue renewal has just failed: the next periodic sync tries it again.
        let renew = renew.and_then(|left| Duration::try_from(left).ok()).filter(|left| !left.is_zero());
        [retry, renew.map(|left| left.max(SHORTEST_WAIT))].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Instant {
        Instant::from_duration(Duration::from_secs_f64(secs))
    }

    fn now(secs: f64) -> Now {
        let wall = Timestamp::UNIX_EPOCH + Duration::from_secs_f64(secs);
        Now { mono: at(secs), wall }
    }

    #[test]
    fn vol_02_trouble_is_tried_again_after_half_a_second_then_twice_as_long_each_time() {
        let mut memory = VolumeMemory::default();
        let problem = ["configmap \"y\" not found".to_owned()];
        let (mut time, mut pauses) = (0.0, Vec::new());
        for _ in 0..11 {
            memory.failed(&problem, at(time));
            let pause = memory.due_in(now(time)).unwrap();
            pauses.push(pause.as_secs_f64());
            time += pause.as_secs_f64();
        }
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0, 122.0]);
        memory.well(None);
        assert_eq!(memory.due_in(now(time)), None);
    }

    #[test]
    fn the_same_problems_are_emitted_once_per_pause_and_a_timeout_after_two_minutes() {
        let mut memory = VolumeMemory::default();
        let (one, other) = (["a".to_owned()], ["b".to_owned()]);
        assert_eq!(memory.failed(&one, at(0.0)), MountEvents::Problems);
        assert_eq!(memory.failed(&one, at(0.4)), MountEvents::Nothing);
        assert_eq!(memory.failed(&one, at(0.5)), MountEvents::Problems);
        assert_eq!(memory.failed(&other, at(0.6)), MountEvents::Problems, "this problem is new");
        assert_eq!(memory.failed(&other, at(124.0)), MountEvents::Timeout);
        assert_eq!(memory.failed(&other, at(200.0)), MountEvents::Problems, "counted anew");
    }

    #[test]
    fn a_renewal_is_waited_for_but_never_spun_on() {
        let mut memory = VolumeMemory::default();
        memory.well(Some(now(100.0).wall));
        assert_eq!(memory.due_in(now(40.0)), Some(Duration::from_secs(60)));
        assert_eq!(memory.due_in(now(99.9)), Some(SHORTEST_WAIT));
        assert_eq!(memory.due_in(now(100.0)), None);
        assert_eq!(memory.due_in(now(150.0)), None);
    }
}
