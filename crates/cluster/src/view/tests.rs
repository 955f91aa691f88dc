//! BOOT-17, RTC-01; upstream: kubelet/runtimeclass/runtimeclass_manager_test.go (v1.36)

use rubelet_engine::task::TaskGroup;
use serde_json::json;

use super::*;
use crate::requests::fake::FakeServer;

fn rig() -> (FakeServer, WatchedCluster<FakeServer>, TaskGroup) {
    let server = FakeServer::new();
    let (view, follower) = WatchedCluster::new(server.clone(), "node-a");
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("follower", follower.run(tasks.cancel_token()));
    (server, view, tasks)
}

/// Runs every task until it waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn services_and_the_node_are_watched_and_runtime_classes_only_on_demand() {
    let (server, view, tasks) = rig();
    server.set_away(true);
    settle().await;
    assert!(view.services().is_none() && view.node().is_none(), "nothing has been read");
    assert_eq!(
        server.watched(),
        ["/api/v1/nodes?metadata.name=node-a", "/api/v1/services?spec.clusterIP!=None"],
        "headless services are excluded"
    );
    server.put(
        "/api/v1/services/kubernetes",
        json!({
            "metadata": { "name": "kubernetes", "namespace": "default", "annotations": { "a": "long" } },
            "spec": { "clusterIP": "10.0.0.1", "ports": [{ "port": 443 }], "selector": { "a": "b" } },
            "status": { "loadBalancer": {} },
        }),
    );
    server.put("/api/v1/nodes/node-a", json!({ "metadata": { "name": "node-a", "labels": { "x": "y" } } }));
    server.put("/api/v1/nodes/node-b", json!({ "metadata": { "name": "node-b" } }));
    server.set_away(false);
    settle().await;
    let services = view.services().expect("read");
    let [service] = services.as_slice() else { panic!("{services:?}") };
    let spec = service.spec.as_ref().expect("a spec");
    assert_eq!((spec.cluster_ip.as_deref(), spec.ports.as_ref().map(Vec::len)), (Some("10.0.0.1"), Some(1)));
    assert_eq!((&service.metadata.annotations, &spec.selector, &service.status), (&None, &None, &None), "trimmed");
    assert_eq!(view.node().and_then(|node| node.metadata.name.clone()).as_deref(), Some("node-a"));

    server.remove("/api/v1/nodes/node-a");
    settle().await;
    assert!(view.node().is_none());
    tasks.stop().await;
    assert!(server.watched().is_empty());
}

#[tokio::test(start_paused = true)]
async fn rtc_01_the_handler_of_a_class() {
    let (server, view, tasks) = rig();
    server.put(&format!("{CLASSES}/gvisor"), json!({ "metadata": { "name": "gvisor" }, "handler": "runsc" }));
    assert_eq!(view.runtime_handler("gvisor").await, Ok("runsc".into()));
    assert!(server.asked().is_empty(), "from the watch");
    assert!(view.runtime_handler("none").await.is_err_and(|err| err.is_not_found()));
    assert_eq!(server.asked(), [format!("GET {CLASSES}/none")], "it may have been created a moment ago");
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rtc_01_during_an_outage_a_pod_with_a_runtime_class_waits() {
    let (server, view, tasks) = rig();
    server.set_away(true);
    let answer = view.runtime_handler("gvisor").await;
    assert_eq!(answer.map_err(|err| err.kind), Err(ApiErrorKind::Timeout));
    tasks.stop().await;
}
