//! Profiles of this process, for `/debug/pprof` (ADR 29).
//!
//! A sample is a copy of the registers and of the stack, made where nothing may be allocated or locked: in the handler of the
//! kernel's timer for CPU time, and in the allocator. Four times a second the copies are unwound, by a thread that may do all
//! of that. While no profile is taken there is no timer, and an allocation reads one flag.

mod allocator;
mod capture;
mod modules;
mod registers;
mod timer;
mod unwind;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::profile::{Profile, ProfileKind};
use rubelet_engine::blocking::HOST;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{NoProfile, Profiler};

pub use self::allocator::Allocator;
use self::allocator::Sampling;
use self::capture::Recording;
use self::timer::Timer;
use self::unwind::Stacks;

/// CPU time between two samples. upstream: Go's runtime/pprof, 100 Hz
const EVERY: Duration = Duration::from_millis(10);
/// How often the copies are unwound: two busy threads fill half of the slots until then.
const DRAIN: Duration = Duration::from_millis(250);

/// Takes profiles of this process.
#[derive(Clone, Debug)]
pub struct OwnProfiler {
    clock: Clock,
}

impl OwnProfiler {
    /// Profiles last by `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { clock }
    }

    /// Takes samples for so long.
    async fn record(&self, mut both: (Recording, Stacks), lasts: Duration) -> (Recording, Stacks) {
        let until = self.clock.mono() + lasts;
        loop {
            let now = self.clock.mono();
            self.clock.sleep_until(Some((now + DRAIN).min(until))).await;
            let (mut recording, mut stacks) = both;
            both = HOST
                .run("profile", move || {
                    recording.drain(|taken| stacks.add(taken));
                    (recording, stacks)
                })
                .await;
            if self.clock.mono() >= until {
                return both;
            }
        }
    }
}

/// Reads the program's tables, before anything is counted.
async fn prepare(recording: Recording) -> (Recording, Stacks) {
    HOST.run("profile", move || (recording, Stacks::new(Path::new("/proc/self")))).await
}

#[async_trait]
impl Profiler for OwnProfiler {
    async fn cpu(&self, lasts: Duration) -> Result<Profile, NoProfile> {
        let recording = Recording::begin().ok_or(NoProfile::Busy)?;
        let both = prepare(recording).await;
        let began = self.clock.now();
        let timer = Timer::start(EVERY).map_err(NoProfile::Refused)?;
        let (recording, mut stacks) = self.record(both, lasts).await;
        drop(timer);
        stacks.lost += recording.lost();
        let lasted = self.clock.mono().since(began.mono);
        let kind = ProfileKind::Cpu { every: EVERY };
        Ok(HOST.run("profile", move || stacks.profile(kind, (began.wall, lasted), |_| false)).await)
    }

    async fn heap(&self, lasts: Duration) -> Result<Profile, NoProfile> {
        let recording = Recording::begin().ok_or(NoProfile::Busy)?;
        let both = prepare(recording).await;
        let began = self.clock.now();
        let sampling = Sampling::start();
        let (recording, mut stacks) = self.record(both, lasts).await;
        stacks.lost += recording.lost();
        let lasted = self.clock.mono().since(began.mono);
        let kind = ProfileKind::Heap { every: allocator::EVERY.unsigned_abs() };
        let in_use = move |block: &_| sampling.is_in_use(block);
        Ok(HOST.run("profile", move || stacks.profile(kind, (began.wall, lasted), in_use)).await)
    }
}

#[cfg(test)]
mod tests;
