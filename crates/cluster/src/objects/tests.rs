//! SEC-01, SEC-02; upstream: util/manager/watch_based_manager_test.go, cache_based_manager_test.go (v1.36)

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use rubelet_core::references::MAX_OBJECTS;
use rubelet_engine::ports::ApiErrorKind;
use rubelet_engine::task::TaskGroup;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::requests::fake::FakeServer;

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// A cluster view with a node object and nothing else.
struct NodeOnly(Option<Arc<Node>>);

#[async_trait]
impl ClusterView for NodeOnly {
    fn services(&self) -> Option<Arc<Vec<Service>>> {
        None
    }

    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>> {
        watch::channel(self.0.clone()).1
    }

    async fn runtime_handler(&self, _class: &str) -> Result<String, ApiError> {
        Ok(String::new())
    }
}

struct Rig {
    server: FakeServer,
    objects: WatchedObjects<FakeServer>,
    changes: mpsc::Receiver<PodUid>,
    _tasks: TaskGroup,
}

fn rig(strategy: Strategy, ttl: Option<&str>) -> Rig {
    let server = FakeServer::new();
    let again = server.clone();
    let node = ttl.map(|ttl| {
        let mut node = Node::default();
        node.metadata.annotations = Some([(TTL_ANNOTATION.to_owned(), ttl.to_owned())].into());
        Arc::new(node)
    });
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    let connect: Connect<FakeServer> = Box::new(move |_| again.clone());
    let view = Arc::new(NodeOnly(node));
    let (objects, watcher, changes) = WatchedObjects::new(server.clone(), connect, strategy, view, clock);
    let mut tasks = TaskGroup::new(&CancellationToken::new());
    tasks.start("watcher", watcher.run(tasks.cancel_token()));
    Rig { server, objects, changes, _tasks: tasks }
}

fn map(version: u64, value: &str) -> Value {
    let version = version.to_string();
    json!({ "metadata": { "name": "conf", "namespace": "shop", "uid": "m", "resourceVersion": version }, "data": { "k": value } })
}

