//! An API server in memory: pods with resource versions, UIDs, graceful deletion and status patches.
//!
//! It obeys the rules that a kubelet relies on: a patch or a deletion with another UID is refused, a graceful deletion
//! only sets the deletion timestamp, versions grow, and a written object is returned in Go's spelling. The test
//! controls time, faults and outages, and every request is recorded.

mod faults;
mod ports;
mod scripted;
mod strategic;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Node, NodeSpec, Pod, PodStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rubelet_core::pod::{PodExt, RestartPolicy};
use rubelet_core::status::is_terminal;
use tokio::sync::watch;

use crate::clock::TestClock;
use crate::objects::{FakeObjects, FakeTokens};
use crate::rng::SeededRng;
pub use faults::ApiFaults;
pub use scripted::{Answer, ScriptedPodApi};

/// An API server. Clones share one world.
#[derive(Clone)]
pub struct FakeApi {
    pub(crate) clock: TestClock,
    pub(crate) rng: SeededRng,
    world: Arc<Mutex<World>>,
    /// This node's object.
    node: Arc<watch::Sender<Option<Arc<Node>>>>,
    /// Counts changes; wakes watches.
    changes: Arc<watch::Sender<u64>>,
    /// Config maps and secrets.
    pub objects: FakeObjects,
    /// Tokens.
    pub tokens: FakeTokens,
}

#[derive(Default)]
struct World {
    /// By namespace and name.
    pods: BTreeMap<(String, String), Arc<Pod>>,
    version: u64,
    /// `None` until they have been listed.
    services: Option<Arc<Vec<Service>>>,
    /// Handlers of runtime classes.
    classes: BTreeMap<String, String>,
    faults: ApiFaults,
    away_until: Duration,
    watch_stalled: bool,
    log: Vec<ApiCall>,
    broken: Vec<String>,
}

/// One request that reached the server.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// When it arrived.
    pub at: Duration,
    /// `get`, `patch`, `create` or `delete`.
    pub verb: &'static str,
    /// Name of the pod.
    pub pod: String,
    /// The patch, if it was one.
    pub patch: String,
    /// The outcome: `ok` or the kind of error.
    pub outcome: String,
}

impl FakeApi {
    /// A server with no pods, whose randomness follows from `seed`. The node `node` is registered.
    pub fn seeded(clock: TestClock, seed: u64) -> Self {
        let metadata = ObjectMeta { name: Some("node".into()), uid: Some("node-uid".into()), ..ObjectMeta::default() };
        let node = Node { metadata, spec: Some(NodeSpec::default()), status: None };
        let world = World { services: Some(Arc::default()), ..World::default() };
        Self {
            clock,
            rng: SeededRng::new(seed ^ 0xa91),
            world: Arc::new(Mutex::new(world)),
            node: Arc::new(watch::Sender::new(Some(Arc::new(node)))),
            changes: Arc::new(watch::Sender::new(0)),
            objects: FakeObjects::default(),
            tokens: FakeTokens::default(),
        }
    }

    /// The services of the cluster; `None` if they have not been listed.
    pub fn set_services(&self, services: Option<Vec<Service>>) {
        self.world().services = services.map(Arc::new);
    }

    /// Creates a runtime class.
    pub fn put_class(&self, name: &str, handler: &str) {
        self.world().classes.insert(name.to_owned(), handler.to_owned());
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Creates or changes a pod bound to the node, as a user or controller does. The UID is kept.
    pub fn put(&self, pod: &Pod) {
        let mut world = self.world();
        let mut pod = pod.clone();
        pod.metadata.annotations.iter_mut().for_each(|a| a.remove("kubernetes.io/config.source").map_or((), drop));
        if let Some(old) = world.find(&key(&pod)) {
            pod.status = old.status.clone();
            pod.metadata.generation = old.metadata.generation.map(|g| g + 1);
            pod.metadata.creation_timestamp = old.metadata.creation_timestamp.clone();
        } else {
            let now = Time(seconds(&self.clock));
            pod.metadata.generation = Some(1);
            pod.metadata.creation_timestamp.get_or_insert(now);
        }
        world.store(pod);
        drop(world);
        self.changed();
    }

    /// Changes a pod, or its status, without the kubelet.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Pod)) {
        let mut world = self.world();
        if let Some(mut pod) = world.named(name).map(|pod| (*pod).clone()) {
            edit(&mut pod);
            world.store(pod);
        }
        drop(world);
        self.changed();
    }

    /// Requests a graceful deletion; a finished pod is removed at once.
    pub fn delete(&self, name: &str, grace_secs: i64) {
        let mut world = self.world();
        if let Some(pod) = world.named(name) {
            world.delete(&pod, grace_secs, Time(seconds(&self.clock)));
        }
        drop(world);
        self.changed();
    }

    /// `kubectl delete --force --grace-period=0`: the object is removed at once.
    pub fn force_delete(&self, name: &str) {
        let mut world = self.world();
        if let Some(pod) = world.named(name) {
            world.pods.remove(&key(&pod));
        }
        drop(world);
        self.changed();
    }

