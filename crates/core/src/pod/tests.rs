use serde_json::json;

use super::*;
use crate::resources::tests::pod;

fn three() -> Pod {
    pod(json!({
        "containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"}],
        "initContainers": [{"name": "init", "image": "init:1"}, {"name": "proxy", "image": "proxy:1"}],
        "ephemeralContainers": [{"name": "debug", "image": "debug:1"}, {"name": "look", "image": "look:1"}],
    }))
}

// RT-51; upstream: container/ref_test.go TestFieldPath (v1.36)
#[test]
fn rt_51_a_container_is_found_by_its_name_whatever_its_role() {
    let pod = three();
    for (name, path) in [
        ("app", "spec.containers{app}"),
        ("log", "spec.containers{log}"),
        ("init", "spec.initContainers{init}"),
        ("proxy", "spec.initContainers{proxy}"),
        ("debug", "spec.ephemeralContainers{debug}"),
        ("look", "spec.ephemeralContainers{look}"),
    ] {
        assert_eq!(field_path(&pod, name).as_deref(), Some(path));
        let found = container_named(&pod, name).expect("it is in the spec");
        assert_eq!((found.name.as_str(), found.image.clone()), (name, Some(format!("{name}:1"))));
    }
    assert_eq!(field_path(&pod, "other"), None);
    assert_eq!(container_named(&pod, "other"), None);
}
