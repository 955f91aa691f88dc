//! The API server's side of a node's object and lease: the rules that node reporting relies on.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use rubelet_engine::ports::{AddressesUnknown, ApiError, ApiErrorKind, LeaseApi, NodeAddresses, NodeApi};
use serde_json::{Map, Value};
use tokio::sync::watch;

/// One node's object and lease. Versions grow with every write; an update of an old version is refused. Clones share
/// one world.
#[derive(Clone)]
pub struct FakeNodeApi {
    world: Arc<Mutex<World>>,
    watched: Arc<watch::Sender<Option<Arc<Node>>>>,
}

#[derive(Default)]
struct World {
    node: Option<Node>,
    lease: Option<Lease>,
    version: u64,
    calls: Vec<String>,
    patches: Vec<Value>,
    /// Errors of the next calls, by call name.
    refusals: VecDeque<(&'static str, ApiErrorKind)>,
    /// An outage: no call gets through.
    away: bool,
    /// Status fields that this server does not know, and drops.
    unknown: Vec<&'static str>,
}

impl Default for FakeNodeApi {
    fn default() -> Self {
        Self { world: Arc::default(), watched: Arc::new(watch::Sender::new(None)) }
    }
}

impl FakeNodeApi {
    /// A server without the node and its lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// The node's object.
    pub fn node(&self) -> Option<Node> {
        self.world().node.clone()
    }

    /// The lease.
    pub fn lease(&self) -> Option<Lease> {
        self.world().lease.clone()
    }

    /// Every call that arrived, in order: `create`, `get`, `patch_status`, `lease update`, …
    pub fn calls(&self) -> Vec<String> {
        self.world().calls.clone()
    }

    /// Clears the recorded calls and patches.
    pub fn forget(&self) {
        let mut world = self.world();
        world.calls.clear();
        world.patches.clear();
    }

    /// Every patch that was accepted.
    pub fn patches(&self) -> Vec<Value> {
        self.world().patches.clone()
    }

    /// The next call of that name is refused. Several refusals are used up one after another.
    pub fn refuse(&self, call: &'static str, kind: ApiErrorKind) {
        self.world().refusals.push_back((call, kind));
    }

    /// Begins or ends an outage.
    pub fn set_away(&self, away: bool) {
        self.world().away = away;
    }

    /// Makes the server drop this field of the status, as an older one does.
    pub fn drop_field(&self, field: &'static str) {
        self.world().unknown.push(field);
    }

    /// Another client writes the node's object; `None` removes it.
    pub fn put_node(&self, node: Option<Node>) {
        let mut world = self.world();
        world.version += 1;
        let version = world.version;
        world.node = node.map(|node| stamped(node, version));
        self.publish(&world);
    }

    /// Another client changes the node's object.
    pub fn edit_node(&self, edit: impl FnOnce(&mut Node)) {
        let mut node = self.node().expect("there is a node");
        edit(&mut node);
        self.put_node(Some(node));
    }

    /// Another client writes the lease; `None` removes it.
    pub fn put_lease(&self, lease: Option<Lease>) {
        let mut world = self.world();
        world.version += 1;
        let version = world.version;
        world.lease = lease.map(|mut lease| {
            lease.metadata.resource_version = Some(version.to_string());
            lease
        });
    }

    /// The object as a watch delivers it.
    pub fn watched(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.watched.subscribe()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// During an outage the watch delivers nothing.
    fn publish(&self, world: &World) {
        if !world.away {
            self.watched.send_replace(world.node.clone().map(Arc::new));
        }
    }

    fn arrive(&self, call: &'static str) -> Result<MutexGuard<'_, World>, ApiError> {
        let mut world = self.world();
        if world.away {
            return Err(refusal(ApiErrorKind::Unavailable));
        }
        world.calls.push(call.to_owned());
        if let Some(at) = world.refusals.iter().position(|(of, _)| *of == call)
            && let Some((_, kind)) = world.refusals.remove(at)
        {
            return Err(refusal(kind));
        }
        Ok(world)
    }
}

fn refusal(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, detail: format!("refused: {kind:?}") }
}

fn stamped(mut node: Node, version: u64) -> Node {
    node.metadata.resource_version = Some(version.to_string());
    node.metadata.uid.get_or_insert_with(|| format!("uid-{version}"));
    node
}

#[async_trait]
impl NodeApi for FakeNodeApi {
    async fn get(&self, _name: &str, _fresh: bool) -> Result<Node, ApiError> {
        self.arrive("get")?.node.clone().ok_or_else(|| refusal(ApiErrorKind::NotFound))
    }

