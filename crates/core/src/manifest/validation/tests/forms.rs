//! Forms and combinations: each valid one beside those that differ from it in one point.

use super::*;

fn check(rows: Vec<(&str, Vec<String>, bool)>) {
    for (name, faults, valid) in rows {
        assert_eq!(faults.is_empty(), valid, "{name}: {faults:?}");
    }
}

// upstream: apis/core/validation validateISCSIVolumeSource (v1.36)
#[test]
fn names_of_initiators_have_one_of_three_forms() {
    let initiator = |name: &str| {
        volume(json!({"iscsi": {
            "targetPortal": "127.0.0.1", "iqn": "iqn.2015-02.example.com:test", "lun": 1, "initiatorName": name,
        }}))
    };
    for (name, valid) in [
        ("iqn.2026-01.com.example:disk", true),
        ("iqn.2026-01.com.example:d/i_s.k:1", true),
        ("iqn.2026-01:disk", false),
        ("iqn.2026-01.:disk", false),
        ("iqn.2026-01.com.example:", false),
        ("iqn.2026-01.com.example", false),
        ("iqn.2026-01.com_example:disk", false),
        ("iqn.2026-01.com.example:a b", false),
        ("iqn.2026-01.com.example:a,b", false),
        ("iqn.226-01.com.example:disk", false),
        ("iqn.2026-1.com.example:disk", false),
        ("iqn.20x6-01.com.example:disk", false),
        ("iqn.2026-x1.com.example:disk", false),
        ("iqn.2026001.com.example:disk", false),
        ("eui.0123456789ABCDEF", true),
        ("eui.0123456789ABCDE", false),
        ("eui.0123456789ABCDE-", false),
        ("eui", false),
        ("naa.0123456789ABCDEF0123456789ABCDEF", true),
        ("naa.0123456789ABCDEF", false),
        ("abc.0123456789ABCDEF", false),
    ] {
        assert_eq!(initiator(name).is_empty(), valid, "{name}");
    }
}

#[test]
fn a_device_is_a_claim_or_an_ephemeral_volume() {
    let device = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        faults(
            &json!({}),
            &json!({"volumes": [volume]}),
            &json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}),
        )
    };
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    check(vec![
        ("a claim", device(json!({"persistentVolumeClaim": {"claimName": "c"}})), true),
        ("ephemeral", device(json!({"ephemeral": {"volumeClaimTemplate": template}})), true),
        ("a directory", device(json!({"emptyDir": {}})), false),
    ]);
}

#[test]
fn the_name_of_an_ephemeral_volume_makes_the_name_of_its_claim() {
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let named = |pod: &str| {
        let volumes = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]);
        faults(&json!({"name": pod}), &json!({"volumes": volumes}), &json!({}))
    };
    check(vec![("253 characters", named(&"a".repeat(251)), true), ("254 characters", named(&"a".repeat(252)), false)]);
}

#[test]
fn a_value_comes_from_one_source() {
    let from = |source: Value| container(json!({"env": [{"name": "A", "valueFrom": source}]}));
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
    let key = json!({"name": "x", "key": "k"});
    check(vec![
        ("one", from(json!({"fieldRef": field})), true),
        ("none", from(json!({})), false),
        ("two", from(json!({"fieldRef": field, "secretKeyRef": key})), false),
        (
            "a value too",
            container(json!({"env": [{"name": "A", "value": "v", "valueFrom": {"fieldRef": field}}]})),
            false,
        ),
    ]);
    let of = |path: &str| from(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}}));
    check(vec![
        ("spec.nodeName", of("spec.nodeName"), true),
        ("spec.host", of("spec.host"), true),
        ("metadata.labels['a']", of("metadata.labels['a']"), true),
        ("metadata.labels['a b']", of("metadata.labels['a b']"), false),
        ("metadata.labels", of("metadata.labels"), false),
        ("status.phase", of("status.phase"), false),
        ("nothing", of("nothing"), false),
    ]);
    let resource = |name: &str, divisor: &str| {
        from(json!({"resourceFieldRef": {"containerName": "c", "resource": name, "divisor": divisor}})).len()
    };
    for (name, divisor, faults) in [
        ("limits.cpu", "1m", 0),
        ("limits.cpu", "1Mi", 1),
        ("limits.memory", "1Mi", 0),
        ("limits.memory", "1m", 1),
        ("requests.hugepages-2Mi", "1Mi", 0),
        ("requests.hugepages-2Mi", "1m", 1),
        // The divisor of a resource that there is not is no second fault.
        ("limits.gold", "1m", 1),
    ] {
        assert_eq!(resource(name, divisor), faults, "{name} {divisor}");
    }
}

