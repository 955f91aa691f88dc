//! Faulty manifests and what upstream's validation v1.36.4 finds in them: which field, which kind of fault.
//!
//! `golden/static_validation.json` holds a sound pod and changes to it. The faults were found by upstream's own decoder,
//! defaulting and `ValidatePodCreate`; where upstream names a list instead of the item at fault, the item is named. Row SRC-06.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rubelet_core::manifest::{Gates, ManifestError, Origin, static_pod};
use serde_json::Value;

fn vectors() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/static_validation.json");
    let text = std::fs::read_to_string(path).expect("the golden file is in the tree");
    serde_json::from_str(&text).expect("vectors are JSON")
}

/// Sets a value by its JSON pointer, making objects on the way.
fn set(target: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a slash");
    if target.pointer(parent).is_none() {
        set(target, parent, Value::Object(serde_json::Map::new()));
    }
    match target.pointer_mut(parent).expect("the parent is there now") {
        Value::Array(items) => {
            let index: usize = name.parse().expect("lists have numbers");
            *items.get_mut(index).expect("the list is as long") = value;
        }
        other => drop(other.as_object_mut().expect("an object").insert(name.to_owned(), value)),
    }
}

fn faults(manifest: &Value) -> BTreeSet<String> {
    let origin = Origin::File("/etc/kubernetes/manifests/pod.yaml".to_owned());
    match static_pod(manifest, &origin, "node-1.example", &Gates::default()) {
        Ok(_) => BTreeSet::new(),
        Err(ManifestError::Reference { resource }) => BTreeSet::from([format!("reference {resource}")]),
        Err(ManifestError::Refused { what }) => BTreeSet::from([format!("use {what}")]),
        Err(ManifestError::Invalid(errors)) => {
            errors.into_iter().map(|error| format!("{} {}", error.path, error.reason.as_str())).collect()
        }
        Err(_) => BTreeSet::from(["decode".to_owned()]),
    }
}

#[test]
fn src_06_faults_are_found_where_upstream_finds_them() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().expect("cases are a list");
    let mut wrong = Vec::new();
    for case in cases {
        let mut manifest = vectors["base"].clone();
        for (pointer, value) in case["set"].as_object().expect("changes are an object") {
            set(&mut manifest, pointer, value.clone());
        }
        let expected: BTreeSet<String> =
            case["expect"].as_array().expect("a list").iter().map(|e| e.as_str().expect("text").to_owned()).collect();
        let found = faults(&manifest);
        if found != expected {
            wrong.push(format!("{}\n  upstream: {expected:?}\n  found:    {found:?}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
