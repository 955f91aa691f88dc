//! What the node is changes while the agent runs: pods see the node as it is now.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::EnvVar;
use rubelet_core::launch::HandlerFeatures;
use rubelet_testkit::pod;
use serde_json::json;

use crate::sim::{NODE_IP, Sim, static_pod};

const NEW_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

fn handlers(features: &[(&str, HandlerFeatures)]) -> BTreeMap<String, HandlerFeatures> {
    features.iter().map(|(name, features)| ((*name).to_owned(), *features)).collect()
}

async fn host_ip(sim: &Sim, pod: &str) -> Option<String> {
    sim.pod(pod).await.and_then(|pod| pod.status.host_ip.clone())
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_shows_in_statuses_and_in_the_next_container() {
    let sim = Sim::seeded(400).await;
    let env: EnvVar = serde_json::from_value(json!({
        "name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}
    }))
    .expect("a variable");
    sim.files.put(static_pod("web").container("app").edit_container(|c| c.env = Some(vec![env])).build());
    sim.until_ready(&["web"], 5).await;
    assert_eq!(host_ip(&sim, "web").await, Some(NODE_IP.to_string()));
    let host = |sim: &Sim| sim.runtime.container_config("web", "app").expect("made").envs;
    assert_eq!(host(&sim), [("HOST".to_owned(), NODE_IP.to_string())]);

    // At rest: nothing but the node changes.
    sim.pass(300).await;
    sim.addresses.set(vec![NEW_IP]);
    let moved = Some(NEW_IP.to_string());
    sim.until(15, "its new host IP", async |sim| host_ip(sim, "web").await == moved).await;
    let starts = sim.runtime.calls("web").iter().filter(|call| call.starts_with("start")).count();
    assert_eq!(starts, 1, "a new address restarts nothing");

    assert!(sim.runtime.end_container("web", "app", 1));
    let renewed = [("HOST".to_owned(), NEW_IP.to_string())];
    sim.until(30, "the next instance", async |sim| host(sim) == renewed).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_the_runtime_offers_later_can_be_used() {
    let sim = Sim::seeded(401).await;
    sim.files.put(static_pod("web").edit_spec(|spec| spec.runtime_class_name = Some("late".into())).build());
    sim.until(10, "the refusal", async |sim| {
        sim.pod("web").await.and_then(|pod| pod.problem).is_some_and(|problem| problem.contains("\"late\""))
    })
    .await;
    sim.runtime.set_handlers(handlers(&[("", HandlerFeatures::default()), ("late", HandlerFeatures::default())]));
    sim.until_ready(&["web"], 120).await;
    assert_eq!(sim.runtime.sandbox_config("web").expect("made").runtime_handler, "late");
}

#[tokio::test(start_paused = true)]
async fn mnt_03_a_status_asks_the_handler_of_the_pods_runtime_class() {
    let able = HandlerFeatures { recursive_read_only_mounts: true, ..HandlerFeatures::default() };
    for (default, kata, shown) in
        [(HandlerFeatures::default(), able, "Enabled"), (able, HandlerFeatures::default(), "Disabled")]
    {
        let (sim, api) = Sim::in_cluster(402).await;
        sim.runtime.set_handlers(handlers(&[("", default), ("kata", kata)]));
        sim.pass(10).await;
        api.put_class("sandboxed", "kata");
        let web = pod("web").edit_spec(|spec| spec.runtime_class_name = Some("sandboxed".into()));
        let web = web.container("app").host_path("data", "/srv", "/data").edit_container(|container| {
            for mount in container.volume_mounts.iter_mut().flatten() {
                (mount.read_only, mount.recursive_read_only) = (Some(true), Some("IfPossible".to_owned()));
            }
        });
        api.put(&web.build());
        sim.until_ready(&["web"], 30).await;
        let status = sim.pod("web").await.expect("it runs").status.clone();
        let container = status.container_statuses.iter().flatten().next().expect("a container");
        let mount = container.volume_mounts.iter().flatten().find(|mount| mount.name == "data").expect("the mount");
        assert_eq!(mount.recursive_read_only.as_deref(), Some(shown));
        let made = sim.runtime.container_config("web", "app").expect("made").mounts;
        assert!(
            made.iter()
                .any(|mount| mount.recursive_read_only == (shown == "Enabled") && mount.container_path == "/data")
        );
    }
}
