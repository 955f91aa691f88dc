//! Manifests: written as JSON, which is YAML, and moved into place as a whole, so that no half manifest is read.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Node;

/// Images that the environment has made.
pub(crate) const BUSYBOX: &str = "rubelet.test/busybox:1";
pub(crate) const NONROOT: &str = "rubelet.test/nonroot:1";
pub(crate) const NAMED_USER: &str = "rubelet.test/nameduser:1";

/// Runs until SIGTERM, and then ends at once.
pub(crate) const WAIT: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

/// A container that runs this shell script.
pub(crate) fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX, "command": ["sh", "-c", script]})
}

/// A pod of these containers. It has a short grace: a test of ending sets its own.
pub(crate) fn pod_of(name: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": containers},
    })
}

/// A pod with one container, `app`, that runs this shell script.
pub(crate) fn pod(name: &str, script: &str) -> Value {
    pod_of(name, &[container("app", script)])
}

/// Sets what is at a JSON pointer; the last step may be new.
pub(crate) fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = value.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has a parent"));
    parent[key] = new;
    value
}

/// Shows a directory of the host at `/host` in every container of the pod. What a container writes there outlives it.
pub(crate) fn on_host(mut pod: Value, dir: &Path) -> Value {
    pod["spec"]["volumes"] = json!([{"name": "host", "hostPath": {"path": dir}}]);
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["volumeMounts"] = json!([{"name": "host", "mountPath": "/host"}]);
        }
    }
    pod
}

/// A handler of a probe or hook that runs this shell script in the container.
pub(crate) fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

impl Node {
    /// Puts a manifest in place, under the pod's own name.
    pub(crate) fn apply(&self, manifest: &Value) {
        let name = manifest["metadata"]["name"].as_str().expect("it has a name");
        self.write(&format!("{name}.json"), &manifest.to_string());
    }

    /// Puts a file in place of any that is there.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let draft = self.dir.join("drafts").join(file);
        std::fs::write(&draft, text).expect("the directory is ours");
        std::fs::rename(draft, self.manifests().join(file)).expect("the directory is ours");
    }

    /// Takes the pod's manifest away.
    pub(crate) fn withdraw(&self, name: &str) {
        std::fs::remove_file(self.manifest_file(name)).expect("it was there");
    }

    /// Where the pod's manifest is.
    pub(crate) fn manifest_file(&self, name: &str) -> PathBuf {
        self.manifests().join(format!("{name}.json"))
    }
}
