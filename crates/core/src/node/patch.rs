//! What changed, as a strategic merge patch.
//!
//! Only differences are sent, so that concurrent writes to other parts of the object stay. Lists are sent whole, except
//! conditions, which are merged by type.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value, json};

/// The difference without heartbeats, as a patch; `None` if there is none.
/// upstream: kubelet_node_status.go nodeStatusHasChanged (v1.36)
#[doc(alias = "nodeStatusHasChanged")]
pub fn node_change(old: &Node, new: &Node) -> Option<String> {
    node_patch(&without_heartbeats(old), &without_heartbeats(new))
}

fn without_heartbeats(node: &Node) -> Node {
    let mut node = node.clone();
    for condition in node.status.iter_mut().flat_map(|status| &mut status.conditions).flatten() {
        condition.last_heartbeat_time = None;
    }
    node
}

/// The difference with heartbeats, as a patch of the `status` subresource, which may carry labels and annotations too;
/// `None` if there is none. The spec is never part of it.
/// upstream: component-helpers/node/util/status.go PatchNodeStatus (v1.36)
#[doc(alias = "PatchNodeStatus")]
pub fn node_patch(old: &Node, new: &Node) -> Option<String> {
    let mut metadata = Map::new();
    for (field, old, new) in [
        ("labels", &old.metadata.labels, &new.metadata.labels),
        ("annotations", &old.metadata.annotations, &new.metadata.annotations),
    ] {
        let difference = difference(&value(old), &value(new));
        if !difference.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(difference));
        }
    }
    let status = status_patch(&old.status.clone().unwrap_or_default(), &new.status.clone().unwrap_or_default());
    if metadata.is_empty() && status.is_empty() {
        return None;
    }
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if !status.is_empty() {
        patch.insert("status".to_owned(), Value::Object(status));
    }
    Some(Value::Object(patch).to_string())
}

fn value(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

fn status_patch(old: &NodeStatus, new: &NodeStatus) -> Map<String, Value> {
    let bare = |status: &NodeStatus| value(&NodeStatus { addresses: None, conditions: None, ..status.clone() });
    let mut patch = difference(&bare(old), &bare(new));
    let (old_list, new_list) = (old.conditions.as_deref().unwrap_or_default(), new.conditions.as_deref());
    let new_list = new_list.unwrap_or_default();
    let conditions = changed_conditions(old_list, new_list);
    if !conditions.is_empty() {
        let order: Vec<Value> = new_list.iter().map(|condition| json!({ "type": condition.type_ })).collect();
        patch.insert("$setElementOrder/conditions".to_owned(), Value::Array(order));
        patch.insert("conditions".to_owned(), Value::Array(conditions));
    }
    // The API merges addresses by type, which would lose one of two addresses of a type: the list is replaced.
    if old.addresses != new.addresses {
        let mut addresses: Vec<Value> = new.addresses.iter().flatten().map(value).collect();
        addresses.push(json!({ "$patch": "replace" }));
        patch.insert("addresses".to_owned(), Value::Array(addresses));
    }
    patch
}

/// For each condition that differs, its type and the differing fields.
fn changed_conditions(old: &[NodeCondition], new: &[NodeCondition]) -> Vec<Value> {
    let mut changed = Vec::new();
    for condition in new {
        let before = old.iter().find(|before| before.type_ == condition.type_);
        let mut difference = difference(&before.map(value).unwrap_or_default(), &value(condition));
        if !difference.is_empty() {
            difference.insert("type".to_owned(), Value::String(condition.type_.clone()));
            changed.push(Value::Object(difference));
        }
    }
    changed
}

/// The keys whose values differ, recursively for objects; null for removed keys. A list is one value.
fn difference(old: &Value, new: &Value) -> Map<String, Value> {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut changes = Map::new();
    for (key, value) in new {
        match (old.get(key), value) {
            (Some(before), _) if before == value => {}
            (Some(before @ Value::Object(_)), Value::Object(_)) => {
                let inner = difference(before, value);
                if !inner.is_empty() {
                    changes.insert(key.clone(), Value::Object(inner));
                }
            }
            _ => {
                changes.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    changes
}
