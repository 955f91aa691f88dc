//! The machine goes down: the pods end in good order first, and after the reboot the node runs what it should.

use std::time::Duration;

use rubelet_core::shutdown::{ShutdownGroup, ShutdownPlan};
use rubelet_testkit::{ApiFaults, Behaviour, FakeApi, FakeNodeApi, Faults, Odds, pod};

use crate::node::{condition, parts};
use crate::sim::{Sim, is_ready, static_pod};

const CRITICAL: i32 = 2_000_000_000;

fn plan(ordinary: u64, critical: u64) -> ShutdownPlan {
    let group = |priority, secs| ShutdownGroup { priority, grace: Duration::from_secs(secs) };
    ShutdownPlan::new(vec![group(0, ordinary), group(CRITICAL, critical)]).expect("groups")
}

/// A node in a cluster with its object, on a machine whose shutdown grants 20 and 10 seconds.
async fn started(seed: u64) -> (Sim, FakeApi, FakeNodeApi) {
    let mut sim = Sim::stopped(seed);
    sim.shutdown = Some(plan(20, 10));
    let api = FakeApi::seeded(sim.clock, seed);
    sim.api = Some(api.clone());
    let node = FakeNodeApi::new();
    let made = node.clone();
    sim.node = Some(Box::new(move || parts(&made)));
    sim.files.push([]);
    sim.start().await;
    sim.until(5, "the delay", async |sim| sim.machine.held() == 1).await;
    (sim, api, node)
}

async fn until_ready(sim: &Sim, api: &FakeApi, names: &[&str]) {
    sim.until(20, &format!("{names:?}"), async |_| names.iter().all(|name| is_ready(&api.status(name)))).await;
}

fn ended(api: &FakeApi, name: &str) -> bool {
    let status = api.status(name);
    let condition = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget");
    let message = Some("Pod was terminated in response to imminent node shutdown.");
    status.phase.as_deref() == Some("Failed")
        && status.reason.as_deref() == Some("Terminated")
        && status.message.as_deref() == message
        && condition.is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some("TerminationByKubelet"))
}

fn count(sim: &Sim, message: &str) -> usize {
    sim.events
        .node_lines()
        .iter()
        .filter(|line| **line == format!("Normal Shutdown: Shutdown manager {message}"))
        .count()
}

/// SHUT-01, SHUT-02, SHUT-03, SHUT-04.
#[tokio::test(start_paused = true)]
async fn shut_02_pods_end_by_priority_and_the_power_goes_after_their_statuses() {
    let (sim, api, node) = started(300).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(6), 0)]);
    sim.runtime.script("stubborn", [Behaviour::runs().ignores_term()]);
    api.put(&pod("web").container("slow").grace_secs(30).build());
    api.put(&pod("short").container("stubborn").grace_secs(2).build());
    api.put(&pod("proxy").priority(CRITICAL).container("stubborn").grace_secs(60).build());
    until_ready(&sim, &api, &["web", "short", "proxy"]).await;
    assert_eq!(condition(&node, "Ready").0, "True");

    sim.machine.power_off();
    let began = sim.clock.elapsed();
    let seconds = || (sim.clock.elapsed() - began).as_secs();
    sim.until(1, "the node to be unready", async |_| condition(&node, "Ready").1 == "node is shutting down").await;
    api.put(&pod("late").build());
    sim.until(1, "a rejection", async |_| api.status("late").reason.as_deref() == Some("NodeShutdown")).await;
    let message = api.status("late").message;
    assert_eq!(message.as_deref(), Some("Pod was rejected: Pod was rejected as the node is shutting down."), "ADM-08");
    sim.machine.announce_again();
    sim.until(9, "the first group", async |_| ended(&api, "web") && ended(&api, "short")).await;
    assert!((6..8).contains(&seconds()), "{}", seconds());
    assert_eq!(sim.runtime.running("proxy"), ["stubborn"], "critical pods go last");
    assert!(!sim.machine.is_off());
    sim.until(12, "the power to go", async |sim| sim.machine.is_off()).await;
    assert!((16..18).contains(&seconds()), "{}", seconds());
    assert!(ended(&api, "proxy"), "the status was written before: {:?}", api.status("proxy"));
    assert_eq!((count(&sim, "detected shutdown event"), count(&sim, "detected shutdown cancellation")), (1, 0));
    let state = sim.checkpoints.text("graceful_node_shutdown_state").expect("a record");
    assert!(state.contains("startTime") && !state.contains("0001-01-01"), "{state}");
    let metrics = sim.metrics().await;
    for name in ["kubelet_graceful_shutdown_start_time_seconds ", "kubelet_graceful_shutdown_end_time_seconds "] {
        let line = metrics.lines().find(|line| line.starts_with(name)).expect("a metric");
        assert!(!line.ends_with(" 0"), "{line}");
    }
    sim.check_laws();
}

