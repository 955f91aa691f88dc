//! Independence: one pod from another, an end from a start, the node from a slow runtime.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, Lifecycle, LifecycleHandler};
use rubelet_core::launch::SandboxConfig;
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::RestartPolicy;
use rubelet_engine::ports::{RpcErrorKind, Sandboxes};
use rubelet_testkit::{Behaviour, Faults, Odds, Pull};

use crate::sim::{Sim, static_pod};

fn starts(sim: &Sim, pod: &str) -> usize {
    sim.runtime.calls(pod).iter().filter(|c| *c == "start app").count()
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_hangs_holds_up_only_those_who_need_it() {
    let sim = Sim::seeded(50).await;
    sim.runtime.script_pull("slow:1", Pull::Hangs);
    sim.runtime.add_image("here:1");
    sim.files.push((0..20).map(|n| static_pod(&format!("p{n:02}")).image("slow:1").build()));
    sim.pass(10).await;
    sim.files.put(static_pod("web").image("here:1").build());
    sim.until_ready(&["web"], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_holds_up_its_own_pod_alone() {
    let sim = Sim::seeded(51).await;
    let exec = ExecAction { command: Some(vec!["sleep".into(), "infinity".into()]) };
    let hook = LifecycleHandler { exec: Some(exec), ..LifecycleHandler::default() };
    let lifecycle = Lifecycle { post_start: Some(hook), ..Lifecycle::default() };
    let hung = |n: usize| {
        let pod = static_pod(&format!("p{n:02}")).container("app");
        pod.edit_container(|c| c.lifecycle = Some(lifecycle.clone())).build()
    };
    sim.files.push((0..10).map(hung));
    sim.pass(10).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    // And what hangs can be ended.
    sim.files.take_away("p00");
    sim.until_gone("p00", 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_crashed_container_does_not_wait_for_a_hundred_new_pods() {
    let sim = Sim::seeded(52).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.set_latency(Duration::from_millis(500));
    let many = (0..100).map(|n| static_pod(&format!("p{n:03}")).build());
    sim.files.push(many.chain([static_pod("web").build()]));
    sim.pass(1).await;
    sim.runtime.end_container("web", "app", 1);
    sim.until(4, "the restart", async |sim| starts(sim, "web") == 2).await;
    sim.until(300, "all pods", async |sim| sim.view().await.pods.iter().all(|p| crate::sim::is_ready(&p.status))).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_while_its_sandbox_is_made_ends_at_once_work_04() {
    let sim = Sim::seeded(53).await;
    sim.runtime.set_latency(Duration::from_secs(60));
    sim.files.put(static_pod("web").build());
    sim.pass(5).await;
    sim.runtime.set_latency(Duration::from_millis(2));
    sim.files.take_away("web");
    sim.until_gone("web", 5).await;
    assert!(sim.runtime.calls("web").is_empty(), "{:?}", sim.runtime.calls("web"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_between_create_and_start_is_never_started() {
    for wait in 0..40 {
        let mut sim = Sim::seeded(wait).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        sim.runtime.script("app", [Behaviour::runs().start_takes(Duration::from_millis(200))]);
        sim.files.put(static_pod("web").build());
        tokio::time::sleep(Duration::from_millis(wait * 8)).await;
        sim.files.take_away("web");
        // From the moment that the engine knows, nothing is asked to start.
        sim.until(1, "the end to begin", async |sim| sim.stage("web").await.is_none_or(|s| s.is_past_syncing())).await;
        sim.watch_laws().await;
        sim.until_gone("web", 60).await;
        sim.watch_laws().await;
        // A call in flight is awaited: if it were dropped, the runtime would report a failure.
        let failed = sim.statuses.all().into_iter().any(|report| format!("{:?}", report.status).contains("StartError"));
        assert!(!failed, "deleted after {} ms: {}", wait * 8, sim.runtime.timeline());
    }
}

/// The runtime may still be starting a container for an earlier agent, and removing that container would kill it.
#[tokio::test(start_paused = true)]
async fn a_container_made_by_an_agent_that_died_is_started_and_never_removed() {
    let mut adopted = 0;
    for wait in 0..40 {
        let mut sim = Sim::seeded(wait).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        sim.files.put(static_pod("web").build());
        tokio::time::sleep(Duration::from_millis(wait * 8)).await;
        let before = sim.runtime.calls("web");
        sim.kill();
        sim.start().await;
        sim.until_ready(&["web"], 60).await;
        sim.check_laws();
        let calls = sim.runtime.calls("web");
        assert!(!calls.iter().any(|call| call.starts_with("remove")), "killed after {} ms: {calls:?}", wait * 8);
        assert_eq!(calls.iter().filter(|call| *call == "create app").count(), 1, "killed after {} ms", wait * 8);
        adopted += usize::from(before.contains(&"create app".to_owned()) && !before.contains(&"start app".to_owned()));
    }
    assert!(adopted > 0, "some were killed between create and start");
}

#[tokio::test(start_paused = true)]
async fn a_container_made_long_ago_and_never_started_is_made_anew() {
    for wait in 0..40 {
        let mut sim = Sim::seeded(wait).await;
        sim.runtime.set_latency(Duration::from_millis(20));
        sim.files.put(static_pod("web").build());
        tokio::time::sleep(Duration::from_millis(wait * 8)).await;
        let before = sim.runtime.calls("web");
        sim.kill();
        if !before.contains(&"create app".to_owned()) || before.contains(&"start app".to_owned()) {
            continue;
        }
        sim.pass(3600).await;
        sim.start().await;
        sim.until_ready(&["web"], 60).await;
        sim.check_laws();
        assert_eq!(sim.runtime.calls("web").iter().filter(|call| *call == "create app").count(), 2);
        return;
    }
    panic!("none was killed between create and start");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_holds_up_the_end_of_its_pod_for_seconds_only() {
    let sim = Sim::seeded(57).await;
    sim.runtime.script("app", [Behaviour::runs().start_takes(Duration::from_secs(3600))]);
    sim.files.put(static_pod("web").build());
    sim.pass(5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 15).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_on_its_way_holds_up_no_deletion_of_what_it_made() {
    let sim = Sim::seeded(54).await;
    sim.volumes.set_takes(Duration::from_secs(3600));
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.pass(5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_runtime_status_causes_no_look_at_every_pod() {
    let sim = Sim::seeded(55).await;
    sim.files.push((0..30).map(|n| static_pod(&format!("p{n:02}")).build()));
    sim.until(60, "all pods", async |sim| {
        let view = sim.view().await;
        view.pods.len() == 30 && view.pods.iter().all(|p| crate::sim::is_ready(&p.status))
    })
    .await;
    sim.pass(5).await;
    let looks = |sim: &Sim| sim.runtime.counts().get("podsandbox_status").copied().unwrap_or_default();
    let before = looks(&sim);
    for n in 0..4 {
        sim.runtime.set_network(n % 2 == 1, "cni config uninitialized");
        sim.pass(6).await;
    }
    assert!(looks(&sim) - before <= 5, "{} looks at 30 pods that did not change", looks(&sim) - before);
    // Its return is a reason.
    let before = looks(&sim);
    sim.runtime.go_away(Duration::from_secs(45));
    sim.pass(60).await;
    assert!(looks(&sim) - before >= 30);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_is_counted_and_harms_its_own_pod_alone() {
    let sim = Sim::seeded(56).await;
    sim.volumes.set_panics("data", true);
    sim.files.push([static_pod("sick").empty_dir("data", "/data").build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 5).await;
    sim.until(5, "it to be counted", async |sim| sim.view().await.job_panics == 1).await;
    let problem = sim.pod("sick").await.and_then(|p| p.problem);
    assert!(problem.is_some_and(|p| p.contains("panicked")));
    sim.volumes.set_panics("data", false);
    sim.until_ready(&["sick"], 30).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_call_made_of_a_finished_pod_is_ended_hk_10() {
    let sim = Sim::seeded(57).await;
    sim.runtime.script("app", [Behaviour::exits(0)]);
    sim.files.put(static_pod("job").restart(RestartPolicy::Never).build());
    sim.until(30, "its end", async |sim| sim.stage("job").await == Some(Stage::Finished)).await;
    let labels = ["pod.uid", "pod.name", "pod.namespace"].map(|key| format!("io.kubernetes.{key}"));
    let config = SandboxConfig {
        name: "job".into(),
        namespace: "default".into(),
        uid: "job-uid".into(),
        attempt: 7,
        labels: labels.into_iter().zip(["job-uid", "job", "default"].map(str::to_owned)).collect(),
        ..SandboxConfig::default()
    };
    sim.runtime.run_sandbox(&config).await.expect("the call takes effect at last");
    assert!(!sim.runtime.is_still(&"job-uid".into()));
    sim.until(90, "it to be ended again", async |sim| sim.runtime.is_still(&"job-uid".into())).await;
    assert_eq!(starts(&sim, "job"), 1);
    sim.until(30, "its end", async |sim| sim.stage("job").await == Some(Stage::Finished)).await;
}

/// Only a stop releases the network, and containerd 1.6 refuses to remove a sandbox that was never stopped.
#[tokio::test(start_paused = true)]
async fn a_sandbox_that_ended_by_itself_is_stopped_before_it_is_removed_kill_01() {
    let sim = Sim::seeded(58).await;
    sim.files.put(static_pod("web").restart(RestartPolicy::Never).build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.end_sandbox("web");
    sim.until(30, "its end", async |sim| sim.stage("web").await == Some(Stage::Finished)).await;
    assert!(sim.runtime.calls("web").contains(&"stop_sandbox".to_owned()), "{:?}", sim.runtime.calls("web"));
    sim.files.take_away("web");
    sim.until_gone("web", 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_network_is_not_made_worse_by_the_events_of_its_failures() {
    let sim = Sim::seeded(59).await;
    sim.runtime.script_sandbox("web", Some("failed to set up sandbox network: cni plugin: no addresses left"));
    sim.files.put(static_pod("web").build());
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        sim.runtime.hint(&"web-uid".into());
    }
    let tries = sim.runtime.counts().get("run_podsandbox").copied().unwrap_or_default();
    assert!((5..=12).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_message_of_pages_is_cut() {
    let sim = Sim::seeded(60).await;
    let pages = "no ".repeat(100_000);
    sim.runtime.script_pull("gone:1", Pull::Fails(RpcErrorKind::Failed, pages.clone()));
    sim.runtime.script_sandbox("net", Some(&pages));
    sim.files.push([static_pod("sick").image("gone:1").build(), static_pod("net").build()]);
    sim.pass(60).await;
    for pod in sim.view().await.pods {
        let longest = pod.timeline.entries().map(|e| e.what.len()).max().unwrap_or_default();
        let status = format!("{:?}", pod.status).len();
        assert!(longest < 2_000 && status < 20_000, "{}: {longest} in the timeline, {status} in the status", pod.pod);
        assert!(pod.problem.is_none_or(|p| p.len() < 2_000));
    }
}

/// A reserved name is held by our own lost call: its container is looked for soon, not after the usual pause.
#[tokio::test(start_paused = true)]
async fn a_name_that_a_lost_call_holds_is_asked_for_again_soon() {
    let sim = Sim::seeded(61).await;
    let pass = async |millis| tokio::time::sleep(Duration::from_millis(millis)).await;
    sim.volumes.set_takes(Duration::from_secs(1));
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    pass(500).await;
    sim.runtime.set_faults(Faults { late_effect: Odds::ALWAYS, ..Faults::NONE });
    pass(1000).await;
    // The call times out and goes on in the runtime. A second call before it is done finds the name reserved.
    sim.runtime.set_faults(Faults::NONE);
    sim.volumes.set_takes(Duration::ZERO);
    pass(700).await;
    sim.runtime.hint(&"web-uid".into());
    pass(100).await;
    sim.runtime.set_faults(Faults { hint_lost: Odds::ALWAYS, ..Faults::NONE });
    sim.until_ready(&["web"], 5).await;
    let tries = sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count();
    assert_eq!(tries, 2, "{:?}", sim.runtime.calls("web"));
    sim.check_laws();
}

/// A container that cannot be killed: the runtime answers that it was stopped, but the next look shows it running.
#[tokio::test(start_paused = true)]
async fn a_pod_has_not_ended_while_anything_of_it_runs_term_04() {
    let sim = Sim::seeded(62).await;
    sim.runtime.script("app", [Behaviour::runs().cannot_be_killed()]);
    sim.files.put(static_pod("web").grace_secs(2).build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.pass(60).await;
    let pod = sim.pod("web").await.expect("it has not ended");
    assert!(matches!(pod.stage, Stage::Terminating { .. }), "{:?}", pod.stage);
    assert!(pod.problem.is_some_and(|p| p.contains("still runs")));
    assert!(sim.runtime.end_container("web", "app", 137), "it runs");
    sim.until_gone("web", 30).await;
}

/// The grace counts from when the pod began to terminate, however often the stop has to be tried.
#[tokio::test(start_paused = true)]
async fn a_stop_that_is_tried_again_has_what_is_left_of_the_grace_work_05() {
    let sim = Sim::seeded(63).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    sim.files.put(static_pod("web").grace_secs(20).build());
    sim.until_ready(&["web"], 5).await;
    let deleted = sim.clock.elapsed();
    sim.runtime.set_faults(Faults { refused: Odds::ALWAYS, ..Faults::NONE });
    sim.files.take_away("web");
    sim.pass(5).await;
    sim.runtime.set_faults(Faults::NONE);
    sim.until_gone("web", 60).await;
    let took = sim.clock.elapsed() - deleted;
    assert!(took < Duration::from_secs(22), "{took:?}: {:?}", sim.runtime.calls("web"));
}

/// Woken the moment a request is answered: remembers how many of the queued events had been handled by then.
struct AtAnswer {
    queue: tokio::sync::mpsc::Sender<rubelet_core::id::PodUid>,
    handled: std::sync::OnceLock<usize>,
}

impl std::task::Wake for AtAnswer {
    fn wake(self: std::sync::Arc<Self>) {
        let _first_alone = self.handled.set(self.queue.capacity());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_behind_the_loops_own_work_but_not_for_all_of_it() {
    let sim = Sim::seeded(58).await;
    let queue = sim.object_changes.clone().expect("an engine runs");
    sim.pass(5).await;
    // Each of these is an event of the loop's own.
    while queue.try_send("nobody".into()).is_ok() {}
    let mut asked = Vec::new();
    for _ in 0..3 {
        let at = std::sync::Arc::new(AtAnswer { queue: queue.clone(), handled: std::sync::OnceLock::new() });
        let mut request = Box::pin(sim.sync_loop().view());
        let waker = at.clone().into();
        assert!(request.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        asked.push((request, at));
    }
    sim.pass(1).await;
    let handled: Vec<Option<usize>> = asked.iter().map(|(_, at)| at.handled.get().copied()).collect();
    // A request comes after eight events, each time.
    let [Some(first), Some(second), Some(third)] = handled[..] else { panic!("not answered: {handled:?}") };
    assert!((1..=8).contains(&first), "{handled:?}");
    assert!((first + 7..=first + 9).contains(&second) && (second + 7..=second + 9).contains(&third), "{handled:?}");
}

#[tokio::test(start_paused = true)]
async fn one_pod_is_found_by_its_uid_and_by_its_name() {
    let sim = Sim::seeded(59).await;
    sim.files.push([static_pod("web").build(), static_pod("other").build()]);
    sim.until_ready(&["web", "other"], 10).await;
    let viewed = sim.pod("web").await.expect("it is there");
    let by_name = sim.sync_loop().pod_named(&viewed.pod.namespace, "web").await.expect("an answer").expect("a pod");
    let by_uid = sim.sync_loop().pod(viewed.pod.uid.clone()).await.expect("an answer").expect("a pod");
    for found in [by_name, by_uid] {
        assert_eq!(found.reference, viewed.pod);
        assert_eq!((Some(found.pod), found.status), (viewed.spec.clone(), viewed.status.clone()));
    }
    assert!(sim.sync_loop().pod_named("elsewhere", "web").await.expect("an answer").is_none());
    assert!(sim.sync_loop().pod_named(&viewed.pod.namespace, "").await.expect("an answer").is_none());
    assert!(sim.sync_loop().pod("nobody".into()).await.expect("an answer").is_none());
}
