//! Admission over time: pods that wait to be admitted, and those that make room for them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_testkit::{Behaviour, map, pod};

use crate::sim::Sim;

/// A priority that makes a pod critical.
const CRITICAL: i32 = 2_000_000_000;

fn node(labels: &[(&str, &str)]) -> Node {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = ObjectMeta {
        name: Some("node".into()),
        uid: Some("node-uid".into()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    Node { metadata, spec: Some(NodeSpec::default()), status: None }
}

/// After a restart a pod that runs may wait to be admitted: the label that it was sent here for is not seen yet. Until
/// that is decided no survey takes it for an unknown pod.
#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_and_waits_to_be_admitted_after_a_restart_is_no_leftover() {
    for moment in 0..16 {
        let (mut sim, api) = Sim::in_cluster(moment).await;
        api.set_node(Some(node(&[("zone", "a")])));
        api.put(&pod("web").edit_spec(|spec| spec.node_selector = Some(map([("zone", "a")]))).build());
        sim.until_ready(&["web"], 10).await;
        sim.kill();
        api.set_node(Some(node(&[])));
        api.stall_watch(true);
        sim.start().await;
        tokio::time::sleep(Duration::from_millis(moment * 200)).await;
        api.stall_watch(false);
        // It is given a second for the label to be seen.
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert!(sim.pod("web").await.is_none(), "SIM_SEED={moment}: it waits");
        api.set_node(Some(node(&[("zone", "a")])));
        sim.pass(20).await;
        assert!(sim.is_ready("web").await, "SIM_SEED={moment}");
        let calls = sim.runtime.calls("web");
        assert!(!calls.iter().any(|call| call.starts_with("stop")), "SIM_SEED={moment}: {calls:?}");
        sim.check_laws();
    }
}

/// ADM-31: the critical pod is looked at again when all who make room for it have stopped, and not before.
#[tokio::test(start_paused = true)]
async fn a_critical_pod_waits_for_all_of_its_victims() {
    let (sim, api) = Sim::in_cluster(120).await;
    sim.runtime.script("slow", [Behaviour::runs().on_term(Duration::from_secs(20), 143)]);
    for (name, container) in [("fast", "app"), ("slow", "slow")] {
        api.put(&pod(name).container(container).request("cpu", "30").build());
    }
    api.put(&pod("small").request("cpu", "3").build());
    sim.until_ready(&["fast", "slow", "small"], 10).await;
    api.put(&pod("critical").request("cpu", "60").priority(CRITICAL).build());
    sim.until(5, "the first to have stopped", async |sim| sim.runtime.running("fast").is_empty()).await;
    sim.pass(10).await;
    assert_eq!(sim.runtime.running("slow"), ["slow"], "it takes its time");
    assert!(sim.runtime.calls("critical").is_empty(), "there is no room yet");
    sim.until_ready(&["critical"], 60).await;
    assert!(sim.runtime.running("slow").is_empty());
    // Each was stopped once, and no other pod was preempted.
    for (name, times) in [("fast", 1), ("slow", 1), ("small", 0)] {
        let asked = sim.events.lines(name).iter().filter(|line| line.contains("Preempting")).count();
        assert_eq!(asked, times, "{name}: {:?}", sim.events.lines(name));
    }
    assert!(sim.is_ready("small").await);
    sim.check_laws();
}
