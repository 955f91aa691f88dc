//! Init containers, sidecars and ephemeral containers, in the order that they have.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes, EphemeralContainer};
use rubelet_core::pod::RestartPolicy;
use rubelet_testkit::{Behaviour, Faults, Odds};

use crate::sim::{Sim, static_pod};

fn with_lost_hints(sim: &Sim) {
    sim.runtime.set_faults(Faults { hint_lost: Odds::ALWAYS, ..Faults::NONE });
}

/// A sidecar that runs makes room for the next container; no event is needed.
#[tokio::test(start_paused = true)]
async fn sidecars_follow_each_other_at_once_whatever_becomes_of_events_rt_32() {
    let sim = Sim::seeded(70).await;
    with_lost_hints(&sim);
    sim.files.put(static_pod("web").sidecar("side-0").sidecar("side-1").container("app").build());
    sim.until_ready(&["web"], 3).await;
    let starts: Vec<String> = sim.runtime.calls("web").into_iter().filter(|c| c.starts_with("start ")).collect();
    assert_eq!(starts, ["start side-0", "start side-1", "start app"]);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_one_after_another_and_again_in_a_new_sandbox_rt_31() {
    let sim = Sim::seeded(71).await;
    for init in ["init-0", "init-1"] {
        sim.runtime.script(init, [Behaviour::exits_after(Duration::from_millis(300), 0)]);
    }
    sim.files.put(static_pod("web").init("init-0").init("init-1").container("app").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.reboot();
    sim.until(60, "a second sandbox", async |sim| {
        sim.runtime.calls("web").iter().filter(|c| c.starts_with("run_sandbox")).count() == 2
    })
    .await;
    sim.until_ready(&["web"], 60).await;
    let starts: Vec<String> = sim.runtime.calls("web").into_iter().filter(|c| c.starts_with("start ")).collect();
    assert_eq!(starts, ["start init-0", "start init-1", "start app", "start init-0", "start init-1", "start app"]);
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn sidecars_stop_last_and_in_reverse_kill_04() {
    let sim = Sim::seeded(72).await;
    sim.runtime.script("app", [Behaviour::runs().on_term(Duration::from_secs(2), 0)]);
    sim.files.put(static_pod("web").sidecar("side-0").sidecar("side-1").container("app").build());
    sim.until_ready(&["web"], 5).await;
    sim.files.take_away("web");
    sim.until_gone("web", 30).await;
    let stops: Vec<String> = sim.runtime.calls("web").into_iter().filter(|c| c.starts_with("stop ")).collect();
    let order: Vec<&str> = stops.iter().filter_map(|c| c.split(' ').nth(1)).collect();
    assert_eq!(order, ["app", "side-1", "side-0"]);
}

/// A rule restarts the whole pod: what was cleared away comes back at once, not at the next resync (SYNC-14).
#[tokio::test(start_paused = true)]
async fn a_pod_that_starts_over_does_so_at_once_whatever_becomes_of_events() {
    let sim = Sim::seeded(73).await;
    with_lost_hints(&sim);
    let on = ContainerRestartRuleOnExitCodes { operator: "In".into(), values: Some(vec![42]) };
    let rule = ContainerRestartRule { action: "RestartAllContainers".into(), exit_codes: Some(on) };
    let pod = static_pod("web").container("app").edit_container(|c| {
        c.restart_policy = Some("Never".into());
        c.restart_policy_rules = Some(vec![rule]);
    });
    sim.files.put(pod.container("other").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.end_container("web", "app", 42);
    // The safety net finds the end.
    sim.until(65, "all to be cleared away", async |sim| sim.runtime.calls("web").contains(&"remove app".to_owned()))
        .await;
    sim.until_ready(&["web"], 2).await;
    sim.check_laws();
}

/// What runs beside the one whose end restarts the pod was stopped for that, and has not failed: not even in a pod that
/// never restarts. upstream: container/helpers.go ShouldAllContainersRestart (v1.36)
#[tokio::test(start_paused = true)]
async fn a_sidecar_makes_a_pod_start_over_that_never_restarts() {
    let sim = Sim::seeded(75).await;
    let on = ContainerRestartRuleOnExitCodes { operator: "In".into(), values: Some(vec![42]) };
    let rule = ContainerRestartRule { action: "RestartAllContainers".into(), exit_codes: Some(on) };
    let pod = static_pod("web").restart(RestartPolicy::Never).init("init").sidecar("side").edit_container(|c| {
        c.restart_policy_rules = Some(vec![rule]);
    });
    sim.runtime.script("init", [Behaviour::exits(0), Behaviour::exits(0)]);
    sim.files.put(pod.container("app").build());
    sim.until_ready(&["web"], 5).await;
    sim.runtime.end_container("web", "side", 42);
    sim.until(65, "all to be started again", async |sim| {
        let calls = sim.runtime.calls("web");
        ["init", "side", "app"].iter().all(|name| calls.iter().filter(|c| **c == format!("start {name}")).count() == 2)
    })
    .await;
    sim.until_ready(&["web"], 5).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn init_containers_and_sidecars_in_a_crash_loop_slow_down_rt_63() {
    for sidecar in [false, true] {
        let sim = Sim::seeded(76).await;
        sim.runtime.script("first", [Behaviour::exits_after(Duration::from_secs(1), 1)]);
        let pod = if sidecar { static_pod("web").sidecar("first") } else { static_pod("web").init("first") };
        sim.files.put(pod.container("app").build());
        sim.pass(200).await;
        let starts = sim.runtime.calls("web").iter().filter(|c| *c == "start first").count();
        assert!(
            (5..=7).contains(&starts),
            "at once, then after 10, 20, 40 and 80 s: {starts} starts, sidecar: {sidecar}"
        );
        let pod = sim.pod("web").await.expect("the pod is known");
        let states = pod.status.init_container_statuses.iter().flatten().filter_map(|c| c.state.clone());
        let reasons: Vec<_> = states.filter_map(|state| state.waiting?.reason).collect();
        assert_eq!(reasons, ["CrashLoopBackOff"], "sidecar: {sidecar}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_runs_once_rt_07() {
    let sim = Sim::seeded(74).await;
    sim.runtime.script("debug", [Behaviour::exits_after(Duration::from_secs(5), 1)]);
    sim.files.put(static_pod("web").uid("u").build());
    sim.until_ready(&["web"], 5).await;
    let debug = EphemeralContainer { name: "debug".into(), image: Some("a:1".into()), ..EphemeralContainer::default() };
    let with_debug = static_pod("web").uid("u").container("app");
    sim.files.put(with_debug.edit_spec(|spec| spec.ephemeral_containers = Some(vec![debug])).build());
    sim.pass(300).await;
    let calls = sim.runtime.calls("web");
    assert_eq!(calls.iter().filter(|c| *c == "start debug").count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|c| *c == "start app").count(), 1, "{calls:?}");
    assert!(sim.is_ready("web").await);
    sim.check_laws();
}
