//! Bad days of a pod's life, one test for each. Those of probes and hooks are beside the others of their kind.
//!
//! | what goes wrong | test |
//! |---|---|
//! | a probe never answers | `probes_that_never_answer_fail_and_delay_no_other`; on sockets `a_broken_answer_is_an_error_with_upstreams_text` |
//! | a probe answers without end | `a_command_that_prints_without_end_is_cut`; on sockets `an_answer_without_end_is_read_in_part` |
//! | a probe redirects to itself | `one_that_redirects_to_itself_fails_prb_12`; on sockets `a_redirect_loop_ends_after_ten_requests` |
//! | a hook hangs | `a_hook_that_hangs_costs_the_grace_and_no_more_hook_03`, `a_hook_that_hangs_holds_up_its_own_pod_alone` |
//! | a container ignores SIGTERM | `a_pod_gets_its_grace_and_no_more` |
//! | a container cannot be killed | `a_pod_has_not_ended_while_anything_of_it_runs_term_04`, `what_no_signal_ends_keeps_its_pod_which_names_it_and_no_other_kill_01` |
//! | the runtime cannot stop a container | `what_cannot_be_stopped_ends_with_its_sandbox_after_the_grace_kill_01`, `what_the_runtime_never_stops_is_killed_by_its_cgroup_after_the_grace_kill_01` |
//! | the clock jumps | `a_clock_that_jumps_restarts_nothing_and_delays_no_probe` |
//! | a pod is updated a hundred times in a second | `a_hundred_updates_in_a_second_are_a_few_jobs` |
//! | a delete comes between CreateContainer and StartContainer | `a_pod_deleted_between_create_and_start_is_never_started` |
//! | the runtime does not know what it has just made | `a_runtime_that_forgets_what_it_has_just_made_is_asked_again` |

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, ExecAction, Probe};
use rubelet_core::lifecycle::Stage;
use rubelet_engine::ports::ExecOutput;
use rubelet_testkit::{Behaviour, Faults, Manner, Odds, Pull};

use crate::sim::{Sim, static_pod};

fn readiness(c: &mut Container) -> &mut Option<Probe> {
    &mut c.readiness_probe
}

fn liveness(c: &mut Container) -> &mut Option<Probe> {
    &mut c.liveness_probe
}

fn starts(sim: &Sim, pod: &str) -> usize {
    sim.runtime.calls(pod).iter().filter(|call| *call == "start app").count()
}

#[tokio::test(start_paused = true)]
async fn a_command_that_prints_without_end_is_cut() {
    let sim = Sim::seeded(90).await;
    let pages = ExecOutput { exit_code: 1, stdout: vec![b'x'; 20 << 20], stderr: Vec::new() };
    sim.runtime.script_exec("app", Duration::from_millis(10), pages);
    let print = |p: &mut Probe| p.exec = Some(ExecAction { command: Some(vec!["yes".to_owned()]) });
    sim.files.put(static_pod("web").probe(readiness, 1, print).build());
    sim.until(10, "a failure", async |sim| sim.events.lines("web").iter().any(|l| l.contains("Unhealthy"))).await;
    let longest = sim.events.lines("web").iter().map(String::len).max().unwrap_or_default();
    assert!(longest <= 11 << 10, "{longest} bytes in one event");
    let pod = sim.pod("web").await.expect("known");
    assert!(pod.timeline.entries().all(|entry| entry.what.len() <= 2048), "the timeline keeps little of it");
    assert!(pod.probe_troubles.iter().all(|trouble| trouble.said.len() <= 11 << 10));
}

/// The container gets its whole grace; then the sandbox is stopped, and every process in it ends.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_stopped_ends_with_its_sandbox_after_the_grace_kill_01() {
    let sim = Sim::seeded(91).await;
    sim.runtime
        .script("app", [Behaviour::runs().cannot_be_stopped("unknown error after kill: device or resource busy")]);
    sim.files.put(static_pod("web").grace_secs(20).build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.pass(15).await;
    let pod = sim.pod("web").await.expect("it has not ended");
    assert!(matches!(pod.stage, Stage::Terminating { .. }), "{:?}", pod.stage);
    assert!(pod.problem.is_some_and(|problem| problem.contains("device or resource busy")));
    let lines = sim.events.lines("web");
    let event = |line: &String| {
        line.starts_with("Warning FailedKillPod: error killing pod: ") && line.contains("device or resource busy")
    };
    assert!(lines.iter().any(event), "TERM-03: {lines:?}");
    assert!(!sim.runtime.calls("web").contains(&"stop_sandbox".to_owned()), "{:?}", sim.runtime.calls("web"));
    sim.until_gone("web", 60).await;
    sim.check_laws();
}

