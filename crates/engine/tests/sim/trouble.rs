//! One thing goes wrong, and every other pod goes on unharmed.

use std::time::Duration;

use rubelet_core::lifecycle::Stage;
use rubelet_engine::ports::RpcErrorKind;
use rubelet_testkit::{Behaviour, Pull};

use crate::sim::{Sim, phase, static_pod};

async fn waiting_reason(sim: &Sim, pod: &str) -> Option<String> {
    let pod = sim.pod(pod).await?;
    pod.status.container_statuses.iter().flatten().find_map(|c| c.state.as_ref()?.waiting.as_ref()?.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_exist_harms_that_pod_alone() {
    let sim = Sim::seeded(20).await;
    sim.runtime.script("sick", [Behaviour::fails_to_start("exec: \"nope\": executable file not found in $PATH")]);
    sim.files.push([static_pod("sick").container("sick").build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 10).await;
    sim.until(10, "the reason", async |sim| waiting_reason(sim, "sick").await.as_deref() == Some("RunContainerError"))
        .await;
    let pod = sim.pod("sick").await.expect("known");
    assert!(pod.problem.is_some_and(|p| p.contains("executable file not found")));
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_had_is_tried_again_more_and_more_seldom() {
    let sim = Sim::seeded(21).await;
    sim.runtime.script_pull("gone:1", Pull::Fails(RpcErrorKind::NotFound, "not found".into()));
    sim.files.push([static_pod("sick").image("gone:1").build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 10).await;
    sim.until(30, "back-off", async |sim| waiting_reason(sim, "sick").await.as_deref() == Some("ImagePullBackOff"))
        .await;
    sim.pass(300).await;
    let pulls = sim.runtime.counts().get("pull_image").copied().unwrap_or_default();
    assert!((5..=9).contains(&pulls), "{pulls} pulls in five minutes");
    let lines = sim.events.lines("sick");
    assert!(lines.contains(&"Warning Failed spec.containers{app}: Error: ErrImagePull".to_owned()), "{lines:?}");
}

// IMG-01, IMG-02
#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_inspected_or_has_no_valid_name_is_reported_and_not_pulled() {
    let sim = Sim::seeded(32).await;
    sim.runtime.script_inspection("broken:1", Some("blob is corrupt"));
    sim.files.push([static_pod("broken").image("broken:1").build(), static_pod("odd").image("Odd Name:1").build()]);
    for (pod, reason, event) in [
        ("broken", "ImageInspectError", "Failed to inspect image \"broken:1\": "),
        ("odd", "InvalidImageName", "Failed to apply default image tag \"Odd Name:1\": "),
    ] {
        sim.until(10, reason, async |sim| waiting_reason(sim, pod).await.as_deref() == Some(reason)).await;
        let event = format!("Warning InspectFailed spec.containers{{app}}: {event}");
        let lines = sim.events.lines(pod);
        assert!(lines.iter().any(|line| line.starts_with(&event)), "{lines:?}");
    }
    assert_eq!(sim.runtime.counts().get("pull_image"), None);
    sim.runtime.script_inspection("broken:1", None);
    sim.until_ready(&["broken"], 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_on_one_pod_delays_that_pod_alone() {
    let sim = Sim::seeded(22).await;
    let sick = static_pod("sick").uid("sick").build();
    sim.files.push([sick, static_pod("web").build()]);
    sim.until_ready(&["sick", "web"], 10).await;
    sim.runtime.hang(&"sick".into());
    sim.runtime.end_container("sick", "app", 1);
    sim.runtime.end_container("web", "app", 1);
    sim.until(5, "the healthy one to be restarted", async |sim| {
        sim.runtime.calls("web").iter().filter(|c| *c == "start app").count() == 2
    })
    .await;
    sim.files.put(static_pod("other").build());
    sim.until_ready(&["web", "other"], 5).await;
    assert!(sim.view().await.runtime.up, "the node is healthy");
    sim.runtime.release(&"sick".into());
    sim.until_ready(&["sick"], 180).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_new_pods_with_a_clear_message_and_no_other() {
    let sim = Sim::seeded(23).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.dirs.set_full(true);
    sim.files.put(static_pod("late").build());
    sim.until(10, "the message", async |sim| {
        let pod = sim.pod("late").await;
        pod.and_then(|p| p.problem).is_some_and(|p| p.contains("error making pod data directories"))
    })
    .await;
    let event = "Warning Failed: error making pod data directories: ";
    assert!(sim.events.lines("late").iter().any(|line| line.starts_with(event)), "{:?}", sim.events.lines("late"));
    assert!(sim.is_ready("web").await);
    sim.dirs.set_full(false);
    sim.until_ready(&["late"], 20).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_was_away_for_a_moment_is_used_as_soon_as_it_is_back() {
    let sim = Sim::seeded(31).await;
    sim.files.put(static_pod("old").build());
    sim.until_ready(&["old"], 5).await;
    // Shorter than the time after which it counts as down.
    sim.runtime.go_away(Duration::from_secs(8));
    sim.files.put(static_pod("new").build());
    sim.pass(8).await;
    let back = sim.clock.elapsed();
    sim.until_ready(&["new"], 30).await;
    let took = sim.clock.elapsed() - back;
    assert!(took < Duration::from_secs(6), "the runtime is asked every five seconds, and it took {took:?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn while_the_runtime_is_away_pods_wait_and_then_go_on() {
    let sim = Sim::seeded(24).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.go_away(Duration::from_secs(90));
    sim.pass(60).await;
    assert!(!sim.view().await.runtime.up);
    sim.files.put(static_pod("late").build());
    sim.until_ready(&["web", "late"], 90).await;
    assert_eq!(sim.runtime.calls("web").iter().filter(|c| *c == "start app").count(), 1, "nothing was restarted");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn without_events_everything_is_seen_within_two_seconds() {
    let sim = Sim::seeded(25).await;
    sim.runtime.set_hints(false);
    sim.pass(70).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.end_container("web", "app", 1);
    sim.until(3, "the restart", async |sim| sim.runtime.calls("web").iter().filter(|c| *c == "start app").count() == 2)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_cannot_be_undone_stays_and_says_so() {
    let sim = Sim::seeded(26).await;
    sim.volumes.set_stuck("data", true);
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.until(40, "it to be stuck", async |sim| sim.pod("web").await.is_some_and(|p| p.problem.is_some())).await;
    assert!(matches!(sim.stage("web").await, Some(Stage::Terminated { .. })));
    sim.volumes.set_stuck("data", false);
    sim.until_gone("web", 30).await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_ended_only_when_every_source_has_been_read_rst_04() {
    let mut sim = Sim::seeded(27).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.kill();
    sim.files = rubelet_testkit::FakeSource::new(rubelet_core::pod::Source::File);
    sim.start().await;
    sim.pass(120).await;
    assert_eq!(sim.runtime.running("web"), ["app"], "its source has not been read yet");
    sim.files.push([]);
    sim.until_gone("web", 60).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_dies_is_replaced_and_its_containers_start_again() {
    let sim = Sim::seeded(28).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.end_sandbox("web");
    sim.until(40, "the second sandbox", async |sim| {
        sim.runtime.calls("web").iter().any(|c| c.starts_with("run_sandbox attempt=1"))
    })
    .await;
    sim.until_ready(&["web"], 20).await;
    let event = "Normal SandboxChanged: Pod sandbox changed, it will be killed and re-created.".to_owned();
    assert!(sim.events.lines("web").contains(&event), "{:?}", sim.events.lines("web"));
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails_loop_11() {
    let sim = Sim::seeded(29).await;
    sim.files.put(static_pod("web").active_deadline_secs(30).build());
    sim.until_ready(&["web"], 5).await;
    sim.until(40, "it to fail", async |sim| sim.pod("web").await.is_some_and(|p| phase(&p) == "Failed")).await;
    assert!(sim.clock.elapsed() >= Duration::from_secs(29));
    let pod = sim.pod("web").await.expect("known");
    assert_eq!(pod.status.reason.as_deref(), Some("DeadlineExceeded"));
    let event = "Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline";
    assert_eq!(
        sim.events.lines("web").iter().filter(|line| *line == event).count(),
        1,
        "{:?}",
        sim.events.lines("web")
    );
    sim.until(10, "its end", async |sim| sim.runtime.running("web").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_long_been_at_rest_fails_at_its_deadline_too_loop_11() {
    let sim = Sim::seeded(31).await;
    sim.files.put(static_pod("web").active_deadline_secs(600).build());
    sim.until_ready(&["web"], 5).await;
    sim.until(610, "it to fail", async |sim| sim.pod("web").await.is_some_and(|p| phase(&p) == "Failed")).await;
    assert!(sim.clock.elapsed() >= Duration::from_secs(599));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_class_that_names_no_handler_harms_that_pod_alone() {
    let sim = Sim::seeded(30).await;
    let classy = static_pod("classy").edit_spec(|spec| spec.runtime_class_name = Some("gvisor".into()));
    sim.files.push([classy.build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 10).await;
    sim.until(10, "the message", async |sim| {
        let problem = sim.pod("classy").await.and_then(|pod| pod.problem);
        problem.is_some_and(|p| p.contains("\"gvisor\"") && p.contains("sandboxed"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn hostile_a_survey_that_hangs_ends_neither_housekeeping_nor_what_it_can_see() {
    let mut sim = Sim::seeded(29).await;
    sim.files.put(static_pod("web").build());
    sim.files.put(static_pod("other").build());
    sim.until_ready(&["web", "other"], 5).await;
    sim.kill();
    sim.dirs.set_list_hung(true);
    sim.files = rubelet_testkit::FakeSource::new(rubelet_core::pod::Source::File);
    sim.files.push([static_pod("other").build()]);
    sim.start().await;
    // Found in the runtime, and by its cgroup and logs, though its directory cannot be listed.
    sim.until_gone("web", 120).await;
    sim.dirs.set_list_hung(false);
    let leftover = "left-behind".into();
    rubelet_engine::ports::PodDirs::make(&sim.dirs, &leftover).await.expect("made");
    sim.dirs.write(&leftover, "/var/lib/kubelet/pods/left-behind/etc-hosts", b"x");
    sim.until(150, "the directory to be found and removed", async |sim| {
        sim.dirs.read(&"left-behind".into(), "/var/lib/kubelet/pods/left-behind/etc-hosts").is_none()
    })
    .await;
    sim.check_laws();
}