/// k/k#112443, k/k#107158: after the reboot a static pod runs again, and pods of the API stay failed, so that their
/// controllers replace them.
#[tokio::test(start_paused = true)]
async fn after_the_reboot_static_pods_run_and_no_pod_is_stuck() {
    let (mut sim, api, node) = started(301).await;
    sim.files.put(static_pod("etcd").priority(CRITICAL).build());
    api.put(&pod("web").uid("web-1").build());
    api.put(&pod("agent").uid("agent-1").build());
    until_ready(&sim, &api, &["web", "agent", "etcd"]).await;
    sim.machine.power_off();
    sim.until(20, "the power to go", async |sim| sim.machine.is_off()).await;
    for name in ["web", "agent", "etcd"] {
        assert!(ended(&api, name), "{name}: {:?}", api.status(name));
    }
    // A DaemonSet may replace its pod at once: the node rejects the replacement, and its controller tries again later.
    sim.kill();
    sim.runtime.reboot();
    sim.machine.boot();
    sim.start().await;
    sim.until(20, "the static pod", async |_| is_ready(&api.status("etcd"))).await;
    let mirror = api.status("etcd");
    assert_eq!((mirror.phase.as_deref(), mirror.reason), (Some("Running"), None));
    sim.until(20, "the node", async |_| condition(&node, "Ready").0 == "True").await;
    sim.pass(120).await;
    for name in ["web", "agent"] {
        assert!(ended(&api, name), "{name}: {:?}", api.status(name));
        assert!(sim.runtime.running(name).is_empty());
    }
    // The controllers delete what has failed and make new pods, under the same name and under another.
    api.delete("agent", 0);
    sim.until(5, "the old pod to go", async |_| api.pod("agent").is_none()).await;
    api.put(&pod("agent").uid("agent-2").build());
    api.put(&pod("web-new").build());
    until_ready(&sim, &api, &["agent", "web-new"]).await;
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_shutdown_spares_later_groups_and_runs_static_pods_again() {
    let (sim, api, node) = started(302).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(8), 0)]);
    sim.files.put(static_pod("etcd").build());
    sim.files.put(static_pod("slow-static").container("slow").build());
    api.put(&pod("web").build());
    api.put(&pod("proxy").priority(CRITICAL).build());
    until_ready(&sim, &api, &["web", "proxy", "etcd", "slow-static"]).await;
    sim.machine.power_off();
    sim.until(5, "the first pods", async |_| ended(&api, "web") && ended(&api, "etcd")).await;
    sim.files.put(static_pod("newcomer").build());
    sim.until(5, "a rejection", async |_| api.status("newcomer").reason.as_deref() == Some("NodeShutdown")).await;
    sim.machine.cancel();
    sim.until(5, "the node", async |_| condition(&node, "Ready").0 == "True").await;
    sim.until(30, "the static pods", async |_| {
        ["etcd", "slow-static", "newcomer"].iter().all(|name| is_ready(&api.status(name)))
    })
    .await;
    sim.pass(60).await;
    assert!(ended(&api, "web"), "its controller replaces it");
    assert!(is_ready(&api.status("proxy")), "its turn had not come");
    assert_eq!(sim.runtime.calls("proxy").iter().filter(|call| call.starts_with("stop")).count(), 0);
    assert_eq!((sim.machine.held(), sim.machine.is_off()), (1, false));
    assert_eq!(count(&sim, "detected shutdown cancellation"), 1);
    // The next shutdown is a shutdown like the first.
    sim.machine.power_off();
    sim.until(40, "the power to go", async |sim| sim.machine.is_off()).await;
    assert!(ended(&api, "proxy") && ended(&api, "etcd"));
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_cancelled_after_the_delay_ended_is_delayed_again() {
    let (sim, api, _node) = started(303).await;
    api.put(&pod("web").build());
    until_ready(&sim, &api, &["web"]).await;
    sim.machine.power_off();
    sim.until(10, "the power to go", async |sim| sim.machine.is_off()).await;
    sim.machine.cancel();
    sim.until(5, "another delay", async |sim| sim.machine.held() == 1).await;
    assert_eq!(sim.machine.taken(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rubelet_that_restarts_in_the_middle_of_a_shutdown_goes_on_with_it() {
    let (mut sim, api, node) = started(304).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(15), 0)]);
    api.put(&pod("web").container("slow").build());
    api.put(&pod("proxy").priority(CRITICAL).build());
    sim.files.put(static_pod("etcd").build());
    until_ready(&sim, &api, &["web", "proxy", "etcd"]).await;
    sim.machine.power_off();
    sim.pass(2).await;
    sim.restart().await;
    sim.until(30, "the pods to end", async |_| ended(&api, "web") && ended(&api, "proxy")).await;
    assert!(sim.runtime.running("etcd").is_empty(), "a static pod that has ended is not started for a moment");
    assert_eq!(condition(&node, "Ready").1, "node is shutting down");
    assert!(sim.machine.is_off());
    sim.check_laws();
}

