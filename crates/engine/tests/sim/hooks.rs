//! Hooks: where they stand in the order, what they cost of the grace, and what becomes of a pod whose hook fails.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, HTTPGetAction, Lifecycle, LifecycleHandler, SleepAction};
use rubelet_engine::ports::ExecOutput;
use rubelet_testkit::Behaviour;

use crate::sim::{Sim, static_pod};

fn exec(words: &[&str]) -> LifecycleHandler {
    let command = Some(words.iter().map(|w| (*w).to_owned()).collect());
    LifecycleHandler { exec: Some(ExecAction { command }), ..LifecycleHandler::default() }
}

fn sleep(seconds: i64) -> LifecycleHandler {
    LifecycleHandler { sleep: Some(SleepAction { seconds }), ..LifecycleHandler::default() }
}

/// How long a pod with this hook takes to end, with the calls for its container and the events.
async fn end_with(seed: u64, hook: LifecycleHandler, grace: i64) -> (Duration, Vec<String>, Vec<String>) {
    let sim = Sim::seeded(seed).await;
    sim.runtime.script("app", [Behaviour::runs().ignores_term()]);
    let lifecycle = Lifecycle { pre_stop: Some(hook), ..Lifecycle::default() };
    let pod = static_pod("web").container("app").edit_container(|c| c.lifecycle = Some(lifecycle)).grace_secs(grace);
    sim.files.put(pod.build());
    sim.until_ready(&["web"], 5).await;
    let deleted = sim.clock.elapsed();
    sim.files.take_away("web");
    sim.until_gone("web", 100).await;
    let said = |line: &String| line.starts_with("exec ") || line.starts_with("stop ");
    let calls = sim.runtime.calls("web").into_iter().filter(said).collect();
    (sim.clock.elapsed() - deleted, calls, sim.events.lines("web"))
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_comes_first_and_its_time_comes_off_the_grace_kill_03() {
    let (took, calls, _) = end_with(80, exec(&["sleep", "8"]), 20).await;
    assert_eq!(calls.first().map(String::as_str), Some("exec app: sleep 8"));
    assert!(calls.get(1).is_some_and(|c| c.starts_with("stop app grace=11.9")), "{calls:?}");
    assert!((Duration::from_secs(20)..Duration::from_secs(21)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pre_stop_hook_that_hangs_costs_the_grace_and_two_seconds_trap_14() {
    let (took, calls, events) = end_with(81, exec(&["sleep", "infinity"]), 10).await;
    // upstream: test/e2e_node/container_lifecycle_test.go "should terminate sidecars simultaneously if prestop doesn't exit"
    assert_eq!(calls, ["exec app: sleep infinity", "stop app grace=2s"], "the hook lives as long as the container");
    assert!((Duration::from_secs(12)..Duration::from_secs(13)).contains(&took), "{took:?}");
    assert!(!events.iter().any(|e| e.contains("FailedPreStopHook")), "it used up the grace, no more: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_sleeps_sleeps() {
    let (_, calls, events) = end_with(82, sleep(5), 20).await;
    assert!(
        calls.first().is_some_and(|c| c.starts_with("stop app grace=14.9") || c == "stop app grace=15s"),
        "{calls:?}"
    );
    assert!(!events.iter().any(|e| e.contains("FailedPreStopHook")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_cannot_be_run_holds_up_nothing() {
    let hook = LifecycleHandler { http_get: Some(HTTPGetAction::default()), ..LifecycleHandler::default() };
    let (_, calls, events) = end_with(83, hook, 5).await;
    assert!(calls.first().is_some_and(|c| c.starts_with("stop app")), "{calls:?}");
    assert!(events.iter().any(|e| e.contains("FailedPreStopHook")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_post_start_hook_that_fails_ends_the_container_rt_50() {
    let sim = Sim::seeded(84).await;
    let failed = ExecOutput { exit_code: 3, stdout: b"the secret".to_vec(), stderr: Vec::new() };
    sim.runtime.script_exec("app", Duration::from_secs(1), failed);
    let lifecycle = Lifecycle { post_start: Some(exec(&["check"])), ..Lifecycle::default() };
    let pod = static_pod("web").container("app").edit_container(|c| c.lifecycle = Some(lifecycle));
    sim.files.push([pod.build(), static_pod("other").build()]);
    sim.until(20, "it to be stopped", async |sim| {
        sim.runtime.calls("web").iter().any(|c| c.starts_with("stop app")) && sim.runtime.running("web").is_empty()
    })
    .await;
    let events = sim.events.lines("web");
    assert!(events.iter().any(|e| e.contains("FailedPostStartHook")), "{events:?}");
    assert!(!events.iter().any(|e| e.contains("secret")), "the output of a hook may hold secrets: {events:?}");
    assert!(sim.is_ready("other").await);
    sim.check_laws();
}
