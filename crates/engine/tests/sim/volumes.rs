//! Volumes whose content follows something that changes.

use std::time::Duration;

use crate::sim::{Sim, static_pod};

async fn with_volume(seed: u64, follows: bool) -> Sim {
    let sim = Sim::seeded(seed).await;
    if follows {
        sim.volumes.set_follows_changes(None);
    }
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(5).await;
    sim
}

async fn send_change(sim: &Sim) {
    let changes = sim.object_changes.as_ref().expect("an engine runs");
    changes.send("web-uid".into()).await.expect("it listens");
}

fn emitted(sim: &Sim, line: &str) -> usize {
    sim.events.lines("web").iter().filter(|l| l.starts_with(line)).count()
}

#[tokio::test(start_paused = true)]
async fn vol_06_content_is_brought_up_to_date_by_every_periodic_sync() {
    let sim = with_volume(90, true).await;
    let before = sim.volumes.set_ups();
    sim.pass(300).await;
    let again = sim.volumes.set_ups() - before;
    assert!((3..=5).contains(&again), "{again} times in 300 s, with 60 to 90 s between two");
}

#[tokio::test(start_paused = true)]
async fn content_that_never_changes_is_set_up_once() {
    let sim = with_volume(91, false).await;
    send_change(&sim).await;
    sim.pass(300).await;
    assert_eq!(sim.volumes.set_ups(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_an_object_or_of_the_pod_reaches_the_volume_at_once() {
    let sim = with_volume(92, true).await;
    let before = sim.volumes.set_ups();
    send_change(&sim).await;
    sim.until(1, "the object", async |sim| sim.volumes.set_ups() == before + 1).await;
    sim.files.put(static_pod("web").label("new", "yes").empty_dir("data", "/data").build());
    sim.until(1, "the label", async |sim| sim.volumes.set_ups() == before + 2).await;
    assert_eq!(sim.runtime.calls("web").iter().filter(|call| call.starts_with("start ")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_the_next_periodic_sync() {
    let sim = Sim::seeded(93).await;
    let renew_at = sim.clock.now().wall + Duration::from_secs(30);
    sim.volumes.set_follows_changes(Some(renew_at));
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(20).await;
    let before = sim.volumes.set_ups();
    sim.until(10, "the renewal", async |sim| sim.volumes.set_ups() > before).await;
    // It was asked for in vain: no hurry.
    sim.pass(10).await;
    assert!(sim.volumes.set_ups() <= before + 2);
}

#[tokio::test(start_paused = true)]
async fn vol_12_a_pod_waits_for_what_is_missing_and_starts_as_soon_as_it_is_there() {
    let sim = Sim::seeded(94).await;
    sim.volumes.refuse("data", Some("configmap \"y\" not found"));
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.pass(100).await;
    let line = "Warning FailedMount: MountVolume.SetUp failed for volume \"data\" : configmap \"y\" not found";
    let times = emitted(&sim, line);
    assert!((6..=9).contains(&times), "emitted {times} times in 100 s: after 0.5 s, 1 s, 2 s, 4 s …");
    sim.volumes.refuse("data", None);
    send_change(&sim).await;
    sim.until_ready(&["web"], 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_keeps_the_content_that_it_has() {
    let sim = with_volume(95, true).await;
    sim.volumes.refuse("data", Some("secret \"s\" not found"));
    send_change(&sim).await;
    sim.pass(60).await;
    assert!(sim.is_ready("web").await);
    let line = "Warning FailedMount: MountVolume.SetUp failed for volume \"data\" : secret \"s\" not found";
    let times = emitted(&sim, line);
    assert!((4..=8).contains(&times), "emitted {times} times");
    sim.volumes.refuse("data", None);
    let before = sim.volumes.set_ups();
    send_change(&sim).await;
    sim.until(1, "the content", async |sim| sim.volumes.set_ups() > before).await;
    let before = emitted(&sim, "Warning FailedMount");
    sim.pass(300).await;
    assert_eq!(emitted(&sim, "Warning FailedMount"), before);
}

#[tokio::test(start_paused = true)]
async fn vol_04_a_volume_that_no_container_uses_is_not_set_up() {
    let sim = Sim::seeded(96).await;
    let unused = k8s_openapi::api::core::v1::Volume { name: "unused".into(), ..Default::default() };
    sim.files.put(static_pod("web").volume(unused).empty_dir("data", "/data").build());
    sim.until_ready(&["web"], 5).await;
    assert_eq!(sim.volumes.made(), [("web-uid".into(), "data".to_owned())]);
}
