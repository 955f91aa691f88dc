//! The part of a strategic merge patch that a pod's status needs.

use k8s_openapi::api::core::v1::{ContainerState, Pod, PodStatus};
use serde_json::{Map, Value};

/// The status of `pod` after `patch`; `None` if it is not a patch, or has another UID.
pub(super) fn patched(pod: &Pod, patch: &str) -> Option<PodStatus> {
    let patch: Value = serde_json::from_str(patch).ok()?;
    if patch.pointer("/metadata/uid")?.as_str() != pod.metadata.uid.as_deref() {
        return None;
    }
    let mut status = serde_json::to_value(pod.status.clone().unwrap_or_default()).ok()?;
    merge(status.as_object_mut()?, patch.get("status")?.as_object()?);
    let mut status: PodStatus = serde_json::from_value(status).ok()?;
    as_go_writes(&mut status);
    Some(status)
}

fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        let key = match name.as_str() {
            "conditions" => Some("type"),
            "podIPs" | "hostIPs" => Some("ip"),
            _ => None,
        };
        match (key, value) {
            (_, Value::Null) => {
                target.remove(name);
            }
            (Some(key), Value::Array(elements)) => {
                let list = target.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Some(list) = list.as_array_mut() {
                    merge_list(list, elements, key);
                    let order = patch.get(&format!("$setElementOrder/{name}")).and_then(Value::as_array);
                    let place = |element: &Value| {
                        order.and_then(|order| order.iter().position(|o| o.get(key) == element.get(key)))
                    };
                    list.sort_by_key(|element| place(element).unwrap_or(usize::MAX));
                }
            }
            (None, Value::Object(inner)) if target.get(name).is_some_and(Value::is_object) => {
                if let Some(object) = target.get_mut(name).and_then(Value::as_object_mut) {
                    merge(object, inner);
                }
            }
            _ if name.starts_with('$') => {}
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

fn merge_list(list: &mut Vec<Value>, elements: &[Value], key: &str) {
    for element in elements {
        let same = |other: &Value| other.get(key) == element.get(key);
        if element.get("$patch").and_then(Value::as_str) == Some("delete") {
            list.retain(|other| !same(other));
            continue;
        }
        match (list.iter_mut().find(|other| same(other)), element.as_object()) {
            (Some(Value::Object(old)), Some(new)) => merge(old, new),
            _ => list.push(element.clone()),
        }
    }
}

/// Go writes an empty struct where others omit the field.
fn as_go_writes(status: &mut PodStatus) {
    for list in [&mut status.container_statuses, &mut status.init_container_statuses] {
        for container in list.iter_mut().flatten() {
            container.last_state.get_or_insert_with(ContainerState::default);
            container.state.get_or_insert_with(ContainerState::default);
        }
    }
}
