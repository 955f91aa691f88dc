//! Rows of the behaviour list that no other test covers: events, and their order.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, Lifecycle, LifecycleHandler};
use rubelet_core::lifecycle::Stage;
use rubelet_core::pod::{RestartPolicy, Source};
use rubelet_engine::ports::ExecOutput;
use rubelet_testkit::{Behaviour, FakeSource};

use crate::sim::{Sim, phase, static_pod};

fn starts(sim: &Sim, pod: &str, container: &str) -> usize {
    let wanted = format!("start {container}");
    sim.runtime.calls(pod).iter().filter(|call| **call == wanted).count()
}

fn emitted(sim: &Sim, pod: &str, line: &str) -> bool {
    sim.events.lines(pod).iter().any(|l| l.starts_with(line))
}

async fn waits_with(sim: &Sim, pod: &str, reason: &str) -> bool {
    let Some(pod) = sim.pod(pod).await else { return false };
    let states = pod.status.container_statuses.iter().flatten().filter_map(|c| c.state.as_ref());
    states.filter_map(|s| s.waiting.as_ref()).any(|w| w.reason.as_deref() == Some(reason))
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_fit_is_rejected_with_an_event_loop_05() {
    let sim = Sim::seeded(40).await;
    sim.files.push([static_pod("huge").request("cpu", "65").build(), static_pod("web").build()]);
    sim.until_ready(&["web"], 5).await;
    let view = sim.view().await;
    let refused = view.rejected.first().expect("one was refused");
    assert_eq!(refused.status.phase.as_deref(), Some("Failed"));
    let reason = refused.status.reason.clone().expect("a reason");
    assert!(refused.status.message.as_deref().is_some_and(|m| m.starts_with("Pod was rejected: ")));
    assert!(emitted(&sim, "huge", &format!("Warning {reason}: ")), "{:?}", sim.events.lines("huge"));
    assert!(sim.runtime.calls("huge").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_later_of_two_pods_with_one_name_is_reported_and_not_run_src_07() {
    let sim = Sim::seeded(57).await;
    sim.files.push([static_pod("web").uid("first").build(), static_pod("web").uid("second").build()]);
    sim.until_ready(&["web"], 5).await;
    assert_eq!(sim.pod("web").await.map(|pod| pod.pod.uid), Some("first".into()));
    let event = "Warning FailedValidation: Error validating pod web_default(second) from file due to duplicate pod name \"web\", \
                 ignoring";
    assert!(emitted(&sim, "web", event), "{:?}", sim.events.lines("web"));
    assert_eq!(starts(&sim, "web", "app"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_one_source_lets_go_waits_for_the_others_to_be_read_loop_07() {
    let mut sim = Sim::stopped(41);
    sim.files.push([]);
    let more = FakeSource::new(Source::Http);
    sim.more = Some(more.clone());
    sim.start().await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.pass(120).await;
    assert_eq!(sim.runtime.running("web"), ["app"], "the other source may yet ask for it");
    more.push([]);
    sim.until_gone("web", 60).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_leaves_no_trail_loop_09() {
    let sim = Sim::seeded(42).await;
    sim.runtime.script("app", [Behaviour::exits_after(Duration::from_secs(1), 1)]);
    sim.files.put(static_pod("web").build());
    sim.pass(600).await;
    let world = sim.runtime.world();
    let dead = world.matches("app#").count();
    assert!(starts(&sim, "web", "app") > 5 && dead <= 2, "{dead} are kept: {world}");
}

#[tokio::test(start_paused = true)]
async fn status_is_reported_before_the_work_sync_04() {
    let sim = Sim::seeded(43).await;
    sim.runtime.set_latency(Duration::from_secs(5));
    sim.files.put(static_pod("web").build());
    sim.until(2, "the first status", async |sim| sim.statuses.phases("web") == ["Pending"]).await;
    assert!(!sim.runtime.calls("web").contains(&"start app".to_owned()));
    sim.until_ready(&["web"], 60).await;
    assert_eq!(sim.statuses.phases("web"), ["Pending", "Running"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_network_only_pods_of_the_nodes_network_start_sync_05() {
    let sim = Sim::seeded(44).await;
    sim.runtime.set_network(false, "no plugin");
    sim.pass(6).await;
    sim.files.push([static_pod("web").build(), static_pod("host").host_network().build()]);
    sim.until_ready(&["host"], 5).await;
    assert!(emitted(&sim, "web", "Warning NetworkNotReady: network is not ready: no plugin"));
    assert!(sim.runtime.calls("web").is_empty());
    sim.runtime.set_network(true, "");
    // The runtime is asked every 5 s, and such a pod tries again within 1.5 s (WORK-10).
    sim.until_ready(&["web"], 8).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_pod_needs_first_is_named_when_it_cannot_be_had_sync_07_sync_10() {
    let sim = Sim::seeded(45).await;
    sim.cgroups.set_full(true);
    sim.files.put(static_pod("web").empty_dir("data", "/data").build());
    sim.until(5, "the cgroup", async |sim| emitted(sim, "web", "Warning FailedCreatePodContainer: ")).await;
    sim.cgroups.set_full(false);
    sim.volumes.refuse("data", Some("no room"));
    sim.until(40, "the volume", async |sim| {
        emitted(sim, "web", "Warning FailedMount: MountVolume.SetUp failed for volume \"data\" : no room")
    })
    .await;
    sim.until(180, "the wait", async |sim| {
        let all = "Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[data], ";
        emitted(sim, "web", all)
    })
    .await;
    sim.volumes.refuse("data", None);
    // The change makes no event: the next try finds it, two minutes later at most.
    sim.until_ready(&["web"], 130).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_looked_at_says_so_work_14() {
    let sim = Sim::seeded(46).await;
    sim.files.put(static_pod("web").uid("u").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.hang(&"u".into());
    sim.until(300, "the event", async |sim| emitted(sim, "web", "Warning FailedSync: error determining status: "))
        .await;
    sim.runtime.release(&"u".into());
    sim.pass(60).await;
    assert!(sim.pod("web").await.is_some_and(|pod| pod.problem.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_before_we_started_is_not_started_again_work_09() {
    let sim = Sim::seeded(47).await;
    sim.files.put(static_pod("done").restart(RestartPolicy::Never).phase("Succeeded").build());
    sim.until(10, "its end", async |sim| sim.stage("done").await == Some(Stage::Finished)).await;
    assert!(!sim.runtime.calls("done").iter().any(|call| call.starts_with("run_sandbox")));
}

#[tokio::test(start_paused = true)]
async fn an_ended_pod_keeps_its_containers_and_logs_until_it_is_taken_away_term_21() {
    let sim = Sim::seeded(48).await;
    sim.runtime.script("app", [Behaviour::exits(0)]);
    sim.files.put(static_pod("job").restart(RestartPolicy::Never).empty_dir("data", "/data").build());
    sim.until(10, "its end", async |sim| sim.stage("job").await == Some(Stage::Finished)).await;
    sim.pass(600).await;
    assert!(sim.runtime.world().contains("app#0"), "its container is kept");
    assert_eq!(sim.logs.pods().len(), 1, "its logs are kept");
    assert!(sim.volumes.made().is_empty(), "its volumes are gone (TERM-20)");
    assert!(!sim.cgroups.paths().iter().any(|p| p.contains("/pod")), "its cgroup is gone (TERM-20)");
    sim.files.take_away("job");
    sim.until_gone("job", 60).await;
    assert!(sim.logs.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_emits_an_event_and_is_tried_again_rt_04() {
    let sim = Sim::seeded(49).await;
    sim.runtime.script_sandbox("web", Some("no address left"));
    sim.files.put(static_pod("web").build());
    sim.until(5, "the event", async |sim| {
        emitted(sim, "web", "Warning FailedCreatePodSandBox: Failed to create pod sandbox: ")
    })
    .await;
    sim.runtime.script_sandbox("web", None);
    sim.until_ready(&["web"], 20).await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_come_in_order_and_a_failed_one_holds_back_the_rest_rt_08() {
    let sim = Sim::seeded(50).await;
    sim.runtime.script("first", [Behaviour::fails_to_start("not yet"), Behaviour::exits(0)]);
    sim.runtime.script("second", [Behaviour::exits(0)]);
    sim.files.put(static_pod("web").init("first").init("second").build());
    sim.until_ready(&["web"], 60).await;
    let order: Vec<String> =
        sim.runtime.calls("web").into_iter().filter(|c| c.starts_with("start ") && !c.contains("fail")).collect();
    assert!(order.ends_with(&["start first".into(), "start second".into(), "start app".into()]), "{order:?}");
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_container_that_cannot_be_made_says_why_and_holds_back_no_other_rt_09_rt_46() {
    let sim = Sim::seeded(51).await;
    sim.runtime.script("sick", [Behaviour::fails_to_create("bad mount")]);
    sim.files.put(static_pod("web").container("app").container("sick").container("well").build());
    sim.until(10, "the reason", async |sim| waits_with(sim, "web", "CreateContainerError").await).await;
    assert_eq!(sim.runtime.running("web"), ["app", "well"]);
    assert!(emitted(&sim, "web", "Warning Failed spec.containers{sick}: Error: bad mount"));
}

#[tokio::test(start_paused = true)]
async fn a_start_emits_events_step_by_step_with_its_container_rt_51() {
    let sim = Sim::seeded(52).await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    let place = "spec.containers{app}";
    for (reason, message) in [("Created", "Container created"), ("Started", "Container started")] {
        let line = format!("Normal {reason} {place}: {message}");
        assert!(sim.events.lines("web").contains(&line), "{:?}", sim.events.lines("web"));
    }
    let lines = sim.events.lines("web").into_iter().filter(|line| line.contains(place));
    let reasons: Vec<String> = lines.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect();
    let wanted = ["Pulling", "Pulled", "Created", "Started"].map(|reason| format!("Normal {reason} {place}"));
    assert_eq!(reasons, wanted);
}

fn exec(command: &str) -> LifecycleHandler {
    LifecycleHandler { exec: Some(ExecAction { command: Some(vec![command.to_owned()]) }), ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn a_failed_post_start_hook_ends_its_container_rt_50() {
    let sim = Sim::seeded(53).await;
    sim.runtime.script_exec("app", Duration::ZERO, ExecOutput { exit_code: 1, ..ExecOutput::default() });
    let hook = Lifecycle { post_start: Some(exec("warm-up")), ..Lifecycle::default() };
    sim.files.put(static_pod("web").edit_container(|c| c.lifecycle = Some(hook)).build());
    sim.until(10, "the reason", async |sim| waits_with(sim, "web", "PostStartHookError").await).await;
    assert!(emitted(&sim, "web", "Warning FailedPostStartHook spec.containers{app}: PostStartHook failed"));
    assert!(sim.runtime.calls("web").iter().any(|call| call.starts_with("stop app")));
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_takes_its_time_from_the_grace_kill_03() {
    let sim = Sim::seeded(54).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    sim.runtime.script_exec("app", Duration::from_secs(4), ExecOutput::default());
    let hook = Lifecycle { pre_stop: Some(exec("drain")), ..Lifecycle::default() };
    sim.files.put(static_pod("web").grace_secs(10).edit_container(|c| c.lifecycle = Some(hook)).build());
    sim.until_ready(&["web"], 5).await;
    let begin = sim.clock.elapsed();
    sim.files.take_away("web");
    sim.until_gone("web", 20).await;
    let took = sim.clock.elapsed() - begin;
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    let stopped = sim.runtime.calls("web").into_iter().find(|call| call.starts_with("stop app"));
    assert!(stopped.as_deref().is_some_and(|call| call.starts_with("stop app grace=5.9")), "{stopped:?}");
    assert!(emitted(&sim, "web", "Normal Killing spec.containers{app}: Stopping container app"));
}

#[tokio::test(start_paused = true)]
async fn containers_stop_together_then_sidecars_then_the_sandbox_kill_01_kill_04() {
    let sim = Sim::seeded(55).await;
    for name in ["app", "two", "side"] {
        sim.runtime.script(name, [Behaviour::runs().on_term(Duration::from_secs(2), 0)]);
    }
    sim.files.put(static_pod("web").sidecar("side").container("app").container("two").build());
    sim.until_ready(&["web"], 10).await;
    let begin = sim.clock.elapsed();
    sim.files.take_away("web");
    sim.until_gone("web", 20).await;
    let took = sim.clock.elapsed() - begin;
    assert!(took < Duration::from_secs(5), "two at once, then the sidecar: {took:?}");
    let calls = sim.runtime.calls("web");
    let place = |what: &str| calls.iter().position(|c| c.starts_with(what)).expect("it was asked");
    assert!(place("stop app") < place("stop side") && place("stop two") < place("stop side"), "{calls:?}");
    assert!(place("stop side") < place("stop_sandbox"), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_every_pod_runs_again_in_a_new_sandbox_rst_17() {
    let mut sim = Sim::seeded(56).await;
    sim.runtime.script("setup", [Behaviour::exits(0)]);
    sim.files.put(static_pod("web").init("setup").build());
    sim.until_ready(&["web"], 10).await;
    let uid = sim.pod("web").await.map(|pod| pod.pod.uid);
    sim.kill();
    sim.runtime.reboot();
    sim.start().await;
    sim.until_ready(&["web"], 60).await;
    let pod = sim.pod("web").await.expect("known");
    assert_eq!(Some(pod.pod.uid.clone()), uid);
    assert_eq!((phase(&pod), starts(&sim, "web", "setup"), starts(&sim, "web", "app")), ("Running", 2, 2));
    assert!(sim.runtime.calls("web").iter().any(|call| call == "run_sandbox attempt=1"));
    let counts: Vec<i32> = pod.status.container_statuses.iter().flatten().map(|c| c.restart_count).collect();
    assert_eq!(counts, [1]);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_the_nodes_network_has_the_nodes_address_env_05() {
    let sim = Sim::seeded(49).await;
    let field = |name: &str, path: &str| -> k8s_openapi::api::core::v1::EnvVar {
        let from = serde_json::json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        serde_json::from_value(from).expect("a variable")
    };
    let env = vec![field("POD_IP", "status.podIP"), field("POD_IPS", "status.podIPs"), field("HOST", "status.hostIP")];
    let pod = static_pod("host").host_network().container("app").edit_container(|c| c.env = Some(env));
    sim.files.put(pod.build());
    sim.until_ready(&["host"], 5).await;
    let envs = sim.runtime.container_config("host", "app").expect("made").envs;
    let address = |name: &str| (name.to_owned(), "192.0.2.1".to_owned());
    assert_eq!(envs, ["POD_IP", "POD_IPS", "HOST"].map(address));
}

#[tokio::test(start_paused = true)]
async fn gc_06_a_failed_collection_is_an_event_of_the_node() {
    let sim = Sim::seeded(1).await;
    sim.files.push([static_pod("web").build()]);
    sim.until_ready(&["web"], 30).await;
    // A removal that fails is tried once more after a stop.
    sim.runtime.refuse("remove_podsandbox", 0, 2);
    // The newest dead container of a name stays, and its sandbox with it: of two that ended, the first is garbage.
    for _ in 0..2 {
        sim.runtime.end_sandbox("web");
        sim.pass(20).await;
    }
    let failed = |sim: &Sim| {
        sim.events
            .node_lines()
            .iter()
            .filter(|line| line.starts_with("Warning ContainerGCFailed: failed to remove "))
            .count()
    };
    sim.until(200, "the event", async |sim| failed(sim) == 1).await;
    sim.pass(200).await;
    assert_eq!(failed(&sim), 1, "the next collection succeeded: {:?}", sim.events.node_lines());
}