    async fn create(&self, node: &Node) -> Result<Node, ApiError> {
        let mut world = self.arrive("create")?;
        if world.node.is_some() {
            return Err(refusal(ApiErrorKind::AlreadyExists));
        }
        world.version += 1;
        let made = stamped(node.clone(), world.version);
        world.node = Some(made.clone());
        self.publish(&world);
        Ok(made)
    }

    async fn patch(&self, name: &str, patch: &str) -> Result<Node, ApiError> {
        self.patch_status(name, patch).await
    }

    async fn patch_status(&self, _name: &str, patch: &str) -> Result<Node, ApiError> {
        let mut world = self.arrive("patch_status")?;
        let Some(node) = &world.node else { return Err(refusal(ApiErrorKind::NotFound)) };
        let patch: Value = serde_json::from_str(patch).map_err(|_| refusal(ApiErrorKind::Invalid))?;
        let mut object = serde_json::to_value(node).map_err(|_| refusal(ApiErrorKind::Garbage))?;
        merge(&mut object, &patch);
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            status.retain(|field, _| !world.unknown.contains(&field.as_str()));
        }
        let node: Node = serde_json::from_value(object).map_err(|_| refusal(ApiErrorKind::Invalid))?;
        world.version += 1;
        let node = stamped(node, world.version);
        world.node = Some(node.clone());
        world.patches.push(patch);
        self.publish(&world);
        Ok(node)
    }
}

#[async_trait]
impl LeaseApi for FakeNodeApi {
    async fn get(&self, _name: &str) -> Result<Lease, ApiError> {
        self.arrive("lease get")?.lease.clone().ok_or_else(|| refusal(ApiErrorKind::NotFound))
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let mut world = self.arrive("lease create")?;
        if world.lease.is_some() {
            return Err(refusal(ApiErrorKind::AlreadyExists));
        }
        world.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = Some(world.version.to_string());
        world.lease = Some(lease.clone());
        Ok(lease)
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let mut world = self.arrive("lease update")?;
        let Some(held) = &world.lease else { return Err(refusal(ApiErrorKind::NotFound)) };
        if held.metadata.resource_version != lease.metadata.resource_version {
            return Err(refusal(ApiErrorKind::Conflict));
        }
        world.version += 1;
        let mut lease = lease.clone();
        lease.metadata.resource_version = Some(world.version.to_string());
        world.lease = Some(lease.clone());
        Ok(lease)
    }
}

/// A strategic merge patch, as far as node objects need it: conditions by type, `$patch: replace`, null removes.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(object) = object.as_object_mut() else { return };
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match value {
            Value::Null => {
                object.remove(key);
            }
            Value::Array(items) if key == "conditions" => {
                let list = object.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
                for item in items {
                    merge_item(list, item);
                }
            }
            Value::Array(items) => {
                let items = items.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
                object.insert(key.clone(), Value::Array(items));
            }
            Value::Object(_) => merge(object.entry(key.clone()).or_insert(Value::Null), value),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                object.insert(key.clone(), value.clone());
            }
        }
    }
}

fn merge_item(list: &mut Value, item: &Value) {
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|known| known.get("type") == item.get("type")) {
        Some(known) => merge(known, item),
        None => list.push(item.clone()),
    }
}

/// Addresses that a test sets. Clones share them.
#[derive(Clone, Default)]
pub struct FakeAddresses(Arc<Mutex<Vec<IpAddr>>>);

impl FakeAddresses {
    /// These addresses.
    pub fn new(ips: Vec<IpAddr>) -> Self {
        Self(Arc::new(Mutex::new(ips)))
    }

    /// Sets the addresses.
    pub fn set(&self, ips: Vec<IpAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ips;
    }
}

#[async_trait]
impl NodeAddresses for FakeAddresses {
    async fn addresses(&self) -> Result<Vec<IpAddr>, AddressesUnknown> {
        let ips = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if ips.is_empty() { Err(AddressesUnknown("none is known".to_owned())) } else { Ok(ips) }
    }
}