    /// The pod called `name`.
    pub fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.world().named(name)
    }

    /// Names of all pods.
    pub fn names(&self) -> Vec<String> {
        self.world().pods.keys().map(|(_, name)| name.clone()).collect()
    }

    /// The status of the pod called `name`.
    pub fn status(&self, name: &str) -> PodStatus {
        self.pod(name).and_then(|pod| pod.status.clone()).unwrap_or_default()
    }

    /// Every request so far.
    pub fn calls(&self) -> Vec<ApiCall> {
        self.world().log.clone()
    }

    /// Write requests, failed ones included.
    pub fn writes(&self) -> Vec<ApiCall> {
        self.calls().into_iter().filter(|call| call.verb != "get").collect()
    }

    /// Rules that were broken.
    pub fn violations(&self) -> Vec<String> {
        self.world().broken.clone()
    }

    /// How often requests fail.
    pub fn set_faults(&self, faults: ApiFaults) {
        self.world().faults = faults;
    }

    /// An outage of this length: no request is answered, and watches deliver nothing.
    pub fn go_away(&self, time: Duration) {
        self.world().away_until = self.clock.elapsed() + time;
        // Watches notice the outage, and wait.
        self.changed();
    }

    /// Stops the watch from delivering, or lets it continue.
    pub fn stall_watch(&self, stalled: bool) {
        self.world().watch_stalled = stalled;
        self.changed();
    }

    /// Registers the node, or changes it.
    pub fn set_node(&self, node: Option<Node>) {
        self.node.send_replace(node.map(Arc::new));
    }
}

impl World {
    fn find(&self, key: &(String, String)) -> Option<Arc<Pod>> {
        self.pods.get(key).cloned()
    }

    fn named(&self, name: &str) -> Option<Arc<Pod>> {
        self.pods.iter().find(|((_, n), _)| n == name).map(|(_, pod)| Arc::clone(pod))
    }

    fn store(&mut self, mut pod: Pod) -> Arc<Pod> {
        self.version += 1;
        pod.metadata.resource_version = Some(self.version.to_string());
        let pod = Arc::new(pod);
        self.pods.insert(key(&pod), Arc::clone(&pod));
        pod
    }

    /// upstream: registry/core/pod/strategy.go CheckGracefulDelete (v1.36)
    fn delete(&mut self, pod: &Pod, grace_secs: i64, now: Time) {
        let shorter = pod.metadata.deletion_grace_period_seconds.is_none_or(|before| grace_secs < before);
        let unbound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_none();
        let at_once = grace_secs == 0 || pod.status.as_ref().is_some_and(is_terminal) || unbound;
        let held = pod.metadata.finalizers.iter().flatten().next().is_some();
        if at_once && !held {
            self.version += 1;
            self.pods.remove(&key(pod));
        } else if shorter {
            let mut pod = pod.clone();
            pod.metadata.deletion_timestamp = Some(now);
            pod.metadata.deletion_grace_period_seconds = Some(if at_once { 0 } else { grace_secs });
            self.store(pod);
        }
    }

    /// Stores a status written by the kubelet, and checks its rules.
    fn write_status(&mut self, old: &Pod, status: PodStatus) -> Arc<Pod> {
        let before = old.status.clone().unwrap_or_default();
        let name = old.metadata.name.clone().unwrap_or_default();
        if is_terminal(&before) && before.phase != status.phase && !old.is_mirror() {
            self.broken.push(format!("{name}: phase {:?} was followed by {:?}", before.phase, status.phase));
        }
        if let Some(again) = revived(old, &before, &status) {
            self.broken.push(format!("{name}: terminated container {again} is no longer terminated"));
        }
        if before.qos_class.is_some() && before.qos_class != status.qos_class {
            self.broken.push(format!("{name}: the QoS class was changed to {:?}", status.qos_class));
        }
        if before.start_time.is_some() && before.start_time != status.start_time {
            self.broken.push(format!("{name}: the start time was changed"));
        }
        // A client that lost the answer may repeat the request.
        if before == status && self.faults == ApiFaults::NONE {
            self.broken.push(format!("{name}: an unchanged status was written"));
        }
        if before == status {
            return self.find(&key(old)).unwrap_or_else(|| Arc::new(old.clone()));
        }
        self.store(Pod { status: Some(status), ..old.clone() })
    }
}

/// A container that was terminated for good and is now reported as waiting or running: an API server refuses that.
///
/// upstream: apis/core/validation ValidateContainerStateTransition (v1.36)
fn revived(pod: &Pod, before: &PodStatus, after: &PodStatus) -> Option<String> {
    let policies = pod.spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    if pod.restart_policy() != RestartPolicy::Never || policies.into_iter().any(|c| c.restart_policy.is_some()) {
        return None;
    }
    let ended = |c: &&ContainerStatus| c.state.as_ref().is_some_and(|state| state.terminated.is_some());
    let after = after.container_statuses.as_deref().unwrap_or_default();
    let mut all = before.container_statuses.iter().flatten().filter(ended);
    all.find(|old| after.iter().any(|new| new.name == old.name && !ended(&new))).map(|c| c.name.clone())
}

fn key(pod: &Pod) -> (String, String) {
    (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
}

fn seconds(clock: &TestClock) -> jiff::Timestamp {
    let wall = clock.now().wall;
    jiff::Timestamp::from_second(wall.as_second()).unwrap_or(wall)
}
