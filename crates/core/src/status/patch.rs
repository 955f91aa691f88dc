//! The smallest change that turns one status into another, as a strategic merge patch (STAT-05).
//!
//! What the API server gives back is compared in a form that does not depend on who wrote it: an absent field and an empty
//! one are the same, `0.5` and `500m` are the same, and the order of conditions is nobody's business.
//! upstream: `util/pod/pod.go` `PatchPodStatus` (v1.36)

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Map, Value, json};

use super::normalise;
use crate::id::PodUid;
use crate::resources::Amount;

/// Lists whose elements have a key field and are merged one by one, with that field. All other lists are replaced whole.
/// upstream: `core/v1/types.go` `PodStatus`, its `patchMergeKey` tags (v1.36)
const KEYED: [(&str, &str); 3] = [("conditions", "type"), ("podIPs", "ip"), ("hostIPs", "ip")];

/// The patch that makes the status of `api`, the pod as the API has it, into `new`; `None` if it is the same.
///
/// The UID in it is a precondition: another pod of the same name is never touched.
#[doc(alias = "PatchPodStatus")]
pub fn status_patch(api: &Pod, new: &PodStatus) -> Option<String> {
    let mut shown = api.status.clone().unwrap_or_default();
    normalise(api, &mut shown);
    // Mostly so, and to compare is far cheaper than to spell out both.
    if shown == *new {
        return None;
    }
    let (Value::Object(old), Value::Object(full)) = (tidy(to_json(&shown)), to_json(new)) else { return None };
    let Value::Object(new) = tidy(Value::Object(full.clone())) else { return None };
    let mut change = Map::new();
    for name in old.keys().chain(new.keys()) {
        let (before, after) = (old.get(name), new.get(name));
        if before == after {
            continue;
        }
        match KEYED.iter().find(|(list, _)| list == name) {
            Some((_, key)) => keyed(&mut change, name, key, before, after),
            None => {
                // Other lists are written whole, with every field that the API requires.
                let after = after.map(|after| full.get(name).unwrap_or(after));
                change.insert(name.clone(), difference(before, after));
            }
        }
    }
    if change.is_empty() {
        return None;
    }
    let uid = PodUid::from(api.metadata.uid.as_deref().unwrap_or_default());
    Some(json!({"metadata": {"uid": uid.as_str()}, "status": change}).to_string())
}

fn to_json(status: &PodStatus) -> Value {
    // Plain data with text keys always has a JSON form.
    serde_json::to_value(status).unwrap_or_default()
}

/// The part of `after` that is new. Objects are merged by the server, so what went must be named.
fn difference(before: Option<&Value>, after: Option<&Value>) -> Value {
    match (before, after) {
        (_, None) => Value::Null,
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let fresh = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
            let fresh = fresh.map(|(key, value)| (key.clone(), difference(before.get(key), Some(value))));
            Value::Object(gone.chain(fresh).collect())
        }
        (_, Some(after)) => after.clone(),
    }
}

/// Only the elements that changed, each with its key; those that went with a word to delete them; and the order of all.
fn keyed(change: &mut Map<String, Value>, name: &str, key: &str, before: Option<&Value>, after: Option<&Value>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (list(before), list(after));
    let find = |list: &[Value], element: &Value| list.iter().find(|other| other.get(key) == element.get(key)).cloned();
    let mut elements = Vec::new();
    for element in &after {
        let old = find(&before, element);
        if old.as_ref() == Some(element) {
            continue;
        }
        let mut part = difference(old.as_ref(), Some(element));
        if let (Some(part), Some(id)) = (part.as_object_mut(), element.get(key)) {
            part.insert(key.to_owned(), id.clone());
        }
        elements.push(part);
    }
    for element in before.iter().filter(|element| find(&after, element).is_none()) {
        elements.push(json!({"$patch": "delete", key: element.get(key)}));
    }
    let order = |list: &[Value]| list.iter().filter_map(|e| e.get(key)).cloned().collect::<Vec<_>>();
    // Conditions have no order worth a request; addresses do: the first is the pod's own.
    if elements.is_empty() && (key == "type" || order(&before) == order(&after)) {
        return;
    }
    let order: Vec<Value> = order(&after).into_iter().map(|id| json!({key: id})).collect();
    if !order.is_empty() {
        change.insert(format!("$setElementOrder/{name}"), Value::Array(order));
    }
    change.insert(name.to_owned(), Value::Array(elements));
}

/// The form in which two statuses are compared.
fn tidy(mut value: Value) -> Value {
    let Some(status) = value.as_object_mut() else { return value };
    tidy_object(status);
    value
}

fn tidy_object(object: &mut Map<String, Value>) {
    for (key, value) in object.iter_mut() {
        match value {
            Value::Object(list) if ["requests", "limits", "allocatedResources"].contains(&key.as_str()) => {
                list.values_mut().for_each(tidy_quantity);
            }
            Value::Object(inner) => tidy_object(inner),
            Value::Array(list) => list.iter_mut().filter_map(Value::as_object_mut).for_each(tidy_object),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    object.retain(|key, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        // A state that says nothing is the same as none. Elsewhere an empty object says something: `waiting: {}`.
        Value::Object(inner) => !inner.is_empty() || !["state", "lastState"].contains(&key.as_str()),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

fn tidy_quantity(value: &mut Value) {
    if let Some(amount) = value.as_str().and_then(|text| Amount::parse(text).ok()) {
        *value = Value::String(amount.to_string());
    }
}
