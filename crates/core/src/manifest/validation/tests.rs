//! Limits: what is exactly at a limit is accepted, what is one beyond it is refused.
//!
//! Which rules there are is held by `tests/static_validation.rs`; the limits of upstream are in core/validation/validation.go and
//! apimachinery/pkg/util/validation (v1.36).

use serde_json::{Value, json};

use super::*;

mod forms;
mod words;

/// A sound pod as defaulting leaves it, with more fields of its metadata, of its spec and of its only container.
fn pod_with(metadata: &Value, spec: &Value, container: &Value) -> Result<Pod, serde_json::Error> {
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "serviceAccountName": "default",
            "containers": [{
                "name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            }],
        },
    });
    for (pointer, more) in [("/metadata", metadata), ("/spec", spec), ("/spec/containers/0", container)] {
        let object = pod.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
        object.extend(more.as_object().expect("fields").clone());
    }
    serde_json::from_value(pod)
}

fn metadata(fields: Value) -> Vec<String> {
    faults(&fields, &json!({}), &json!({}))
}

fn spec(fields: Value) -> Vec<String> {
    faults(&json!({}), &fields, &json!({}))
}

fn container(fields: Value) -> Vec<String> {
    faults(&json!({}), &json!({}), &fields)
}

/// The fields at fault. A number that its type cannot hold is a fault of the whole pod.
fn faults(metadata: &Value, spec: &Value, container: &Value) -> Vec<String> {
    match pod_with(metadata, spec, container) {
        Ok(pod) => validate(&pod, &Gates::default()).into_iter().map(|fault| fault.path).collect(),
        Err(error) => vec![format!("{error}")],
    }
}

fn volume(source: Value) -> Vec<String> {
    let mut volume = source;
    volume["name"] = json!("v");
    spec(json!({"volumes": [volume]}))
}

/// A liveness probe that asks port 80, with other fields.
fn probe(fields: Value) -> Vec<String> {
    let mut probe = json!({"tcpSocket": {"port": 80}, "successThreshold": 1});
    probe.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    container(json!({"livenessProbe": probe}))
}

/// One number, its smallest and its greatest value.
type Number = (&'static str, fn(i64) -> Vec<String>, i64, i64);

fn check_numbers(rows: &[Number]) {
    for (name, faults, min, max) in rows {
        for sound in [Some(*min), min.checked_add(1), max.checked_sub(1), Some(*max)].into_iter().flatten() {
            assert_eq!(faults(sound), Vec::<String>::new(), "{name} {sound}");
        }
        for beyond in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
            assert_eq!(faults(beyond).len(), 1, "{name} {beyond}: {:?}", faults(beyond));
        }
    }
}

const INT: i64 = i32::MAX as i64;

