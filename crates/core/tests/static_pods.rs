//! Manifests and what upstream's kubelet v1.36.4 makes of them: the UID from a file and from a URL, and the pod.
//!
//! The vectors in `golden/static_uid` were made with upstream's own decoder and `applyDefaults`, run on a UTC node named
//! `node-1.example`. Rows SRC-05, SRC-06.

use std::path::PathBuf;

use rubelet_core::manifest::{Gates, Manifest, Origin, static_pod};
use serde_json::{Value, json};

const NODE: &str = "node-1.example";

fn file() -> Origin {
    Origin::File("/etc/kubernetes/manifests/pod.yaml".to_owned())
}

fn url() -> Origin {
    Origin::Url("http://127.0.0.1:8080/pods".to_owned())
}

fn vectors() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/static_uid");
    let entries = std::fs::read_dir(folder).expect("the golden folder is in the tree");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("readable entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable vector");
        (name, serde_json::from_str(&text).expect("vectors are JSON"))
    };
    entries.map(read).collect()
}

fn build(manifest: &Value, origin: &Origin) -> Manifest {
    static_pod(manifest, origin, NODE, &Gates::default()).expect("upstream takes it, so must we")
}

/// Go prints zero structs and null times that our types leave out.
fn without_zeros(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(name, value)| {
                let zero_struct = matches!(name.as_str(), "resources" | "state" | "lastState" | "spec" | "status")
                    && value.as_object().is_some_and(serde_json::Map::is_empty);
                let zero_scalar = **value == json!("") || **value == json!(0) || **value == json!(false);
                let unset = *name == "divisor" && **value == json!("0");
                !(value.is_null() || zero_struct || zero_scalar || unset)
            });
            Value::Object(kept.map(|(name, value)| (name.clone(), without_zeros(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_zeros).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn src_05_uids_are_upstreams_to_the_byte() {
    let vectors = vectors();
    assert!(vectors.len() >= 12, "the vectors are all there");
    for (name, vector) in vectors {
        let uid = |origin: Origin| build(&vector["manifest"], &origin).pod.metadata.uid.expect("every pod gets a UID");
        assert_eq!(uid(file()), vector["file_uid"], "{name} from a file");
        assert_eq!(uid(url()), vector["url_uid"], "{name} from a URL");
    }
}

#[test]
fn src_05_pods_are_defaulted_and_placed_like_upstreams() {
    for (name, vector) in vectors() {
        let pod = serde_json::to_value(build(&vector["manifest"], &file()).pod).expect("pods are JSON");
        let mut ours = without_zeros(&pod);
        for type_meta in ["apiVersion", "kind"] {
            ours.as_object_mut().expect("a pod is an object").remove(type_meta);
        }
        let expected = without_zeros(&vector["pod"]);
        let show = |value: &Value| serde_json::to_string_pretty(value).expect("JSON prints");
        assert_eq!(show(&ours), show(&expected), "{name}");
    }
}