/// Stopping the sandbox does not end the container either: it is killed through its cgroup, and the pod is gone. Until then
/// the pod names the container that delays its end.
#[tokio::test(start_paused = true)]
async fn what_the_runtime_never_stops_is_killed_by_its_cgroup_after_the_grace_kill_01() {
    for orphan in [false, true] {
        let mut sim = Sim::seeded(98).await;
        sim.runtime.script("app", [Behaviour::runs().outlives_its_sandbox("unknown error after kill: exit status 1")]);
        sim.files.put(static_pod("web").grace_secs(20).container("app").container("good").build());
        sim.until_ready(&["web"], 5).await;
        if orphan {
            sim.kill();
            sim.files.push([]);
            sim.start().await;
        } else {
            sim.files.take_away("web");
            sim.pass(15).await;
            assert_eq!(sim.runtime.running("web"), ["app"], "it has a right to its grace");
            let problem = sim.pod("web").await.and_then(|pod| pod.problem).unwrap_or_default();
            assert!(problem.contains("container app: ") && !problem.contains("good"), "{problem}");
        }
        let ended = sim.clock.elapsed();
        sim.until_gone("web", 60).await;
        let took = sim.clock.elapsed() - ended;
        assert!(took < Duration::from_secs(40), "{took:?}");
        // The runtime was asked to stop it without grace before the cgroup was killed.
        assert!(
            sim.runtime.calls("web").iter().any(|call| call.starts_with("stop app grace=0")),
            "{:?}",
            sim.runtime.calls("web")
        );
        sim.watch_laws().await;
    }
}