#[test]
fn numbers_of_pods_and_containers_are_held_to_their_limits() {
    check_numbers(&[
        ("generation", |n| metadata(json!({"generation": n})), 0, i64::MAX),
        ("activeDeadlineSeconds", |n| spec(json!({"activeDeadlineSeconds": n})), 1, INT),
        ("fsGroup", |n| spec(json!({"securityContext": {"fsGroup": n}})), 0, INT),
        ("runAsUser", |n| spec(json!({"securityContext": {"runAsUser": n}})), 0, INT),
        ("runAsGroup", |n| spec(json!({"securityContext": {"runAsGroup": n}})), 0, INT),
        ("supplementalGroups", |n| spec(json!({"securityContext": {"supplementalGroups": [n]}})), 0, INT),
        ("container runAsUser", |n| container(json!({"securityContext": {"runAsUser": n}})), 0, INT),
        ("container runAsGroup", |n| container(json!({"securityContext": {"runAsGroup": n}})), 0, INT),
        ("containerPort", |n| container(json!({"ports": [{"containerPort": n, "protocol": "TCP"}]})), 1, 65535),
        (
            "hostPort",
            |n| container(json!({"ports": [{"containerPort": 80, "hostPort": n, "protocol": "TCP"}]})),
            1,
            65535,
        ),
        ("sleep", |n| container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": n}}}})), 0, 30),
    ]);
}

#[test]
fn numbers_of_probes_are_held_to_their_limits() {
    check_numbers(&[
        ("initialDelaySeconds", |n| probe(json!({"initialDelaySeconds": n})), 0, INT),
        ("timeoutSeconds", |n| probe(json!({"timeoutSeconds": n})), 0, INT),
        ("periodSeconds", |n| probe(json!({"periodSeconds": n})), 0, INT),
        ("failureThreshold", |n| probe(json!({"failureThreshold": n})), 0, INT),
        ("terminationGracePeriodSeconds", |n| probe(json!({"terminationGracePeriodSeconds": n})), 1, i64::MAX),
        ("tcpSocket", |n| probe(json!({"tcpSocket": {"port": n}})), 1, 65535),
        ("grpc", |n| probe(json!({"tcpSocket": null, "grpc": {"port": n}})), 1, 65535),
        (
            "httpGet",
            |n| probe(json!({"tcpSocket": null, "httpGet": {"path": "/", "scheme": "HTTP", "port": n}})),
            1,
            65535,
        ),
        (
            "readiness successThreshold",
            |n| container(json!({"readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": n}})),
            0,
            INT,
        ),
    ]);
    for threshold in [0, 2] {
        let at = "spec.containers[0].livenessProbe.successThreshold";
        assert_eq!(probe(json!({"successThreshold": threshold})), [at], "{threshold}");
        let probe = json!({"tcpSocket": {"port": 80}, "successThreshold": threshold});
        let at = "spec.containers[0].startupProbe.successThreshold";
        assert_eq!(container(json!({"startupProbe": probe})), [at], "{threshold}");
    }
}

