//! Manifests of static pods: many of them valid, the others changed in a place or two.

use serde_json::{Map, Value, json};

use super::schema::{self, POD, Place};
use super::words;
use crate::rng::Rng;

/// A manifest of one pod.
pub fn pod(rng: &mut Rng, size: usize) -> Value {
    let mut manifest = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata(rng), "spec": spec(rng, size) });
    for _ in 0..rng.weighted(&[(25, 0), (35, 1), (22, 2), (12, 3), (6, 6)]) {
        change(rng, &mut manifest);
    }
    manifest
}

fn metadata(rng: &mut Rng) -> Value {
    let mut meta = json!({ "name": rng.pick(&["web", "web", "a.b", "a-b"]) });
    for (percent, field, value) in [
        (40, "namespace", json!("kube-system")),
        (8, "uid", json!("0123")),
        (40, "labels", json!({ "app": "web", "example.com/tier": "A" })),
        (30, "annotations", json!({ "note": "é<&>", "pod.beta.kubernetes.io/init-containers": "[]" })),
        (6, "creationTimestamp", json!("2024-06-30T12:34:56Z")),
    ] {
        if rng.chance(percent) {
            meta[field] = value;
        }
    }
    meta
}

fn spec(rng: &mut Rng, size: usize) -> Value {
    let volumes: Vec<Value> = (0..rng.below(size.min(4))).map(|place| volume(rng, place)).collect();
    let mut spec = Map::new();
    let regular = 1 + rng.below(size.min(3));
    spec.insert("containers".into(), (0..regular).map(|place| container(rng, "c", place, &volumes)).collect());
    if rng.chance(35) {
        let init = 1 + rng.below(size.min(3));
        spec.insert("initContainers".into(), (0..init).map(|place| init_container(rng, place, &volumes)).collect());
    }
    if !volumes.is_empty() || rng.chance(5) {
        spec.insert("volumes".into(), volumes.into());
    }
    for (percent, field, value) in [
        (10, "hostNetwork", json!(true)),
        (8, "hostPID", json!(true)),
        (20, "terminationGracePeriodSeconds", json!(rng.pick(&[-1, 0, 1, 30, 600]))),
        (15, "dnsPolicy", json!(rng.pick(&["ClusterFirst", "Default"]))),
        (20, "restartPolicy", json!(rng.pick(&["Always", "OnFailure", "Never"]))),
        (10, "securityContext", json!({ "runAsUser": 1000, "fsGroup": 0, "supplementalGroups": [5] })),
        (10, "nodeSelector", json!({ "zone": "a" })),
        (10, "priorityClassName", json!("system-node-critical")),
        (8, "os", json!({ "name": "linux" })),
        (12, "resources", resources(rng)),
        (20, "tolerations", tolerations(rng)),
    ] {
        if rng.chance(percent) {
            spec.insert(field.to_owned(), value);
        }
    }
    Value::Object(spec)
}

fn tolerations(rng: &mut Rng) -> Value {
    let all = [
        json!({ "operator": "Exists" }),
        json!({ "operator": "Exists", "effect": "NoExecute" }),
        json!({ "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 }),
        json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }),
        json!({ "key": "k" }),
    ];
    (0..rng.below(4)).map(|_| rng.pick(&all).clone()).collect()
}

fn resources(rng: &mut Rng) -> Value {
    let list = |rng: &mut Rng| {
        let mut list = Map::new();
        for (name, amounts) in [
            ("cpu", &["100m", "0.1", "1", "1.5", "2", "1500m", "4", "1e1", "1.0001"][..]),
            ("memory", &["64Mi", "100M", "1Gi", "1.5Gi", "1073741824", "1e9", "0.5", "123456789.5"]),
            ("ephemeral-storage", &["1Gi", "10G"]),
            ("hugepages-2Mi", &["2Mi", "4Mi", "0"]),
            ("example.com/gpu", &["1", "2"]),
        ] {
            if rng.chance(if name == "cpu" || name == "memory" { 60 } else { 6 }) {
                list.insert(name.to_owned(), (*rng.pick(amounts)).into());
            }
        }
        Value::Object(list)
    };
    let limits = list(rng);
    match rng.below(6) {
        0 | 1 => json!({ "limits": limits }),
        2 => json!({ "limits": limits, "requests": limits }),
        3 => json!({ "requests": limits }),
        4 => json!({}),
        _ => json!({ "limits": limits, "requests": list(rng) }),
    }
}

fn volume(rng: &mut Rng, place: usize) -> Value {
    let name = format!("v{place}");
    match rng.below(12) {
        0 => json!({ "name": name }),
        1 | 2 => json!({ "name": name, "emptyDir": {} }),
        3 => json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": words::quantity(rng) } }),
        4 | 5 => json!({ "name": name, "hostPath": { "path": "/data" } }),
        6 => json!({ "name": name, "downwardAPI": { "items": [
            { "path": "l", "fieldRef": { "fieldPath": "metadata.labels" } },
            { "path": "c", "resourceFieldRef": { "containerName": "c0", "resource": "limits.cpu", "divisor": "1m" } },
        ] } }),
        7 => json!({ "name": name, "projected": { "sources": [
            { "downwardAPI": { "items": [{ "path": "n", "fieldRef": { "fieldPath": "metadata.name" } }] } },
        ] } }),
        8 => json!({ "name": name, "nfs": { "server": "s", "path": "/x" } }),
        9 => json!({ "name": name, "image": { "reference": rng.pick(&["app", "app:1"]) } }),
        _ => {
            let (source, ty) = rng.pick(schema::fields("core.VolumeSource"));
            json!({ "name": name, *source: schema::value(rng, ty, source) })
        }
    }
}