/// A process in uninterruptible sleep cannot be killed. Its pod stays, reports that, and delays no other pod.
#[tokio::test(start_paused = true)]
async fn what_no_signal_ends_keeps_its_pod_which_names_it_and_no_other_kill_01() {
    let sim = Sim::seeded(99).await;
    sim.runtime.script("stuck", [Behaviour::runs().cannot_be_killed()]);
    sim.files.push([static_pod("web").grace_secs(5).container("stuck").build(), static_pod("other").build()]);
    sim.until_ready(&["web", "other"], 5).await;
    sim.files.push([]);
    sim.until(10, "the other one to be gone", async |sim| sim.pod("other").await.is_none()).await;
    sim.pass(600).await;
    let pod = sim.pod("web").await.expect("it has not ended");
    assert!(matches!(pod.stage, Stage::Terminating { .. }), "{:?}", pod.stage);
    let problem = pod.problem.unwrap_or_default();
    assert!(problem.contains("stuck still runs: ") && problem.contains("1 processes after SIGKILL"), "{problem}");
    // It is tried again now and then, not all the time.
    let stops = sim.runtime.calls("web").iter().filter(|call| call.starts_with("stop stuck")).count();
    assert!((30..=70).contains(&stops), "{stops} in ten minutes");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_restarts_nothing_and_delays_no_probe() {
    for jump in [-7200, 7200, -86_400 * 365] {
        let mut sim = Sim::seeded(93).await;
        sim.probes.set(1, Manner::Answers(200));
        sim.probes.set(2, Manner::Answers(200));
        let pod = static_pod("web").http_probe(readiness, 1, 5, |_| {}).http_probe(liveness, 2, 5, |_| {});
        sim.files.put(pod.build());
        sim.until_ready(&["web"], 10).await;
        sim.pass(20).await;
        sim.set_wall(SignedDuration::from_secs(jump));
        let asked = sim.probes.times(2).len();
        sim.pass(60).await;
        assert!(sim.is_ready("web").await, "after a jump of {jump} s");
        let later = sim.probes.times(2).len() - asked;
        assert!((11..=13).contains(&later), "asked {later} times in a minute after a jump of {jump} s");
        assert_eq!(starts(&sim, "web"), 1);
        // A container that ends now is restarted at once, and the next one is probed at once.
        sim.runtime.end_container("web", "app", 1);
        sim.until(5, "the restart", async |sim| starts(sim, "web") == 2).await;
        sim.until_ready(&["web"], 10).await;
        // One that keeps ending backs off by what the delays say, whatever the clock says.
        sim.runtime.end_container("web", "app", 1);
        sim.until(30, "the second restart", async |sim| starts(sim, "web") == 3).await;
        sim.check_laws();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_updates_in_a_second_are_a_few_jobs() {
    let sim = Sim::seeded(94).await;
    sim.files.put(static_pod("web").uid("u1").image("a:1").label("n", "0").build());
    sim.until_ready(&["web"], 5).await;
    let looks = |sim: &Sim| sim.runtime.counts().get("podsandbox_status").copied().unwrap_or_default();
    let (before, reports) = (looks(&sim), sim.statuses.of("web").len());
    for n in 1..100 {
        sim.files.put(static_pod("web").uid("u1").image("a:1").label("n", &n.to_string()).build());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sim.files.put(static_pod("web").uid("u1").image("b:1").label("n", "100").build());
    sim.until(60, "the last version", async |sim| starts(sim, "web") == 2).await;
    sim.until_ready(&["web"], 5).await;
    let image = sim.runtime.container_config("web", "app").map(|config| config.image.user_specified_image);
    assert_eq!(image.as_deref(), Some("b:1"));
    // Each update is looked at, none twice, and never two at a time; the status changes when something does.
    assert!(looks(&sim) - before <= 120, "{} looks", looks(&sim) - before);
    let mut statuses: Vec<_> = sim.statuses.of("web").into_iter().skip(reports).map(|report| report.status).collect();
    statuses.dedup();
    assert!(statuses.len() <= 10, "{} statuses", statuses.len());
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_forgets_what_it_has_just_made_is_asked_again() {
    // Of the sandbox when the container is to be made, and of the container when it is to be started.
    for wait in 0..30 {
        let sim = Sim::seeded(wait).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        sim.files.put(static_pod("web").build());
        tokio::time::sleep(Duration::from_millis(wait * 8)).await;
        sim.runtime.forget(2);
        sim.until_ready(&["web"], 20).await;
        assert!(starts(&sim, "web") <= 3, "{:?}", sim.runtime.calls("web"));
        let sandboxes = sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count();
        assert_eq!(sandboxes, 1, "{:?}", sim.runtime.calls("web"));
        sim.check_laws();
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_be_reached_for_a_moment_is_asked_again_soon() {
    let sim = Sim::seeded(95).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.set_faults(Faults { refused: Odds::ALWAYS, ..Faults::NONE });
    sim.files.take_away("web");
    sim.pass(2).await;
    sim.runtime.set_faults(Faults::NONE);
    let back = sim.clock.elapsed();
    sim.until_gone("web", 10).await;
    let took = sim.clock.elapsed() - back;
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// Whichever call could not reach the runtime: the next look comes after one to two seconds, not after ten to fifteen.
#[tokio::test(start_paused = true)]
async fn whatever_failed_because_the_runtime_was_away_is_looked_at_again_within_two_seconds() {
    // So short that only the jobs notice, at every moment of a pod's start and of its end.
    let away = Duration::from_millis(300);
    for moment in 0..40 {
        let sim = Sim::seeded(moment).await;
        // A pull that fails backs off, as it should: the image is here already.
        sim.files.put(static_pod("first").build());
        sim.until_ready(&["first"], 5).await;
        sim.runtime.set_latency(Duration::from_millis(10));
        sim.files.put(static_pod("web").empty_dir("data", "/data").build());
        tokio::time::sleep(Duration::from_millis(moment * 4)).await;
        sim.runtime.go_away(away);
        tokio::time::sleep(away).await;
        let back = sim.clock.elapsed();
        sim.until_ready(&["web"], 30).await;
        let took = sim.clock.elapsed() - back;
        assert!(took < Duration::from_secs(3), "SIM_SEED={moment}: ready {took:?} after the runtime was back");
        sim.files.take_away("web");
        tokio::time::sleep(Duration::from_millis(moment * 4)).await;
        sim.runtime.go_away(away);
        tokio::time::sleep(away).await;
        let back = sim.clock.elapsed();
        sim.until_gone("web", 30).await;
        let took = sim.clock.elapsed() - back;
        assert!(took < Duration::from_secs(4), "SIM_SEED={moment}: gone {took:?} after the runtime was back");
    }
}

/// The same for each kind of call by itself: no other call fails, and so none leads to a look. After its first failure a
/// call may be repeated because of a hint that came meanwhile; after the second and the third there are no more hints.
#[tokio::test(start_paused = true)]
async fn a_single_call_that_cannot_reach_the_runtime_is_repeated_within_two_seconds() {
    const TIMES: u32 = 3;
    // Three pauses of one to two seconds; a pause of any other kind takes ten.
    let soon = Duration::from_secs(7);
    for operation in ["image_status", "run_podsandbox", "create_container", "start_container"] {
        let sim = Sim::seeded(102).await;
        // A pull that fails backs off, as it should: the image is here already.
        sim.files.put(static_pod("first").build());
        sim.until_ready(&["first"], 5).await;
        let began = sim.clock.elapsed();
        sim.runtime.refuse(operation, 0, TIMES);
        sim.files.put(static_pod("web").build());
        sim.until_ready(&["web"], 30).await;
        let took = sim.clock.elapsed() - began;
        assert!(sim.runtime.has_refused_all() && took < soon, "{operation}: ready after {took:?}");
        sim.check_laws();
    }
    // A removal of a sandbox that fails is repeated at once, after a stop: both are refused.
    for (operation, times) in [("remove_container", 1), ("remove_podsandbox", 2 * TIMES)] {
        let took = refused_at_the_end(operation, 0, times).await.expect("each pod's end makes this call");
        assert!(took < soon, "{operation}: gone after {took:?}");
    }
    let mut looks = 0;
    while let Some(took) = refused_at_the_end("podsandbox_status", looks, 1).await {
        assert!(took < soon, "look {looks}: gone after {took:?}");
        looks += 1;
    }
    assert!(looks > 2, "one to stop it, one after that, one for what is left: {looks}");
}

/// How long the end of a pod takes if these of its calls are refused; `None` if it makes no such calls.
async fn refused_at_the_end(operation: &'static str, skip: u32, times: u32) -> Option<Duration> {
    let sim = Sim::seeded(103).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(2).await;
    let began = sim.clock.elapsed();
    sim.runtime.refuse(operation, skip, times);
    sim.files.take_away("web");
    sim.until_gone("web", 60).await;
    sim.check_laws();
    sim.runtime.has_refused_all().then(|| sim.clock.elapsed() - began)
}

/// A running container is probed, and its status reported, while the image of another container is pulled.
#[tokio::test(start_paused = true)]
async fn a_container_is_probed_while_the_next_ones_image_is_pulled() {
    let sim = Sim::seeded(96).await;
    sim.probes.set(1, Manner::Answers(200));
    sim.runtime.script_pull("slow:1", Pull::Takes(Duration::from_secs(300)));
    let pod = static_pod("web").container("app").http_probe(readiness, 1, 1, |_| {}).container("slow").image("slow:1");
    sim.files.put(pod.build());
    sim.until(10, "the first to be ready", async |sim| {
        let pod = sim.pod("web").await;
        pod.is_some_and(|pod| pod.status.container_statuses.iter().flatten().any(|c| c.name == "app" && c.ready))
    })
    .await;
    let report = sim.statuses.latest("web").expect("reported");
    assert!(
        report.status.container_statuses.iter().flatten().any(|c| c.name == "app" && c.ready),
        "and it is reported"
    );
    assert_eq!(sim.runtime.running("web"), ["app"]);
    sim.until(320, "the other one", async |sim| sim.runtime.running("web").len() == 2).await;
    assert_eq!(starts(&sim, "web"), 1);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_counted() {
    let sim = Sim::seeded(97).await;
    sim.probes.set(1, Manner::Answers(200));
    sim.probes.set(2, Manner::Answers(500));
    sim.runtime.script("sick", [Behaviour::fails_to_create("no")]);
    sim.files.put(static_pod("web").http_probe(readiness, 1, 1, |_| {}).build());
    sim.files.put(static_pod("bad").http_probe(readiness, 2, 1, |_| {}).build());
    sim.files.put(static_pod("ill").container("sick").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(5).await;
    let page = sim.metrics().await;
    for line in [
        "kubelet_desired_pods{static=\"true\"} 3",
        "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"true\"} 3",
        "kubelet_started_pods_total 3",
        "kubelet_started_pods_errors_total 0",
        "kubelet_pod_start_duration_seconds_count 2",
        "kubelet_pod_worker_start_duration_seconds_count 3",
        "kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"} 3",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} in\n{page}");
    }
    let failed = "kubelet_started_containers_errors_total{code=\"CreateContainerError\",container_type=\"container\"}";
    assert!(page.contains(failed), "{page}");
    let probes = |pod: &str, result: &str| {
        let labels = format!("pod=\"{pod}\",pod_uid=\"{pod}-uid\",probe_type=\"Readiness\",result=\"{result}\"}} ");
        let line = page.lines().find(|l| l.starts_with("prober_probe_total") && l.contains(&labels));
        line.and_then(|l| l.split(' ').nth(1)).and_then(|n| n.parse::<u32>().ok()).unwrap_or_default()
    };
    assert!((4..=6).contains(&probes("web", "successful")) && probes("web", "failed") == 0, "{page}");
    assert!((4..=6).contains(&probes("bad", "failed")) && probes("bad", "successful") == 0, "{page}");
    sim.files.take_away("bad");
    sim.until_gone("bad", 10).await;
    assert!(!sim.metrics().await.contains("pod=\"bad\""), "what is gone is not counted any more");
}
