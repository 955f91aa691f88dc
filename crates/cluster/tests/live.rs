//! The client against a real control plane: `RUBELET_NODE_TESTS=1 RUBELET_CLUSTER=DIR`, with the DIR of
//! `tests/env/k8s.sh start DIR`. The fast tier leaves this out (`.config/nextest.toml`); without the variables it fails.
#![expect(clippy::unwrap_used, reason = "a test whose cluster does not answer has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rubelet_cluster::api::{
    ApiSource, Client, Credentials, DeleteOptions, Kubeconfig, Options, PatchKind, Reflector, Set, Watched,
};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiErrorKind, Delivery, PodSource as _};
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::SeededRng;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// A control plane needs some time to restart.
const PATIENCE: Duration = Duration::from_secs(90);

fn cluster() -> PathBuf {
    let wanted = std::env::var_os("RUBELET_NODE_TESTS").is_some_and(|wanted| wanted == "1");
    let cluster = std::env::var_os("RUBELET_CLUSTER").filter(|_| wanted);
    cluster
        .map(PathBuf::from)
        .expect("needs RUBELET_NODE_TESTS=1 and RUBELET_CLUSTER=DIR of tests/env/k8s.sh start DIR")
}

fn client(kubeconfig: &Path, tasks: &mut TaskGroup) -> Client {
    let config = Kubeconfig::load(kubeconfig).unwrap();
    Client::new(config.endpoint, Credentials::new(config.user), &Options::default(), Clock::real(), tasks)
}

async fn until<T>(what: &mut mpsc::Receiver<T>, mut wanted: impl FnMut(&T) -> bool) {
    let all = async {
        while let Some(seen) = what.recv().await {
            if wanted(&seen) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("it is seen in time");
}

fn script(verb: &str, cluster: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/env/k8s.sh");
    assert!(Command::new(script).arg(verb).arg(cluster).status().unwrap().success());
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "a", "image": "b"}]},
    })
}

#[tokio::test]
async fn the_real_server_behaves_as_the_fake_one() {
    // One after the other: the second stops the control plane.
    let cluster = cluster();
    verbs_errors_and_watches(&cluster).await;
    pods_come_and_go_and_survive_a_restart_of_the_control_plane(&cluster).await;
}

async fn verbs_errors_and_watches(cluster: &Path) {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let client = client(&cluster.join("admin.conf"), &mut tasks);
    let path = "/api/v1/namespaces/default/configmaps";
    let one = format!("{path}/live");
    let _ = client.delete(&one, &DeleteOptions::default()).await;
    let (out, mut sets) = mpsc::channel(100);
    let sink = move |set: &Set<ConfigMap>| {
        let live = set.get("default", "live").and_then(|map| map.data.clone());
        out.try_send(live.and_then(|data| data.get("v").cloned())).unwrap();
    };
    let watched =
        Watched { path: path.to_owned(), field_selector: Some("metadata.name=live".into()), ..Watched::default() };
    let reflector = Reflector::new(client.clone(), watched, Arc::new(SeededRng::new(1)));
    tasks.start("reflector", reflector.run(sink, tasks.cancel_token()));
    until(&mut sets, Option::is_none).await;
    let map = json!({"metadata": {"name": "live"}, "data": {"v": "1"}});
    let made: ConfigMap = client.create(path, &map).await.unwrap();
    assert_eq!(made.metadata.managed_fields, None);
    until(&mut sets, |seen| seen.as_deref() == Some("1")).await;
    let error = client.create::<_, ConfigMap>(path, &map).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::AlreadyExists, "{error}");
    let _: ConfigMap = client.patch(&one, PatchKind::Merge, r#"{"data":{"v":"2"}}"#).await.unwrap();
    until(&mut sets, |seen| seen.as_deref() == Some("2")).await;
    let error = client.replace::<_, ConfigMap>(&one, &made).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Conflict, "{error}");
    let error = client.delete(&one, &DeleteOptions::now("another")).await.unwrap_err();
    assert_eq!(error.kind, ApiErrorKind::Conflict, "{error}");
    client.delete(&one, &DeleteOptions::now(made.metadata.uid.as_deref().unwrap())).await.unwrap();
    until(&mut sets, Option::is_none).await;
    let error = client.get::<ConfigMap>(&one).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    tasks.stop().await;
}

async fn pods_come_and_go_and_survive_a_restart_of_the_control_plane(cluster: &Path) {
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    let admin = client(&cluster.join("admin.conf"), &mut tasks);
    let node = client(&cluster.join("node.conf"), &mut tasks);
    let text = std::fs::read_to_string(cluster.join("env")).unwrap();
    let name = text.lines().find_map(|line| line.split_once("NODE_NAME=")).unwrap().1.trim_matches(['\'', '"']);
    let (_ready, is_ready) = watch::channel(true);
    let source = ApiSource::new(node, name, Arc::new(SeededRng::new(2)), is_ready);
    let (out, mut deliveries) = mpsc::channel::<Delivery>(100);
    let cancel = tasks.cancel_token();
    tasks.start("source", async move { source.run(out, cancel).await });
    let has = |wanted: &'static str| {
        move |seen: &Delivery| seen.pods.iter().any(|pod| pod.metadata.name.as_deref() == Some(wanted))
    };
    let path = "/api/v1/namespaces/default/pods";
    let now = DeleteOptions { grace_period_seconds: Some(0), preconditions: None };
    for one in ["live-1", "live-2"] {
        let _ = admin.delete(&format!("{path}/{one}"), &now).await;
    }
    until(&mut deliveries, |_| true).await;
    let _: Value = admin.create(path, &pod("live-1", name)).await.unwrap();
    until(&mut deliveries, has("live-1")).await;
    script("halt", cluster);
    script("resume", cluster);
    let mut made = admin.create::<_, Value>(path, &pod("live-2", name)).await;
    for _ in 0..60 {
        if made.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        made = admin.create(path, &pod("live-2", name)).await;
    }
    until(&mut deliveries, has("live-2")).await;
    for one in ["live-1", "live-2"] {
        admin.delete(&format!("{path}/{one}"), &now).await.unwrap();
    }
    until(&mut deliveries, |seen| !has("live-2")(seen)).await;
    tasks.stop().await;
}