fn init_container(rng: &mut Rng, place: usize, volumes: &[Value]) -> Value {
    let mut container = container(rng, "i", place, volumes);
    if rng.chance(50) {
        container["restartPolicy"] = "Always".into();
    } else if let Some(container) = container.as_object_mut() {
        // Among init containers only sidecars have them.
        container.retain(|field, _| !field.ends_with("Probe") && field != "lifecycle");
    }
    container
}

fn container(rng: &mut Rng, prefix: &str, place: usize, volumes: &[Value]) -> Value {
    let mut container =
        json!({ "name": format!("{prefix}{place}"), "image": rng.pick(&["app", "app:1", "app:latest"]) });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if rng.chance(12) {
            container[probe] = handler(rng);
        }
    }
    let env = json!([
        { "name": "A", "value": "1" },
        { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        { "name": "C", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
    ]);
    let ports = json!([{ "containerPort": 80, "name": "http" }, { "containerPort": 53 + place, "protocol": "UDP" }]);
    for (percent, field, value) in [
        (30, "resources", resources(rng)),
        (15, "ports", ports),
        (6, "ports", json!([{ "containerPort": 1000 + place, "hostPort": 1000 + place }])),
        (15, "env", env),
        (10, "command", json!(["sh", "-c", "true"])),
        (10, "securityContext", json!({ "privileged": false, "capabilities": { "add": ["NET_ADMIN"] } })),
        (
            8,
            "lifecycle",
            json!({ "preStop": { "httpGet": { "port": 80 } }, "postStart": { "sleep": { "seconds": 1 } } }),
        ),
        (6, "resizePolicy", json!([{ "resourceName": "cpu", "restartPolicy": "NotRequired" }])),
    ] {
        if rng.chance(percent) {
            container[field] = value;
        }
    }
    let mut mounts = Vec::new();
    for (place, volume) in volumes.iter().enumerate() {
        if rng.chance(50) {
            mounts.push(json!({ "name": volume["name"], "mountPath": format!("/m{place}") }));
        }
    }
    if !mounts.is_empty() {
        container["volumeMounts"] = mounts.into();
    }
    container
}

fn handler(rng: &mut Rng) -> Value {
    match rng.below(5) {
        0 => json!({ "exec": { "command": ["true"] } }),
        1 => json!({ "httpGet": { "port": 80 } }),
        2 => json!({ "httpGet": {
            "port": "http", "path": "x", "scheme": "HTTPS", "httpHeaders": [{ "name": "A", "value": "b" }] } }),
        3 => json!({ "tcpSocket": { "port": 80, "host": "h" } }),
        _ => json!({ "grpc": { "port": 80 } }),
    }
}

/// Changes one place: most of the time a field is added that the type has.
fn change(rng: &mut Rng, manifest: &mut Value) {
    let places = schema::places(POD, manifest);
    if rng.chance(60) {
        let structs: Vec<&Place> = places.iter().filter(|place| !schema::fields(place.ty).is_empty()).collect();
        let at = *rng.pick(&structs);
        let (name, ty) = rng.pick(schema::fields(at.ty));
        let value = schema::value(rng, ty, name);
        put(manifest, &at.pointer, name, value);
        return;
    }
    let at = rng.pick(&places);
    let Some(value) = manifest.pointer_mut(&at.pointer) else { return };
    match rng.below(10) {
        0 => *value = Value::Null,
        1 => *value = rng.pick(&[json!(""), json!(0), json!(false), json!([]), json!({})]).clone(),
        2 => {
            let others = [json!("x"), json!(7), json!(1.5), json!(2.0), json!(true), json!([null]), json!({ "a": 1 })];
            *value = rng.pick(&others).clone();
        }
        3 => put(manifest, &at.pointer, rng.pick::<&str>(&["unheard", "nmae", "Name", "SPEC", ""]), json!(1)),
        4 => repeat(rng, value),
        _ => *value = schema::value(rng, at.ty, &at.name),
    }
}

/// The last item once more, or an item less.
fn repeat(rng: &mut Rng, value: &mut Value) {
    if let Value::Array(items) = value {
        match items.last().cloned() {
            Some(last) if rng.chance(70) => items.push(last),
            _ => drop(items.pop()),
        }
    }
}

fn put(manifest: &mut Value, pointer: &str, name: &str, value: Value) {
    if let Some(Value::Object(object)) = manifest.pointer_mut(pointer) {
        object.insert(name.to_owned(), value);
    }
}
