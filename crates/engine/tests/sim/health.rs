//! Whether the runtime is up: patient with one that was, quick with one that comes.

use std::sync::Arc;
use std::time::Duration;

use rubelet_engine::clock::Clock;
use rubelet_engine::health::{RuntimeHealth, watch_runtime};
use rubelet_testkit::{FakeRuntime, TestClock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

struct Rig {
    runtime: FakeRuntime,
    health: watch::Receiver<RuntimeHealth>,
    _tasks: tokio::task::JoinSet<()>,
}

fn rig(prepare: impl FnOnce(&FakeRuntime)) -> Rig {
    let clock = TestClock::start();
    let runtime = FakeRuntime::new(clock);
    prepare(&runtime);
    let (sender, health) = watch::channel(RuntimeHealth::default());
    let mut tasks = tokio::task::JoinSet::new();
    let watched = Arc::new(runtime.clone());
    let clock = Clock::virtual_from(clock.now().wall);
    tasks.spawn(watch_runtime(watched, clock, sender, CancellationToken::new()));
    Rig { runtime, health, _tasks: tasks }
}

async fn pass(secs: u64) {
    tokio::time::sleep(Duration::from_secs(secs)).await;
}

fn asked(rig: &Rig) -> u64 {
    rig.runtime.counts().get("status").copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_was_up_has_thirty_seconds_to_answer_boot_13() {
    let rig = rig(|_| {});
    pass(1).await;
    assert!(rig.health.borrow().up);
    rig.runtime.go_away(Duration::from_secs(100));
    pass(25).await;
    assert!(rig.health.borrow().up, "a slow answer is only slow");
    assert!(rig.health.borrow().problem.is_some(), "but people can see it");
    pass(15).await;
    assert!(!rig.health.borrow().up);
    pass(75).await;
    assert!(rig.health.borrow().up && rig.health.borrow().problem.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_away_is_asked_more_and_more_seldom_loop_02() {
    let rig = rig(|runtime| runtime.go_away(Duration::from_secs(600)));
    pass(3).await;
    assert!((5..=6).contains(&asked(&rig)), "at 0, 0.1, 0.3, 0.7, 1.5 and 3.1 s: {}", asked(&rig));
    let before = asked(&rig);
    pass(60).await;
    assert!(asked(&rig) - before <= 14, "then every five seconds: {}", asked(&rig) - before);
    assert!(!rig.health.borrow().up, "it never was up, so there is nothing to be patient with");
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_one_that_does_not_answer() {
    let rig = rig(|_| {});
    pass(1).await;
    rig.runtime.set_silent(true);
    pass(45).await;
    assert!(!rig.health.borrow().up);
    rig.runtime.set_silent(false);
    pass(40).await;
    assert!(rig.health.borrow().up);
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_not_ready_is_no_reason_to_stop_working_sync_05() {
    let rig = rig(|runtime| runtime.set_network(false, "cni config uninitialized"));
    pass(1).await;
    let health = rig.health.borrow().clone();
    assert!(health.up);
    assert_eq!(health.network_problem().as_deref(), Some("cni config uninitialized"));
}