#[test]
fn numbers_of_volumes_are_held_to_their_limits() {
    check_numbers(&[
        ("secret", |n| volume(json!({"secret": {"secretName": "s", "defaultMode": n}})), 0, 0o777),
        ("configMap", |n| volume(json!({"configMap": {"name": "s", "defaultMode": n}})), 0, 0o777),
        ("downwardAPI", |n| volume(json!({"downwardAPI": {"defaultMode": n}})), 0, 0o777),
        ("projected", |n| volume(json!({"projected": {"defaultMode": n}})), 0, 0o777),
        (
            "item",
            |n| volume(json!({"configMap": {"name": "s", "items": [{"key": "k", "path": "p", "mode": n}]}})),
            0,
            0o777,
        ),
        (
            "file",
            |n| {
                let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
                volume(json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": field, "mode": n}]}}))
            },
            0,
            0o777,
        ),
        (
            "token",
            |n| {
                let token = json!({"path": "p", "expirationSeconds": n});
                volume(json!({"projected": {"sources": [{"serviceAccountToken": token}]}}))
            },
            600,
            1 << 32,
        ),
        ("gce", |n| volume(json!({"gcePersistentDisk": {"pdName": "d", "partition": n}})), 0, 255),
        ("aws", |n| volume(json!({"awsElasticBlockStore": {"volumeID": "d", "partition": n}})), 0, 255),
        (
            "iscsi",
            |n| volume(json!({"iscsi": {"targetPortal": "p", "iqn": "iqn.2026-01.com.example:d", "lun": n}})),
            0,
            255,
        ),
        ("fc", |n| volume(json!({"fc": {"targetWWNs": ["w"], "lun": n}})), 0, 255),
    ]);
    for (limit, sound) in [("0", true), ("1n", true), ("-1n", false), ("-1", false)] {
        assert_eq!(volume(json!({"emptyDir": {"sizeLimit": limit}})).is_empty(), sound, "{limit}");
    }
}

#[test]
fn numbers_of_scheduling_are_held_to_their_limits() {
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    fn spread(fields: Value) -> Vec<String> {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        constraint.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        spec(json!({"topologySpreadConstraints": [constraint]}))
    }
    check_numbers(&[
        (
            "nodeAffinity",
            |n| spec(json!({"affinity": {"nodeAffinity": {PREFERRED: [{"weight": n, "preference": {}}]}}})),
            1,
            100,
        ),
        (
            "podAffinity",
            |n| {
                let term = json!({"weight": n, "podAffinityTerm": {"topologyKey": "zone"}});
                spec(json!({"affinity": {"podAffinity": {PREFERRED: [term]}}}))
            },
            1,
            100,
        ),
        (
            "podAntiAffinity",
            |n| {
                let term = json!({"weight": n, "podAffinityTerm": {"topologyKey": "zone"}});
                spec(json!({"affinity": {"podAntiAffinity": {PREFERRED: [term]}}}))
            },
            1,
            100,
        ),
        ("maxSkew", |n| spread(json!({"maxSkew": n})), 1, INT),
        ("minDomains", |n| spread(json!({"minDomains": n})), 1, INT),
    ]);
}

/// One text or list and its greatest length.
type Length = (&'static str, fn(usize) -> Vec<String>, usize);

/// Each row gives as many bytes or items as it is asked for; one more than the limit is a fault of this field.
#[test]
fn lengths_are_held_to_their_limits() {
    fn iscsi(name: usize, portal: usize) -> Vec<String> {
        let iqn = "iqn.2026-01.com.example:d";
        let portal = "p".repeat(portal);
        let source = json!({"targetPortal": portal, "iqn": iqn, "initiatorName": iqn, "lun": 0});
        spec(json!({"volumes": [{"name": "v".repeat(name), "iscsi": source}]}))
    }
    let rows: [Length; 13] = [
        (
            "metadata.annotations",
            |n| metadata(json!({"annotations": {"a": "x".repeat(1000), "bc": "x".repeat(n - 1003)}})),
            256 * 1024,
        ),
        (
            "metadata.managedFields[0].manager",
            |n| metadata(json!({"managedFields": [{"operation": "Apply", "manager": "m".repeat(n)}]})),
            128,
        ),
        (
            "metadata.managedFields[0].subresource",
            |n| metadata(json!({"managedFields": [{"operation": "Update", "subresource": "s".repeat(n)}]})),
            256,
        ),
        (
            "spec.containers[0].restartPolicyRules",
            |n| {
                let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}});
                container(json!({"restartPolicy": "Never", "restartPolicyRules": vec![rule; n]}))
            },
            20,
        ),
        (
            "spec.containers[0].restartPolicyRules[0].exitCodes.values",
            |n| {
                let rule = json!({"action": "Restart", "exitCodes": {"operator": "NotIn", "values": vec![1; n]}});
                container(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}))
            },
            255,
        ),
        (
            "spec.securityContext.appArmorProfile.localhostProfile",
            |n| {
                let profile = json!({"type": "Localhost", "localhostProfile": "p".repeat(n)});
                spec(json!({"securityContext": {"appArmorProfile": profile}}))
            },
            4095,
        ),
        ("spec.dnsConfig.nameservers", |n| spec(json!({"dnsConfig": {"nameservers": vec!["10.0.0.1"; n]}})), 3),
        ("spec.dnsConfig.searches", |n| spec(json!({"dnsConfig": {"searches": vec!["a"; n]}})), 32),
        (
            "spec.dnsConfig.searches",
            |n| {
                let mut searches = vec!["a".repeat(199); 10];
                searches.push("a".repeat(n - 2000));
                spec(json!({"dnsConfig": {"searches": searches}}))
            },
            2048,
        ),
        ("spec.hostnameOverride", |n| spec(json!({"hostnameOverride": "h".repeat(n)})), 64),
        ("spec.volumes[0].name", |n| iscsi(8, n - 9), 64),
        (
            "spec.volumes[0].quobyte.tenant",
            |n| volume(json!({"quobyte": {"registry": "r:1", "volume": "v", "tenant": "t".repeat(n)}})),
            64,
        ),
        ("spec.volumes[0].csi.driver", |n| volume(json!({"csi": {"driver": "d".repeat(n)}})), 63),
    ];
    for (field, faults, max) in rows {
        for length in [max - 1, max] {
            assert_eq!(faults(length), Vec::<String>::new(), "{field} {length}");
        }
        assert_eq!(faults(max + 1), [field]);
    }
}