/// SHUT-04.
#[tokio::test(start_paused = true)]
async fn a_login_manager_that_restarts_is_followed_again() {
    let (sim, api, node) = started(305).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(8), 0)]);
    api.put(&pod("web").container("slow").build());
    until_ready(&sim, &api, &["web"]).await;
    sim.machine.restart_login_manager();
    sim.until(3, "another delay", async |sim| sim.machine.taken() == 2 && sim.machine.held() == 1).await;
    // In the middle of a shutdown: the login manager has forgotten it, the machine stays up.
    sim.machine.power_off();
    sim.until(1, "the node to be unready", async |_| condition(&node, "Ready").0 == "False").await;
    sim.machine.restart_login_manager();
    sim.until(5, "the node", async |_| condition(&node, "Ready").0 == "True").await;
    sim.until(3, "the delay", async |sim| sim.machine.held() == 1).await;
    assert!(!sim.machine.is_off());
}

/// Upstream's node suite announces shutdowns like this: by a signal of root, while the login manager knows of none.
#[tokio::test(start_paused = true)]
async fn a_shutdown_that_root_announces_is_one_until_root_cancels_it() {
    let (sim, api, node) = started(309).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(8), 0)]);
    sim.files.put(static_pod("etcd").build());
    api.put(&pod("web").container("slow").build());
    api.put(&pod("proxy").priority(CRITICAL).build());
    until_ready(&sim, &api, &["web", "proxy", "etcd"]).await;
    sim.machine.announce_by_root(true);
    sim.until(1, "the node to be unready", async |_| condition(&node, "Ready").0 == "False").await;
    // The login manager is asked again in the middle of it, and knows nothing.
    sim.machine.restart_login_manager();
    sim.until(3, "another delay", async |sim| sim.machine.taken() == 2).await;
    assert_eq!(condition(&node, "Ready").0, "False");
    sim.until(20, "the pods", async |_| ended(&api, "web") && ended(&api, "proxy")).await;
    // Nobody could tell whether root cancelled it meanwhile: after its end the node is a node again.
    sim.until(10, "the node", async |_| condition(&node, "Ready").0 == "True").await;
    sim.until(20, "the static pod", async |_| is_ready(&api.status("etcd"))).await;
    // Without a lost connection it lasts until it is cancelled.
    sim.machine.announce_by_root(true);
    sim.until(20, "the static pod to end", async |_| ended(&api, "etcd")).await;
    sim.until(10, "the delay's end", async |sim| sim.machine.held() == 0).await;
    sim.pass(120).await;
    assert_eq!(condition(&node, "Ready").0, "False");
    sim.machine.announce_by_root(false);
    sim.until(5, "the node", async |_| condition(&node, "Ready").0 == "True").await;
    sim.until(20, "the static pod", async |_| is_ready(&api.status("etcd"))).await;
    assert_eq!((sim.machine.held(), sim.machine.is_off()), (1, false));
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn without_a_login_manager_the_node_works_and_one_that_comes_later_is_used() {
    let mut sim = Sim::stopped(306);
    sim.shutdown = Some(plan(20, 10));
    sim.machine.set_absent(true);
    sim.files.push([]);
    sim.start().await;
    sim.files.put(static_pod("web").build());
    sim.until_ready(&["web"], 5).await;
    sim.pass(90).await;
    assert_eq!(sim.machine.taken(), 0);
    sim.machine.set_absent(false);
    sim.until(61, "the delay", async |sim| sim.machine.held() == 1).await;
    assert!(sim.is_ready("web").await);
}

