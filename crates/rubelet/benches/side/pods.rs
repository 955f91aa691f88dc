//! The pods that are measured: as plain as pods of users are, their token among their volumes.

use serde_json::{Value, json};

use crate::plan::Probing;

pub(crate) const PAUSE: &str = "rubelet.test/pause:1";
const BUSYBOX: &str = "rubelet.test/busybox:1";
/// Exec probes begin when all pods run: 100 of them in a second are more than the machine can do, and nothing else
/// would get done.
pub(crate) const EXEC_DELAY_SECONDS: u32 = 20;
/// Key and file of ConfigMaps.
pub(crate) const KEY: &str = "value";

/// Makes pods for one node.
#[derive(Clone, Debug)]
pub(crate) struct Pods {
    pub(crate) node: String,
}

impl Pods {
    fn pod(&self, name: &str, grace: u32, container: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "bench"}},
            "spec": {
                "nodeName": self.node,
                "terminationGracePeriodSeconds": grace,
                "containers": [container],
            },
        })
    }

    /// Does nothing, and exits at once on SIGTERM.
    pub(crate) fn idle(&self, name: &str, grace: u32) -> Value {
        self.pod(name, grace, &json!({"name": "app", "image": PAUSE, "imagePullPolicy": "IfNotPresent"}))
    }

    /// Sleeps for a number of seconds that no other process on the machine sleeps for, by which it can be found.
    pub(crate) fn sleeper(&self, name: &str, seconds: &str, restart: &str) -> Value {
        let mut pod = self.pod(name, 1, &busybox(&json!(["/bin/sleep", seconds])));
        set(&mut pod, "/spec", "restartPolicy", json!(restart));
        pod
    }

    /// Mounts a ConfigMap of the pod's name.
    pub(crate) fn reader(&self, name: &str) -> Value {
        let mut container = busybox(&waiting("sleep 100000"));
        set(&mut container, "", "volumeMounts", json!([{"name": "config", "mountPath": "/config"}]));
        let mut pod = self.pod(name, 1, &container);
        set(&mut pod, "/spec", "volumes", json!([{"name": "config", "configMap": {"name": name}}]));
        pod
    }

    /// Can be resized without a restart.
    pub(crate) fn sized(&self, name: &str, cpu: &str) -> Value {
        let mut container = busybox(&waiting("sleep 100000"));
        set(&mut container, "", "resources", sizes(cpu));
        self.pod(name, 1, &container)
    }

    /// Is asked every second whether it is ready.
    pub(crate) fn probed(&self, name: &str, probing: Probing) -> Value {
        let (command, probe) = match probing {
            Probing::Http => (
                waiting("httpd -f -p 8080 -h /www"),
                json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}),
            ),
            // More is asked for than two cores can do: without patience most of them would fail.
            Probing::Exec => (
                waiting("sleep 100000"),
                json!({
                    "exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "timeoutSeconds": 20,
                    "initialDelaySeconds": EXEC_DELAY_SECONDS,
                }),
            ),
        };
        let mut container = busybox(&command);
        set(&mut container, "", "readinessProbe", probe);
        self.pod(name, 1, &container)
    }
}

/// Requests and limits.
pub(crate) fn sizes(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"cpu": cpu, "memory": "32Mi"}})
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {KEY: value}})
}

fn busybox(command: &Value) -> Value {
    json!({"name": "app", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": command})
}

/// A shell that exits at once on SIGTERM, and a child that works.
fn waiting(work: &str) -> Value {
    json!(["/bin/sh", "-c", format!("trap 'exit 0' TERM; {work} & wait")])
}

fn set(at: &mut Value, pointer: &str, key: &str, value: Value) {
    if let Some(Value::Object(object)) = at.pointer_mut(pointer) {
        object.insert(key.to_owned(), value);
    }
}