#[test]
fn only_the_second_controller_is_one_too_many() {
    let owner = |name: &str, controller: bool| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "u", "controller": controller});
    assert_eq!(metadata(json!({"ownerReferences": [owner("a", true), owner("b", false)]})), Vec::<String>::new());
    let both = json!({"ownerReferences": [owner("a", true), owner("b", false), owner("c", true)]});
    assert_eq!(metadata(both), ["metadata.ownerReferences[2]"]);
}

#[test]
fn amounts_are_whole_where_they_are_counted_and_never_negative() {
    let limits = |name: &str, amount: &str| {
        let mut list = json!({"cpu": "1"});
        list[name] = json!(amount);
        container(json!({"resources": {"limits": list, "requests": list}}))
    };
    for (name, amount, sound) in [
        ("memory", "0", true),
        ("memory", "-1", false),
        ("cpu", "0.0005", true),
        ("example.com/gpu", "1", true),
        ("example.com/gpu", "0", true),
        ("example.com/gpu", "1500m", false),
        ("hugepages-2Mi", "2Mi", true),
        ("hugepages-2Mi", "4Mi", true),
        ("hugepages-2Mi", "3Mi", false),
        ("hugepages-2Mi", "1", false),
        ("hugepages-0", "2Mi", false),
        ("hugepages--2Mi", "2Mi", false),
    ] {
        assert_eq!(limits(name, amount).is_empty(), sound, "{name} {amount}: {:?}", limits(name, amount));
    }
}

#[test]
fn requests_are_at_most_the_limits_of_the_container_and_of_the_pod() {
    let own = |request: &str| container(json!({"resources": {"requests": {"cpu": request}, "limits": {"cpu": "1"}}}));
    assert_eq!((own("999m"), own("1")), (vec![], vec![]));
    assert_eq!(own("1001m"), ["spec.containers[0].resources.requests[cpu]"]);
    let resources = |list: &str, amount: &str| {
        let pod = json!({"resources": {list: {"cpu": "1"}}});
        faults(&json!({}), &pod, &json!({"resources": {list: {"cpu": amount}}}))
    };
    for amount in ["999m", "1"] {
        assert_eq!((resources("requests", amount), resources("limits", amount)), (vec![], vec![]), "{amount}");
    }
    assert_eq!(resources("requests", "1001m"), ["spec.resources.requests[cpu]"]);
    assert_eq!(resources("limits", "1001m"), ["spec.containers[0].resources.limits[cpu]"]);
}

#[test]
fn a_key_that_is_in_the_selector_too_is_named_by_its_place() {
    let spread = |keys: &[&str], mismatch: &[&str]| {
        let selector =
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let term = json!({
            "topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": keys, "mismatchLabelKeys": mismatch,
        });
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let paths = spec(json!({"affinity": {"podAffinity": {required: [term]}}}));
        paths.into_iter().filter_map(|path| Some(path.rsplit_once('.')?.1.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(spread(&["tier", "hash"], &["other"]), Vec::<String>::new());
    assert_eq!(spread(&["tier", "app"], &[]), ["matchLabelKeys[1]"]);
    assert_eq!(spread(&["app", "tier", "app", "hash"], &[]), ["matchLabelKeys[2]"]);
    assert_eq!(spread(&["tier", "hash"], &["hash"]), ["matchLabelKeys[1]"]);
}

#[test]
fn spread_constraints_are_the_same_if_key_and_action_are() {
    let spread = |rows: &[(&str, &str)]| {
        let list: Vec<Value> = rows
            .iter()
            .map(|(key, action)| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action}))
            .collect();
        spec(json!({"topologySpreadConstraints": list}))
    };
    let (hard, soft) = ("DoNotSchedule", "ScheduleAnyway");
    assert_eq!(spread(&[("zone", hard), ("zone", soft), ("host", hard)]), Vec::<String>::new());
    assert_eq!(spread(&[("host", hard), ("zone", soft), ("zone", soft)]), ["spec.topologySpreadConstraints[1]"]);
}
