//! What is remembered of a pod's volumes between jobs: when to come back, and how long trouble lasts.

use std::time::Duration;

use crate::backoff::Doubling;
use crate::time::{Instant, Now};
use jiff::Timestamp;

/// Pauses after a volume could not be set up. upstream: exponential_backoff.go (v1.36), VOL-02
const PAUSES: Doubling = Doubling::new(Duration::from_millis(500), Duration::from_secs(122));

/// How long a pod that cannot start waits before it is told as a whole. upstream: volume_manager.go
/// podAttachAndMountTimeout (v1.36), VOL-02
const PATIENCE: Duration = Duration::from_secs(123);

/// The shortest wait for a renewal: one that is due at once, again and again, must not spin.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What is remembered of a pod's volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMemory {
    /// When the first of them has to be set up again.
    renew_at: Option<Timestamp>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    problems: Vec<String>,
    /// Since when a pod waits, counted anew each time that it was told.
    since: Instant,
    last: Instant,
    failures: u32,
}

/// What to tell people of trouble with volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It was told a moment ago.
    Nothing,
    /// What went wrong with each volume.
    Problems,
    /// That, and that the pod has waited in vain.
    Timeout,
}

impl VolumeMemory {
    /// All is well until `renew_at`.
    pub fn well(&mut self, renew_at: Option<Timestamp>) {
        *self = Self { renew_at, trouble: None };
    }

    /// Something could not be set up, or brought up to date. The same trouble is told again when its pause is over.
    pub fn failed(&mut self, problems: &[String], now: Instant) -> Report {
        let Some(trouble) = &mut self.trouble else {
            let problems = problems.to_vec();
            self.trouble = Some(Trouble { problems, since: now, last: now, failures: 1 });
            return Report::Problems;
        };
        let is_new = trouble.problems != problems;
        if !is_new && now < trouble.last + PAUSES.after(trouble.failures) {
            return Report::Nothing;
        }
        trouble.problems = problems.to_vec();
        trouble.last = now;
        trouble.failures = trouble.failures.saturating_add(1);
        if now.since(trouble.since) < PATIENCE {
            return Report::Problems;
        }
        trouble.since = now;
        Report::Timeout
    }

    /// When to try again or renew something; `None` if nothing is due.
    pub fn due_in(&self, now: Now) -> Option<Duration> {
        let retry =
            self.trouble.as_ref().map(|trouble| (trouble.last + PAUSES.after(trouble.failures)).since(now.mono));
        let renew = self.renew_at.map(|at| at.duration_since(now.wall));
        // One that is overdue was asked for just now, in vain: the next periodic sync asks again.
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
    fn the_same_trouble_is_told_once_per_pause_and_as_a_whole_after_two_minutes() {
        let mut memory = VolumeMemory::default();
        let (one, other) = (["a".to_owned()], ["b".to_owned()]);
        assert_eq!(memory.failed(&one, at(0.0)), Report::Problems);
        assert_eq!(memory.failed(&one, at(0.4)), Report::Nothing);
        assert_eq!(memory.failed(&one, at(0.5)), Report::Problems);
        assert_eq!(memory.failed(&other, at(0.6)), Report::Problems, "this is news");
        assert_eq!(memory.failed(&other, at(124.0)), Report::Timeout);
        assert_eq!(memory.failed(&other, at(200.0)), Report::Problems, "counted anew");
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