/// A pod that uses the config map `conf`.
fn pod(uid: &str, how: Use) -> Arc<Pod> {
    let (env, volumes) = match how {
        Use::Read => (json!([{ "configMapRef": { "name": "conf" } }]), json!([])),
        Use::Mounted => (json!([]), json!([{ "name": "v", "configMap": { "name": "conf" } }])),
        Use::Polled => (json!([]), json!([])),
    };
    let pod = json!({
        "metadata": { "name": uid, "namespace": "shop", "uid": uid },
        "spec": { "containers": [{ "name": "c", "image": "i", "envFrom": env }], "volumes": volumes },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

impl Rig {
    fn put(&self, version: u64, value: &str) {
        self.server.put(&format!("{MAPS}/conf"), map(version, value));
    }

    async fn read(&self) -> Result<String, ApiErrorKind> {
        let map = self.objects.config_map("shop", "conf").await.map_err(|err| err.kind)?;
        Ok(map.data.as_ref().and_then(|data| data.get("k")).cloned().unwrap_or_default())
    }

    /// The pods that were notified of a change since the last call.
    async fn notified(&mut self) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut notified = Vec::new();
        while let Ok(uid) = self.changes.try_recv() {
            notified.push(uid.to_string());
        }
        notified
    }

    async fn watched(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.server.watched()
    }
}

#[tokio::test(start_paused = true)]
async fn sec_01_an_object_is_watched_from_its_first_user_to_its_last() {
    let mut rig = rig(Strategy::Watch, None);
    rig.put(1, "a");
    assert_eq!(rig.read().await, Ok("a".into()));
    assert_eq!(rig.server.asked(), [format!("GET {MAPS}/conf")], "an object that no pod uses is fetched");
    assert!(rig.watched().await.is_empty());

    rig.objects.keep(&pod("p1", Use::Mounted));
    rig.objects.keep(&pod("p1", Use::Mounted));
    rig.objects.keep(&pod("p2", Use::Mounted));
    assert_eq!(rig.read().await, Ok("a".into()));
    assert_eq!(rig.watched().await, [format!("{MAPS}?metadata.name=conf")]);
    rig.put(2, "b");
    assert_eq!(rig.notified().await, ["p1", "p2"]);
    assert_eq!(rig.read().await, Ok("b".into()));
    assert!(rig.server.asked().is_empty(), "all reads came from the watch");

    rig.objects.release(&"p1".into());
    rig.objects.release(&"p1".into());
    rig.put(3, "c");
    assert_eq!(rig.notified().await, ["p2"]);
    rig.objects.release(&"p2".into());
    assert!(rig.watched().await.is_empty());
    rig.put(4, "d");
    assert!(rig.notified().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_an_object_are_notified_when_it_appears() {
    let mut rig = rig(Strategy::Watch, None);
    rig.objects.keep(&pod("mounts", Use::Mounted));
    rig.objects.keep(&pod("reads", Use::Read));
    assert_eq!(rig.read().await, Err(ApiErrorKind::NotFound));
    assert!(rig.notified().await.is_empty());
    rig.put(1, "a");
    assert_eq!(rig.notified().await, ["mounts", "reads"]);
    rig.put(2, "b");
    assert_eq!(rig.notified().await, ["mounts"], "an environment is read only at container start");
    rig.server.remove(&format!("{MAPS}/conf"));
    assert_eq!(rig.notified().await, ["mounts"]);
    assert_eq!(rig.read().await, Err(ApiErrorKind::NotFound));
}

#[tokio::test(start_paused = true)]
async fn sec_01_an_immutable_object_is_not_watched() {
    let rig = rig(Strategy::Watch, None);
    let mut object = map(1, "a");
    object["immutable"] = json!(true);
    rig.server.put(&format!("{MAPS}/conf"), object);
    rig.objects.keep(&pod("p1", Use::Mounted));
    assert_eq!(rig.read().await, Ok("a".into()));
    assert!(rig.watched().await.is_empty());
    rig.server.set_away(true);
    assert_eq!(rig.read().await, Ok("a".into()), "it is cached for good");
}

#[tokio::test(start_paused = true)]
async fn sec_01_an_idle_object_is_no_longer_watched_unless_it_is_mounted() {
    for (how, watched) in [(Use::Read, 0), (Use::Mounted, 1)] {
        let rig = rig(Strategy::Watch, None);
        rig.put(1, "a");
        rig.objects.keep(&pod("p1", how));
        assert_eq!(rig.read().await, Ok("a".into()));
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert_eq!(rig.watched().await.len(), 1);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(rig.watched().await.len(), watched, "{how:?}");
        rig.put(2, "b");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(rig.read().await, Ok("b".into()), "a read starts the watch again");
        assert_eq!(rig.watched().await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_the_last_known_object_is_served() {
    let rig = rig(Strategy::Watch, None);
    rig.put(1, "a");
    rig.objects.keep(&pod("p1", Use::Read));
    assert_eq!(rig.read().await, Ok("a".into()));
    rig.server.set_away(true);
    assert_eq!(rig.read().await, Ok("a".into()));
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert!(rig.watched().await.is_empty(), "it was idle");
    assert_eq!(rig.read().await, Ok("a".into()), "a container restarts during an outage");
    // An object that was never read is not available.
    rig.objects.release(&"p1".into());
    rig.objects.keep(&pod("p2", Use::Read));
    assert_eq!(rig.read().await, Err(ApiErrorKind::Timeout));
}

#[tokio::test(start_paused = true)]
async fn sec_01_a_cached_object_is_fetched_again_after_its_ttl() {
    for (annotation, ttl) in [(None, 60), (Some("10"), 10), (Some("no number"), 60)] {
        let rig = rig(Strategy::Cache, annotation);
        rig.put(5, "a");
        rig.objects.keep(&pod("p1", Use::Mounted));
        assert_eq!(rig.read().await, Ok("a".into()));
        rig.put(6, "b");
        tokio::time::sleep(Duration::from_secs(ttl - 1)).await;
        assert_eq!(rig.read().await, Ok("a".into()), "{annotation:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(rig.read().await, Ok("b".into()), "{annotation:?}");
        let expected = [format!("GET {MAPS}/conf"), format!("GET {MAPS}/conf?resourceVersion=0")];
        assert_eq!(rig.server.asked(), expected);
        tokio::time::sleep(Duration::from_secs(ttl)).await;
        rig.put(4, "from a cache that is behind");
        assert_eq!(rig.read().await, Ok("b".into()));
        rig.server.set_away(true);
        assert_eq!(rig.read().await, Ok("b".into()), "a stale object is better than none");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_02_a_new_pod_sees_the_current_object() {
    let rig = rig(Strategy::Cache, None);
    rig.put(1, "a");
    rig.objects.keep(&pod("p1", Use::Read));
    assert_eq!(rig.read().await, Ok("a".into()));
    rig.put(2, "b");
    rig.objects.keep(&pod("p1", Use::Read));
    assert_eq!(rig.read().await, Ok("a".into()));
    rig.objects.keep(&pod("p2", Use::Read));
    assert_eq!(rig.read().await, Ok("b".into()));
}

#[tokio::test(start_paused = true)]
async fn sec_01_with_strategy_get_an_object_is_fetched_every_time() {
    let rig = rig(Strategy::Get, None);
    rig.objects.keep(&pod("p1", Use::Read));
    assert_eq!(rig.read().await, Err(ApiErrorKind::NotFound));
    rig.put(1, "a");
    assert_eq!(rig.read().await, Ok("a".into()));
    assert_eq!(rig.server.asked().len(), 2);
}

/// A pod in its own namespace that mounts `count` config maps, from `conf-0`.
fn greedy(uid: &str, count: usize) -> Arc<Pod> {
    let volume =
        |number: usize| json!({ "name": format!("v{number}"), "configMap": { "name": format!("conf-{number}") } });
    let pod = json!({
        "metadata": { "name": uid, "namespace": uid, "uid": uid },
        "spec": { "containers": [], "volumes": (0..count).map(volume).collect::<Vec<_>>() },
    });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_pod_are_bounded_and_its_other_objects_are_fetched() {
    let rig = rig(Strategy::Watch, None);
    rig.put(1, "a");
    rig.objects.keep(&greedy("greedy", MAX_OBJECTS));
    rig.objects.keep(&pod("p1", Use::Mounted));
    let watched = rig.watched().await;
    assert_eq!(watched.len(), MOST_OF_A_POD + 1);
    assert!(watched.contains(&format!("{MAPS}?metadata.name=conf")), "objects of other pods are still watched");
    let last = "/api/v1/namespaces/greedy/configmaps/conf-499";
    rig.server.put(last, map(1, "a"));
    let read = || async {
        let map = rig.objects.config_map("greedy", "conf-499").await.map_err(|err| err.kind)?;
        Ok::<_, ApiErrorKind>(map.data.clone().unwrap_or_default()["k"].clone())
    };
    assert_eq!((read().await, read().await), (Ok("a".into()), Ok("a".into())));
    assert_eq!(rig.server.asked(), [format!("GET {last}")], "it is fetched and cached");
    rig.server.put(last, map(2, "b"));
    tokio::time::sleep(DEFAULT_TTL).await;
    assert_eq!(read().await, Ok("b".into()));
    assert_eq!(rig.read().await, Ok("a".into()));
    rig.objects.release(&"greedy".into());
    assert_eq!(rig.watched().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn watches_are_bounded_in_total_and_ended_ones_make_room() {
    let mut rig = rig(Strategy::Watch, None);
    let most = store::MOST_WATCHED;
    let pods = most / MOST_OF_A_POD;
    for number in 0..pods + 2 {
        rig.objects.keep(&greedy(&format!("greedy-{number}"), MOST_OF_A_POD));
    }
    assert_eq!(rig.watched().await.len(), most);
    rig.put(1, "a");
    rig.objects.keep(&pod("p1", Use::Mounted));
    assert_eq!(rig.read().await, Ok("a".into()), "it is fetched");
    assert_eq!(rig.watched().await.len(), most);
    for number in 0..3 {
        rig.objects.release(&format!("greedy-{number}").as_str().into());
    }
    let watched = rig.watched().await;
    assert_eq!(watched.len(), most - MOST_OF_A_POD + 1);
    assert!(watched.contains(&format!("{MAPS}?metadata.name=conf")), "it is watched once there is room");
    assert_eq!(rig.read().await, Ok("a".into()));
    rig.put(2, "b");
    assert_eq!(rig.notified().await, ["p1"]);
}

#[tokio::test(start_paused = true)]
async fn names_are_escaped_in_paths_and_selectors() {
    let rig = rig(Strategy::Get, None);
    let asked = rig.objects.config_map("shop", "../secrets/key?x").await;
    assert_eq!(asked.map(drop).map_err(|err| err.kind), Err(ApiErrorKind::NotFound));
    assert_eq!(rig.server.asked(), [format!("GET {MAPS}/..%2Fsecrets%2Fkey%3Fx")]);
    let name = Name::new("a/b", r"x,metadata.namespace!=y\");
    let collection = name.collection::<ConfigMap>();
    assert_eq!(collection.path, "/api/v1/namespaces/a%2Fb/configmaps");
    assert_eq!(collection.field_selector, r"metadata.name=x\,metadata.namespace!\=y\\");
}
