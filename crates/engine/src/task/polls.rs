//! How long polls of tasks take. The agent has one thread (ADR 7): while one task is polled, all others wait, so the
//! longest poll is the longest time during which nothing else happened (ADR 16).
//!
//! Every poll of a task that is started through [`TaskGroup`](super::TaskGroup) or wrapped in [`timed`] is measured, in
//! real time even if a test pauses tokio's. The record belongs to the thread that starts the task: a second thread with its
//! own runtime has its own record, and tests do not affect each other. Polling writes atomics and takes no lock; the
//! record can be read from any thread.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::warn;

use crate::clock::Stopwatch;

/// A poll that takes longer is counted.
const LONG: Duration = Duration::from_millis(10);
/// A poll that takes longer is counted separately and logged: a user at a terminal notices it.
const TOO_LONG: Duration = Duration::from_millis(100);
/// How often polls that take too long are logged: one that recurs every second must not fill the log.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// How many names of tasks are counted separately. All names are in the source, about thirty; any beyond this limit are
/// counted together as [`OTHER`].
const MOST: usize = 64;
const OTHER: &str = "other";

/// A clock for measuring polls: nanoseconds since any fixed moment.
pub type PollClock = fn() -> u64;

thread_local! {
    static HERE: Arc<Polls> = Arc::new(Polls::new());
}

/// The measurements of one thread since its first task was started.
#[derive(Debug)]
pub struct Polls {
    began: Stopwatch,
    /// A clock that replaces real time, if one was set.
    clock: OnceLock<PollClock>,
    kinds: [Kind; MOST],
    /// When a poll was last logged as too long, in nanoseconds since `began`; zero for never.
    logged: AtomicU64,
    /// Polls that took too long and were not logged since.
    unlogged: AtomicU64,
}

/// All tasks of one name.
#[derive(Debug, Default)]
struct Kind {
    name: OnceLock<&'static str>,
    polls: AtomicU64,
    longest_nanos: AtomicU64,
    long: AtomicU64,
    too_long: AtomicU64,
}

/// The measurements of all tasks of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPolls {
    /// The name that the task was started by.
    pub task: &'static str,
    /// How often it was polled.
    pub polls: u64,
    /// The longest poll.
    pub longest: Duration,
    /// Polls of more than 10 ms.
    pub over_10_ms: u64,
    /// Polls of more than 100 ms; they are among those of more than 10 ms.
    pub over_100_ms: u64,
}

impl Polls {
    fn new() -> Self {
        Self {
            began: Stopwatch::start(),
            clock: OnceLock::new(),
            kinds: std::array::from_fn(|_| Kind::default()),
            logged: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        }
    }

    /// The record of this thread.
    pub fn here() -> Arc<Self> {
        HERE.with(Arc::clone)
    }

    /// Measures polls by `clock` from now on, such as the thread's CPU time: on a busy machine real time includes the time
    /// of other processes. The first clock that is set stays.
    pub fn measure_by(&self, clock: PollClock) {
        let _set_before = self.clock.set(clock);
    }

    fn now(&self) -> u64 {
        match self.clock.get() {
            Some(clock) => clock(),
            None => nanos(self.began.elapsed()),
        }
    }

    /// Every kind of task that was polled.
    pub fn tasks(&self) -> impl Iterator<Item = TaskPolls> {
        let measured = |kind: &Kind| {
            let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            Some(TaskPolls {
                task: kind.name.get()?,
                polls: number(&kind.polls),
                longest: Duration::from_nanos(number(&kind.longest_nanos)),
                over_10_ms: number(&kind.long),
                over_100_ms: number(&kind.too_long),
            })
        };
        self.kinds.iter().filter_map(measured).filter(|task| task.polls > 0)
    }

    /// The task with the longest poll; `None` before the first poll.
    pub fn longest(&self) -> Option<TaskPolls> {
        self.tasks().max_by_key(|task| task.longest)
    }

    /// The index of the counters for `name`. The first task of a name takes a place, and it is never freed.
    fn place(&self, name: &'static str) -> usize {
        let last = MOST - 1;
        let found = self.kinds.iter().take(last).position(|kind| *kind.name.get_or_init(|| name) == name);
        found.unwrap_or_else(|| {
            self.kinds.get(last).map(|kind| kind.name.get_or_init(|| OTHER));
            last
        })
    }

    fn took(&self, place: usize, time: Duration) {
        let Some(kind) = self.kinds.get(place) else { return };
        kind.polls.fetch_add(1, Ordering::Relaxed);
        kind.longest_nanos.fetch_max(nanos(time), Ordering::Relaxed);
        if time > LONG {
            kind.long.fetch_add(1, Ordering::Relaxed);
        }
        if time > TOO_LONG {
            kind.too_long.fetch_add(1, Ordering::Relaxed);
            self.log(kind, time);
        }
    }