/// A machine that does not wait long enough is not delayed at all by upstream; neither here, and it is tried again.
#[tokio::test(start_paused = true)]
async fn shut_01_a_delay_that_is_not_granted_is_asked_for_again() {
    let mut sim = Sim::stopped(307);
    sim.shutdown = Some(plan(20, 10));
    sim.machine.set_stubborn();
    sim.files.push([]);
    sim.start().await;
    sim.pass(30).await;
    assert_eq!(sim.machine.taken(), 0);
}

/// A pod whose containers don't stop and an API server that is away do not keep the machine up for ever.
#[tokio::test(start_paused = true)]
async fn nothing_keeps_the_machine_up_for_longer_than_configured() {
    let (sim, api, _node) = started(308).await;
    api.put(&pod("web").uid("web-uid").build());
    until_ready(&sim, &api, &["web"]).await;
    sim.runtime.hang(&"web-uid".to_owned().into());
    api.go_away(Duration::from_secs(600));
    sim.machine.power_off();
    let began = sim.clock.elapsed();
    sim.until(60, "the power to go", async |sim| sim.machine.is_off()).await;
    let took = (sim.clock.elapsed() - began).as_secs();
    assert!((20..=26).contains(&took), "{took}");
    sim.runtime.release(&"web-uid".to_owned().into());
}

/// Days of trouble: faults of the runtime and of the API, and restarts of our own, of the login manager and of the machine.
/// No law is broken, the power never goes later than it may, and in the end static pods run and pods of the API have one
/// final status.
#[tokio::test(start_paused = true)]
async fn shutdowns_on_bad_days() {
    for seed in 3100..3112 {
        let (mut sim, api, _node) = started(seed).await;
        sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(4), 0)]);
        for name in ["etcd", "apiserver"] {
            sim.files.put(static_pod(name).priority(CRITICAL).build());
        }
        for name in ["a", "b", "c"] {
            let pod = if name == "b" { pod(name).container("slow") } else { pod(name) };
            api.put(&pod.build());
        }
        until_ready(&sim, &api, &["a", "b", "c", "etcd", "apiserver"]).await;
        let odds = Odds::one_in(10);
        let slow = Faults { slow: odds, slow_by: Duration::from_secs(1), ..Faults::NONE };
        sim.runtime.set_faults(Faults { refused: odds, lost_reply_after_effect: odds, hint_lost: odds, ..slow });
        api.set_faults(ApiFaults { refused: odds, lost_reply: odds, ..ApiFaults::NONE });
        for _day in 0..3 {
            sim.pass(sim.rng.below(20)).await;
            sim.machine.power_off();
            for _happening in 0..sim.rng.below(4) {
                sim.pass(sim.rng.below(8)).await;
                match sim.rng.below(5) {
                    0 => sim.machine.announce_again(),
                    1 => sim.machine.restart_login_manager(),
                    2 => sim.restart().await,
                    3 => sim.machine.announce_by_root(sim.rng.below(2) == 0),
                    _ => sim.machine.cancel(),
                }
                sim.watch_laws().await;
            }
            if sim.rng.below(2) == 0 {
                sim.machine.power_off();
                sim.until(70, "the power to go", async |sim| sim.machine.is_off()).await;
                sim.kill();
                sim.runtime.reboot();
                sim.machine.boot();
                sim.start().await;
            } else {
                sim.machine.cancel();
            }
        }
        sim.runtime.set_faults(Faults::NONE);
        api.set_faults(ApiFaults::NONE);
        sim.until(300, "the static pods", async |_| {
            ["etcd", "apiserver"].iter().all(|name| is_ready(&api.status(name)))
        })
        .await;
        // Where the last shutdown was cancelled before the pod's turn, it runs as before.
        sim.until(120, "the pods to run or to have ended", async |sim| {
            ["a", "b", "c"].iter().all(|name| match sim.runtime.running(name).is_empty() {
                true => ended(&api, name),
                false => is_ready(&api.status(name)),
            })
        })
        .await;
        sim.watch_laws().await;
    }
}