#[test]
fn finalizers_have_a_domain_or_are_standard_and_exclude_each_other() {
    let with = |list: &[&str]| metadata(json!({"finalizers": list}));
    check(vec![
        ("with a domain", with(&["example.com/f"]), true),
        ("orphan", with(&["orphan"]), true),
        ("foreground", with(&["foregroundDeletion"]), true),
        ("kubernetes and another", with(&["kubernetes", "orphan"]), true),
        ("without a domain", with(&["mine"]), false),
        ("both", with(&["orphan", "foregroundDeletion"]), false),
    ]);
}

#[test]
fn old_annotations_agree_with_the_fields() {
    let agree = |old: &str, profile: Value| {
        faults(
            &json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/c": old}}),
            &json!({}),
            &json!({"securityContext": {"appArmorProfile": profile}}),
        )
    };
    let of = |kind: &str| json!({"type": kind});
    let local = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
    check(vec![
        ("unconfined", agree("unconfined", of("Unconfined")), true),
        ("unconfined is no default", agree("unconfined", of("RuntimeDefault")), false),
        ("default", agree("runtime/default", of("RuntimeDefault")), true),
        ("default is not unconfined", agree("runtime/default", of("Unconfined")), false),
        ("local", agree("localhost/p", local("p")), true),
        ("another local", agree("localhost/p", local("q")), false),
    ]);
    let tolerations =
        |text: &str| metadata(json!({"annotations": {"scheduler.alpha.kubernetes.io/tolerations": text}}));
    check(vec![
        ("no tolerations", tolerations(""), true),
        ("a list", tolerations(r#"[{"key": "a", "operator": "Exists"}]"#), true),
        ("no list", tolerations("x"), false),
    ]);
}

#[test]
fn a_projected_source_has_one_kind() {
    let sources = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let named = json!({"name": "x"});
    check(vec![
        ("one", sources(json!({"configMap": named})), true),
        ("none, which makes no file", sources(json!({})), true),
        ("two", sources(json!({"configMap": named, "secret": named})), false),
    ]);
}

#[test]
fn a_container_uses_claims_of_the_pod() {
    let uses = |pods: &[&str], own: &[Value]| {
        let claims: Vec<Value> = pods.iter().map(|name| json!({"name": name, "resourceClaimName": name})).collect();
        let resources = json!({"claims": own});
        faults(&json!({}), &json!({"resourceClaims": claims}), &json!({"resources": resources}))
            .into_iter()
            .filter(|path| path.contains("resources"))
            .collect::<Vec<_>>()
    };
    check(vec![
        ("known", uses(&["a", "b"], &[json!({"name": "b"})]), true),
        ("unknown", uses(&["a"], &[json!({"name": "b"})]), false),
        ("twice", uses(&["a"], &[json!({"name": "a"}), json!({"name": "a"})]), false),
        (
            "two requests",
            uses(&["a"], &[json!({"name": "a", "request": "x"}), json!({"name": "a", "request": "y"})]),
            true,
        ),
        ("whole and part", uses(&["a"], &[json!({"name": "a", "request": "x"}), json!({"name": "a"})]), false),
    ]);
}

#[test]
fn what_gates_change() {
    let with = |gate: Gate, on: bool, spec: &Value, container: &Value| {
        let gates = Gates::new(|other| if other == gate { on } else { Gate::on_by_default(other) });
        let pod = pod_with(&json!({}), spec, container).expect("a pod");
        validate(&pod, &gates).into_iter().map(|fault| fault.path).collect::<Vec<_>>()
    };
    let none = json!({});
    let spread = |selector: Value, keys: &[&str]| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": keys});
        if !selector.is_null() {
            constraint["labelSelector"] = selector;
        }
        json!({"topologySpreadConstraints": [constraint]})
    };
    let merge = Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge;
    let web = || json!({"matchLabels": {"app": "web"}});
    let expression = || json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    check(vec![
        ("other keys", with(merge, false, &spread(web(), &["tier"]), &none), true),
        ("no selector, no keys", with(merge, false, &spread(Value::Null, &[]), &none), true),
        ("no selector", with(merge, false, &spread(Value::Null, &["tier"]), &none), false),
        ("a label of the selector", with(merge, false, &spread(web(), &["app"]), &none), false),
        ("an expression of the selector", with(merge, false, &spread(expression(), &["app"]), &none), false),
        ("an expression of another key", with(merge, false, &spread(expression(), &["tier"]), &none), true),
    ]);
    let compare = Gate::TaintTolerationComparisonOperators;
    let tolerates = |value: &str| json!({"tolerations": [{"key": "a", "operator": "Lt", "value": value}]});
    check(vec![
        ("a number", with(compare, true, &tolerates("7"), &none), true),
        ("no number", with(compare, true, &tolerates("x"), &none), false),
        ("no such operator", with(compare, false, &tolerates("7"), &none), false),
    ]);
}