    fn log(&self, kind: &Kind, time: Duration) {
        let now = nanos(self.began.elapsed()).max(1);
        let before = self.logged.load(Ordering::Relaxed);
        if before != 0 && now.saturating_sub(before) < nanos(LOG_PERIOD) {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.logged.store(now, Ordering::Relaxed);
        let others = self.unlogged.swap(0, Ordering::Relaxed);
        let task = kind.name.get().copied().unwrap_or(OTHER);
        let millis = time.as_millis();
        warn!(
            task,
            millis, others, "A task held up all others for too long: the machine is overloaded, or this is a bug"
        );
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Measures every poll of `future` as one of the task `name`. The names are few and fixed: a kind of task, never a pod.
pub fn timed<F: Future>(name: &'static str, future: F) -> Timed<F> {
    let polls = Polls::here();
    let place = polls.place(name);
    Timed { future: Box::pin(future), polls, place }
}

/// See [`timed`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Timed<F> {
    // Boxed rather than projected: that needs no unsafe code, and makes a task cheaper to move.
    future: Pin<Box<F>>,
    polls: Arc<Polls>,
    place: usize,
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = self.polls.now();
        let polled = self.future.as_mut().poll(cx);
        let time = self.polls.now().saturating_sub(began);
        self.polls.took(self.place, Duration::from_nanos(time));
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::task::TaskGroup;
    use tokio_util::sync::CancellationToken;

    /// Blocks the thread in real time, as a long computation does.
    fn hold_up(time: Duration) {
        let watch = Stopwatch::start();
        while watch.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    fn of(task: &str) -> Option<TaskPolls> {
        Polls::here().tasks().find(|polls| polls.task == task)
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_poll_of_each_kind_is_kept_and_waiting_does_not_count() {
        let mut group = TaskGroup::new(&CancellationToken::new());
        for millis in [1, 12, 3] {
            group.start("busy", async move {
                hold_up(Duration::from_millis(millis));
                // An hour of tokio's time: a task that waits blocks nothing.
                tokio::time::sleep(Duration::from_secs(3600)).await;
            });
        }
        group.start("idle", async {});
        while group.next_end().await.is_some() {}
        let busy = of("busy").expect("polled");
        assert_eq!((busy.polls, busy.over_100_ms), (6, 0), "{busy:?}");
        assert!(busy.over_10_ms >= 1 && busy.longest >= Duration::from_millis(12), "{busy:?}");
        assert!(busy.longest < Duration::from_secs(60), "{busy:?}");
        assert_eq!(of("idle").map(|idle| idle.polls), Some(1));
        assert_eq!(Polls::here().longest().map(|longest| longest.task), Some("busy"));
    }

    #[tokio::test]
    async fn a_poll_that_takes_too_long_is_counted_each_time_and_logged_once_a_minute() {
        let polls = Polls::new();
        let place = polls.place("slow");
        for _ in 0..3 {
            polls.took(place, Duration::from_millis(101));
        }
        polls.took(place, Duration::from_millis(100));
        let slow = polls.longest().expect("polled");
        assert_eq!((slow.polls, slow.over_10_ms, slow.over_100_ms), (4, 4, 3));
        assert_eq!(polls.unlogged.load(Ordering::Relaxed), 2, "the first was logged, two others wait for their minute");
    }

    #[test]
    fn polls_are_measured_by_the_clock_that_was_set() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        Polls::here().measure_by(|| NOW.load(Ordering::Relaxed));
        let future = timed("busy", async {
            NOW.fetch_add(nanos(Duration::from_millis(70)), Ordering::Relaxed);
        });
        futures_util::FutureExt::now_or_never(future).expect("ready at once");
        assert_eq!(of("busy").map(|busy| busy.longest), Some(Duration::from_millis(70)));
    }

    #[test]
    fn a_thread_has_a_record_of_its_own() {
        let future = timed("here", async {});
        let elsewhere = std::thread::spawn(|| Polls::here().tasks().count()).join().expect("no panic");
        futures_util::FutureExt::now_or_never(future).expect("ready at once");
        assert_eq!((elsewhere, of("here").map(|here| here.polls)), (0, Some(1)));
    }

    #[test]
    fn more_kinds_than_there_are_places_are_counted_together() {
        static NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
        let polls = Polls::new();
        // Slices of one string serve as names.
        static LONG_NAME: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
        let places: BTreeSet<usize> =
            (1..MOST).filter_map(|n| LONG_NAME.get(..n)).map(|name| polls.place(name)).collect();
        assert_eq!(places.len(), MOST - 1);
        for name in NAMES {
            assert_eq!(polls.place(name), MOST - 1);
            polls.took(polls.place(name), Duration::from_millis(1));
        }
        let other = polls.longest().expect("polled");
        assert_eq!((other.task, other.polls), (OTHER, 7));
        assert_eq!(polls.place("xx"), 1, "a name that has a place keeps it");
    }
}
