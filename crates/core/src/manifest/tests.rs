//! What a person gets to read, what the gates change, and that the table of types fits the API types.

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};

use super::schema::{POD, Type};
use super::*;

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
}

fn simple() -> Value {
    pod(json!({"containers": [{"name": "c", "image": "i"}]}))
}

fn file() -> Origin {
    Origin::File("/etc/kubernetes/manifests/web.yaml".to_owned())
}

fn build(raw: &Value) -> Result<Manifest, ManifestError> {
    static_pod(raw, &file(), "Node-1", &Gates::new(Gate::on_by_default))
}

#[test]
fn a_refused_manifest_says_which_field_and_why() {
    let check = |raw: Value, expected: Expect| {
        let error = build(&raw).expect_err("the manifest is faulty");
        expected.assert_eq(&error.to_string());
    };
    check(json!([]), expect!["the manifest is a list, not a mapping with apiVersion, kind, metadata and spec"]);
    check(Value::Null, expect!["the manifest is null, not a mapping with apiVersion, kind, metadata and spec"]);
    check(json!({}), expect!["expected apiVersion: v1, kind: Pod, found apiVersion: none, kind: none"]);
    check(
        json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
        expect!["expected apiVersion: v1, kind: Pod, found apiVersion: apps/v1, kind: Deployment"],
    );
    check(
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}),
        expect!["invalid pod: metadata.name: Required value"],
    );
    check(
        pod(
            json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "P", "value": 80}]}], "hostPID": "yes"}),
        ),
        expect![[
            r#"malformed pod: spec.containers[0].env[0].value: Wrong type: found a number: must be a string; put it in quotes; spec.hostPID: Wrong type: found a string: must be true or false"#
        ]],
    );
    check(
        pod(json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1 core"}}}]})),
        expect![[
            r#"malformed pod: spec.containers[0].resources.limits[cpu]: Invalid value: "1 core": must be a number with an optional suffix such as m, k, M, Gi or e3"#
        ]],
    );
}

#[test]
fn a_node_name_that_no_pod_can_have_is_a_fault_of_the_pod() {
    let error = build(&simple()).expect_err("upper case is not a node name");
    expect![[
        r#"invalid pod: spec.nodeName: Invalid value: "Node-1": must be lower case letters, digits, '-' and '.', each part beginning and ending with a letter or digit"#
    ]]
    .assert_eq(&error.to_string());
}

#[test]
fn src_05_the_name_gets_the_node_in_lower_case() {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".to_owned());
    place::place(&mut pod, "1".to_owned(), &file(), "Node-1");
    assert_eq!(pod.metadata.name.as_deref(), Some("web-node-1"));
}

#[test]
fn unknown_fields_are_ignored_with_a_warning() {
    let raw = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "label": {"a": "b"}},
        "spec": {"contianers": [], "replicas": 3, "containers": [{"name": "c", "image": "i", "livenessprobe": {}}]}
    });
    let manifest = static_pod(&raw, &file(), "node", &Gates::default()).expect("unknown fields do no harm");
    let lines: Vec<String> = manifest.warnings.iter().map(ToString::to_string).collect();
    expect![[r#"
        metadata.label: unknown field, ignored; did you mean "labels"?
        spec.containers[0].livenessprobe: unknown field, ignored; did you mean "livenessProbe"?
        spec.contianers: unknown field, ignored; did you mean "containers"?
        spec.replicas: unknown field, ignored"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn src_06_references_are_refused_by_gate() {
    let secret = pod(json!({
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "s", "secret": {"secretName": "s"}}]
    }));
    let claims = pod(json!({
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]
    }));
    let loose = Gates::new(|gate| gate != Gate::PreventStaticPodApiReferences && Gate::on_by_default(gate));
    let resource = |raw: &Value, gates: &Gates| match static_pod(raw, &file(), "node", gates) {
        Err(ManifestError::Reference { resource }) => Some(resource),
        Ok(_) | Err(_) => None,
    };
    assert_eq!(resource(&secret, &Gates::default()), Some("secrets"));
    assert_eq!(resource(&secret, &loose), None);
    assert!(static_pod(&secret, &file(), "node", &loose).is_ok());
    let refused = static_pod(&claims, &file(), "node", &loose).map_err(|err| err.to_string());
    assert_eq!(refused, Err("static pods may not use ResourceClaims".to_owned()));
}

