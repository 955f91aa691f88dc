//! The only reader of real clocks.
//!
//! All other code gets a [`Now`] as an argument. In a test the clock is virtual: both times follow tokio's paused time, so that a
//! minute passes in no time and always the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rubelet_core::time::{Instant, Now};
use tokio::time::Instant as TokioInstant;

/// Reads time and waits for it.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    start: TokioInstant,
    wall: Wall,
}

#[derive(Debug)]
enum Wall {
    /// The machine's.
    Real,
    /// This time at the start, then in step with tokio's time, plus the milliseconds by which it was set.
    Virtual(jiff::Timestamp, AtomicI64),
}

impl Clock {
    /// The machine's clocks, counting from now.
    pub fn real() -> Self {
        Self::with(Wall::Real)
    }

    /// A wall clock that shows `start` now and follows tokio's time.
    pub fn virtual_from(start: jiff::Timestamp) -> Self {
        Self::with(Wall::Virtual(start, AtomicI64::new(0)))
    }

    fn with(wall: Wall) -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
        let start = TokioInstant::now();
        Self { inner: Arc::new(Inner { start, wall }) }
    }

    /// The moment from which the monotonic time counts.
    pub fn at_start(&self) -> Now {
        let gone = jiff::SignedDuration::try_from(self.mono().since(Instant::START)).unwrap_or_default();
        let wall = self.wall();
        Now { mono: Instant::START, wall: wall.checked_sub(gone).unwrap_or(wall) }
    }

    /// Monotonic time since the start.
    pub fn mono(&self) -> Instant {
        Instant::from_duration(self.inner.start.elapsed())
    }

    /// The wall clock.
    pub fn wall(&self) -> jiff::Timestamp {
        match self.inner.wall {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
            Wall::Real => jiff::Timestamp::now(),
            Wall::Virtual(start, ref set) => {
                let gone = jiff::SignedDuration::try_from(self.inner.start.elapsed()).unwrap_or_default();
                let set = jiff::SignedDuration::from_millis(set.load(Ordering::Relaxed));
                start.checked_add(gone.saturating_add(set)).unwrap_or(start)
            }
        }
    }

    /// Sets a virtual wall clock forward or back, as an administrator or NTP would. Does nothing to the real clock.
    pub fn set_wall(&self, by: jiff::SignedDuration) {
        if let Wall::Virtual(_, set) = &self.inner.wall {
            set.fetch_add(i64::try_from(by.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Monotonic and wall time.
    pub fn now(&self) -> Now {
        Now { mono: self.mono(), wall: self.wall() }
    }

    /// Waits until `due`; for ever if it is `None`.
    pub async fn sleep_until(&self, due: Option<Instant>) {
        match due {
            Some(due) => tokio::time::sleep_until(self.inner.start + due.since_start()).await,
            None => std::future::pending().await,
        }
    }
}

/// Measures how long our own code runs, in real time even if a test pauses tokio's. No decision depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Counts from now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Real time since the start.
    pub(crate) fn elapsed(self) -> std::time::Duration {
        self.0.elapsed()
    }
}
