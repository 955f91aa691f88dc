//! One form for objects of the API, however a library prints them: what is empty is absent, amounts are numbers, conditions
//! are found by their type.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::resources::Amount;
use serde_json::{Map, Value};

/// States that mean something though they say nothing.
const STATES: [&str; 3] = ["waiting", "running", "terminated"];
/// Lists of amounts.
const AMOUNTS: [&str; 3] = ["limits", "requests", "allocatedResources"];

/// Puts a status into that form.
pub fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(list)) = map.get("conditions") {
                let by_type = |c: &Value| (c["type"].as_str().unwrap_or_default().to_owned(), c.clone());
                let all: Map<String, Value> = list.iter().map(by_type).collect();
                map.insert("conditions".into(), Value::Object(all));
            }
            for (key, value) in map.iter_mut() {
                if AMOUNTS.contains(&key.as_str()) {
                    amounts(value);
                }
                normalise(value);
            }
            map.retain(|key, value| STATES.contains(&key.as_str()) && value.is_object() || !is_empty(value));
        }
        Value::Array(list) => list.iter_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn amounts(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Value::String(text) = value {
            *text = Amount::of(&Quantity(text.clone())).to_string();
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