#[test]
fn gates_decide_what_is_valid() {
    let spec = |extra: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        pod(spec)
    };
    let lt = spec(json!({"tolerations": [{"key": "k", "operator": "Lt", "value": "5"}]}));
    let zeros = spec(json!({"hostAliases": [{"ip": "010.0.0.1"}]}));
    let mount = spec(json!({"securityContext": {"seLinuxChangePolicy": "MountOption"}}));
    let userns = spec(json!({"hostUsers": false, "hostNetwork": true}));
    let never = pod(json!({"containers": [{"name": "c", "image": "i", "restartPolicy": "Never"}]}));
    for (raw, gate, valid_when_on) in [
        (&lt, Gate::TaintTolerationComparisonOperators, true),
        (&zeros, Gate::StrictIpCidrValidation, false),
        (&mount, Gate::SeLinuxMount, true),
        (&userns, Gate::UserNamespacesHostNetworkSupport, true),
        (&never, Gate::ContainerRestartRules, true),
    ] {
        for on in [true, false] {
            let gates = Gates::new(|other| if other == gate { on } else { Gate::on_by_default(other) });
            let valid = static_pod(raw, &file(), "node", &gates).is_ok();
            assert_eq!(valid, on == valid_when_on, "{} {on}", gate.name());
        }
    }
}

#[test]
fn annotations_may_not_grow_without_end() {
    let mut raw = simple();
    raw["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024)});
    let error = static_pod(&raw, &file(), "node", &Gates::default()).expect_err("too much");
    assert!(error.to_string().contains("metadata.annotations: Too long"), "{error}");
}

/// Every field of the table with a value, so that a field which the API types lack would get lost.
fn full(schema: &Schema, go: &'static str, depth: usize) -> Value {
    match schema.resolve(go) {
        Type::Pointer(inner) => full(schema, inner, depth),
        Type::Slice(inner) => Value::Array(vec![full(schema, inner, depth)]),
        Type::Map(inner) => json!({"k": full(schema, inner, depth)}),
        Type::Struct(known) if depth > 0 => {
            let fields = known.json.iter().map(|(name, field)| ((*name).to_owned(), full(schema, field.ty, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Type::Struct(_) => json!({}),
        Type::String => json!("x"),
        Type::Int32 | Type::Int64 => json!(7),
        Type::Bool => json!(true),
        Type::Quantity => json!("1"),
        Type::IntOrString => json!("p"),
        Type::Time => json!("2026-01-31T12:00:00Z"),
        Type::Raw => json!({"f:x": {}}),
    }
}

#[test]
fn the_table_and_the_api_types_know_the_same_fields() {
    let schema = Schema::get();
    let all = full(schema, POD, 12);
    let (shaped, found) = shape::shape(schema, &all);
    assert!(found.errors.is_empty() && found.warnings.is_empty(), "the table accepts itself");
    let back = untyped(&typed(shaped.clone()).unwrap()).unwrap();
    let (mut shaped, mut back) = (shaped, back);
    for value in [&mut shaped, &mut back] {
        value.as_object_mut().unwrap().retain(|name, _| name != "apiVersion" && name != "kind");
    }
    assert_eq!(back, shaped);
}

#[test]
fn gates_are_named_and_set_as_in_the_table_of_all_gates() {
    let all = crate::config::FeatureGates::default();
    let table: std::collections::BTreeMap<_, _> = all.all().map(|(name, _, on)| (name, on)).collect();
    for gate in Gate::ALL {
        assert_eq!(table.get(gate.name()), Some(&gate.on_by_default()), "{gate:?}");
    }
}

// SRC-06: an empty name refers to nothing.
#[test]
fn src_06_references_without_a_name_refer_to_nothing() {
    let refers = |spec: Value| {
        let pod = serde_json::from_value(json!({"spec": spec})).expect("a pod");
        references::api_reference(&pod)
    };
    let env = |from: Value| json!({"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": from}]}]});
    let volume = |source: Value| json!({"containers": [], "volumes": [source]});
    for (spec, kind) in [
        (env(json!({"secretKeyRef": {"name": "", "key": "k"}})), None),
        (env(json!({"secretKeyRef": {"name": "s", "key": "k"}})), Some("secrets")),
        (env(json!({"configMapKeyRef": {"name": "", "key": "k"}})), None),
        (env(json!({"configMapKeyRef": {"name": "m", "key": "k"}})), Some("configmaps")),
        (json!({"containers": [], "resourceClaims": []}), None),
        (volume(json!({"name": "v", "configMap": {"name": "m"}})), Some("configmaps")),
        (volume(json!({"name": "v", "configMap": {"name": ""}})), Some("configmaps (via configmap volumes)")),
        (json!({"containers": [], "resourceClaims": [{"name": "c"}]}), Some("resourceclaims")),
        (volume(json!({"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}})), Some("secrets")),
        (volume(json!({"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}})), Some("secrets")),
        (volume(json!({"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}]}})), Some("configmaps")),
    ] {
        let refused = refers(spec.clone()).map(|err| err.to_string());
        assert_eq!(refused, kind.map(|kind| format!("static pods may not reference {kind}")), "{spec}");
    }
}
