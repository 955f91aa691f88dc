//! Rotation of container logs (LOG-04).

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_core::log_rotation::{LogPolicy, LogRotation};
use rubelet_testkit::Behaviour;

use crate::sim::{Sim, static_pod};

const MAX: u64 = 1_000_000;

async fn node(seed: u64) -> Sim {
    let mut sim = Sim::stopped(seed);
    let policy = LogPolicy { max_size: MAX, max_files: 4 };
    sim.log_rotation = Some(LogRotation { policy, interval: Duration::from_secs(10), workers: 1 });
    sim.files.push([static_pod("web").build()]);
    sim.start().await;
    sim.until_ready(&["web"], 30).await;
    sim
}

fn sizes(sim: &Sim) -> BTreeMap<String, u64> {
    sim.logs.files("web", "app")
}

/// Writes evenly for a while; answers with the greatest size of the live log.
async fn write(sim: &Sim, bytes_per_second: u64, secs: u64) -> u64 {
    let mut greatest = 0;
    for _ in 0..secs * 100 {
        sim.logs.write("web", "app", bytes_per_second / 100);
        tokio::time::sleep(Duration::from_millis(10)).await;
        greatest = greatest.max(sizes(sim).get("0.log").copied().unwrap_or_default());
    }
    greatest
}

#[tokio::test(start_paused = true)]
async fn log_04_a_log_that_is_written_fast_is_rotated_near_its_limit() {
    let sim = node(1).await;
    sim.pass(60).await;
    // From a long rest: at most what is written in one interval is too much.
    let burst = write(&sim, 10 * MAX, 12).await;
    assert!(burst <= MAX + 10 * 10 * MAX, "{burst}");
    // Then it is rotated when it would be full before the next look; only a rotation may take longer than the one before.
    let steady = write(&sim, 10 * MAX, 10).await;
    assert!(steady <= MAX + MAX / 2, "{steady}");
    let slow = write(&sim, MAX / 10, 60).await;
    assert!(slow <= MAX + MAX / 10, "{slow}");
    let files = sizes(&sim);
    assert_eq!(files.len(), 4, "{files:?}");
    let plain = files.keys().filter(|name| !name.ends_with(".gz")).count();
    assert_eq!(plain, 2, "the live log and the newest rotated one: {files:?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn log_04_a_log_that_nobody_writes_costs_nothing_but_a_look() {
    let sim = node(2).await;
    sim.pass(60).await;
    let calls = sim.runtime.counts();
    sim.pass(600).await;
    let asked =
        |name: &str| sim.runtime.counts().get(name).copied().unwrap_or_default() - calls.get(name).unwrap_or(&0);
    assert_eq!(asked("reopen_container_log"), 0);
    assert_eq!(sizes(&sim), BTreeMap::from([("0.log".to_owned(), 0)]));
}

#[tokio::test(start_paused = true)]
async fn log_04_a_log_that_cannot_be_opened_anew_has_its_name_again() {
    let sim = node(3).await;
    sim.runtime.refuse("reopen_container_log", 0, 3);
    sim.logs.write("web", "app", 2 * MAX);
    sim.until(60, "all refusals", async |sim| sim.runtime.has_refused_all()).await;
    sim.until(1, "the name", async |sim| sizes(sim) == BTreeMap::from([("0.log".to_owned(), 2 * MAX)])).await;
    sim.logs.write("web", "app", 5);
    sim.until(20, "a rotation", async |sim| sizes(sim).len() == 2).await;
    let total: u64 = sizes(&sim).values().sum();
    assert_eq!(total, 2 * MAX + 5, "not a byte is lost");
}

#[tokio::test(start_paused = true)]
async fn log_04_a_missing_log_is_opened_anew() {
    let mut sim = node(4).await;
    sim.logs.set_file("web", "app", "0.log", None);
    sim.until(30, "the log", async |sim| sizes(sim).contains_key("0.log")).await;
    // The agent dies between renaming and opening anew.
    sim.kill();
    sim.logs.set_file("web", "app", "0.log.20260101-000000", Some(7));
    sim.logs.set_file("web", "app", "0.log", None);
    sim.start().await;
    sim.until(30, "the log", async |sim| sizes(sim).contains_key("0.log")).await;
    assert!(sizes(&sim).contains_key("0.log.20260101-000000"));
}

#[tokio::test(start_paused = true)]
async fn log_04_logs_are_rotated_after_a_restart_of_the_agent() {
    let mut sim = node(5).await;
    sim.kill();
    sim.logs.write("web", "app", 5 * MAX);
    sim.start().await;
    sim.until(15, "a rotation", async |sim| sizes(sim).len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn log_04_the_logs_of_a_crash_loop_are_bounded() {
    let mut sim = Sim::stopped(6);
    let policy = LogPolicy { max_size: MAX, max_files: 3 };
    sim.log_rotation = Some(LogRotation { policy, interval: Duration::from_secs(10), workers: 1 });
    sim.runtime.script("web/app", [Behaviour::exits_after(Duration::from_secs(1), 1)]);
    sim.files.push([static_pod("web").build()]);
    sim.start().await;
    for _ in 0..8 {
        // The crash loop back-off grows to 300 s: the container is started at least once in this time.
        sim.pass(400).await;
        let files = sizes(&sim);
        assert!(files.len() <= 2 * 3, "{files:?}");
        let newest = files.keys().filter_map(|name| name.split_once('.')?.0.parse().ok()).max().unwrap_or(0_u32);
        for forgotten in 0..newest.saturating_sub(1) {
            sim.logs.set_file("web", "app", &format!("{forgotten}.log"), Some(MAX));
            sim.logs.set_file("web", "app", &format!("{forgotten}.log.20260101-000000"), Some(MAX));
        }
    }
}

/// What the log's file may not do whatever fails: lose bytes to a rename, or stay without a bound.
#[tokio::test(start_paused = true)]
async fn log_04_no_byte_is_lost_while_calls_to_the_runtime_fail() {
    for seed in 10..20 {
        let mut sim = node(seed).await;
        sim.runtime.set_faults(rubelet_testkit::Faults::MANY);
        let mut greatest = 0;
        for round in 0..40 {
            sim.logs.write("web", "app", MAX / 2);
            sim.pass(3).await;
            if round % 13 == 12 {
                sim.restart().await;
            }
            greatest = greatest.max(sizes(&sim).values().copied().max().unwrap_or_default());
        }
        sim.runtime.set_faults(rubelet_testkit::Faults::NONE);
        sim.until(60, "the bound", async |sim| {
            let files = sizes(sim);
            files.len() <= 4 && files.get("0.log").is_some_and(|size| *size < MAX)
        })
        .await;
        sim.check_laws();
    }
}
