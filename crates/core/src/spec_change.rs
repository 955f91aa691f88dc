//! What differs between two versions of a pod's spec, in words, for the pod's timeline.
//!
//! Values that may hold a secret (commands, environments, annotations) are not shown: of these only the place.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

/// How many differences are named.
const MOST: usize = 6;
/// Fields whose values are shown.
const SHOWN: [&str; 12] = [
    "image",
    "cpu",
    "memory",
    "ephemeral-storage",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "restartPolicy",
    "imagePullPolicy",
    "priority",
    "periodSeconds",
    "failureThreshold",
    "timeoutSeconds",
];

/// The differences, in the order of the spec's fields: `containers[app].image from a:1 to a:2`.
pub fn spec_changes(old: &Pod, new: &Pod) -> Vec<String> {
    if old.spec == new.spec {
        return Vec::new();
    }
    let value = |pod: &Pod| serde_json::to_value(&pod.spec).unwrap_or(Value::Null);
    let mut changes = Vec::new();
    compare("", &value(old), &value(new), &mut changes);
    let more = changes.len().saturating_sub(MOST);
    changes.truncate(MOST);
    if more > 0 {
        changes.push(format!("{more} more"));
    }
    changes
}

/// Collects the differences below `place`. A spec is a tree of limited depth, and so is the recursion.
fn compare(place: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut fields: Vec<&String> = before.keys().chain(after.keys()).collect();
            fields.sort();
            fields.dedup();
            for field in fields {
                let [old, new] = [before, after].map(|map| map.get(field).unwrap_or(&Value::Null));
                let dot = if place.is_empty() { "" } else { "." };
                compare(&format!("{place}{dot}{field}"), old, new, changes);
            }
        }
        (Value::Array(before), Value::Array(after)) if named(before) && named(after) => {
            for item in before.iter().chain(after.iter().filter(|item| find(before, name(item)).is_none())) {
                let name = name(item);
                let [old, new] = [before, after].map(|list| find(list, name).unwrap_or(&Value::Null));
                compare(&format!("{place}[{}]", name.unwrap_or_default()), old, new, changes);
            }
        }
        (old, new) if old == new => {}
        (old, new) => changes.push(match (shown(place, old), shown(place, new)) {
            (_, _) if old.is_null() => format!("{place} added"),
            (_, _) if new.is_null() => format!("{place} removed"),
            (Some(old), Some(new)) => format!("{place} from {old} to {new}"),
            (_, _) => format!("{place} changed"),
        }),
    }
}

/// Every item is an object with a name of its own.
fn named(list: &[Value]) -> bool {
    list.iter().all(|item| name(item).is_some())
}

fn name(item: &Value) -> Option<&str> {
    item.get("name")?.as_str()
}

fn find<'a>(list: &'a [Value], wanted: Option<&str>) -> Option<&'a Value> {
    list.iter().find(|item| name(item) == wanted)
}

/// The value, if its field may be shown.
fn shown(place: &str, value: &Value) -> Option<String> {
    let field = place.rsplit('.').next().unwrap_or(place);
    if !SHOWN.contains(&field) || place.contains("env[") {
        return None;
    }
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rubelet_testkit::{PodBuilder, pod};

    use super::*;

    fn check(new: PodBuilder, expected: &[&str]) {
        let old = pod("web").container("app").image("a:1").request("cpu", "100m").env("TOKEN", "secret").grace_secs(30);
        assert_eq!(spec_changes(&old.build(), &new.build()), expected);
    }

    fn same() -> PodBuilder {
        pod("web").container("app").image("a:1").request("cpu", "100m").env("TOKEN", "secret")
    }

    #[test]
    fn differences_are_named_and_secrets_are_not_shown() {
        check(same(), &[]);
        check(same().label("tier", "front"), &[]);
        check(same().image("a:2"), &["containers[app].image from a:1 to a:2"]);
        check(
            pod("web").container("app").image("a:1").request("cpu", "2").env("TOKEN", "other").grace_secs(5),
            &[
                "containers[app].env[TOKEN].value changed",
                "containers[app].resources.requests.cpu from 100m to 2",
                "terminationGracePeriodSeconds from 30 to 5",
            ],
        );
        check(same().container("more"), &["containers[more] added"]);
        let many = (0..9).fold(same(), |pod, number| pod.container(&format!("c{number}")));
        let changes = spec_changes(&same().build(), &many.build());
        assert_eq!((changes.len(), changes.last().map(String::as_str)), (7, Some("3 more")));
    }
}
