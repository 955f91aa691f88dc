//! SEC-01; upstream: pkg/api/v1/pod/util_test.go TestPodSecrets, TestPodConfigmaps (v1.36)

use serde_json::json;

use super::*;

#[test]
fn sec_01_everything_that_a_pod_uses() {
    let env = |name: &str| {
        json!({
            "name": name, "image": "i",
            "envFrom": [{ "configMapRef": { "name": format!("{name}-map") } }, { "secretRef": { "name": format!("{name}-secret") } }],
            "env": [
                { "name": "A", "valueFrom": { "configMapKeyRef": { "name": format!("{name}-map-key"), "key": "k" } } },
                { "name": "B", "valueFrom": { "secretKeyRef": { "name": format!("{name}-secret-key"), "key": "k" } } },
            ],
        })
    };
    let pod = json!({ "spec": {
        "imagePullSecrets": [{ "name": "pull" }, { "name": "" }],
        "initContainers": [env("init")],
        "containers": [env("app")],
        "ephemeralContainers": [env("debug")],
        "volumes": [
            { "name": "a", "secret": { "secretName": "v-secret" } },
            { "name": "b", "configMap": { "name": "v-map" } },
            { "name": "c", "projected": { "sources": [{ "secret": { "name": "p-secret" } }, { "configMap": { "name": "p-map" } }] } },
            { "name": "d", "csi": { "driver": "d", "nodePublishSecretRef": { "name": "csi" } } },
            { "name": "e", "iscsi": { "targetPortal": "p", "iqn": "i", "lun": 0, "secretRef": { "name": "iscsi" } } },
        ],
    } });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let names = objects_of(&pod);
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        list(&names.config_maps),
        "app-map app-map-key debug-map debug-map-key init-map init-map-key p-map v-map"
    );
    assert_eq!(
        list(&names.secrets),
        "app-secret app-secret-key csi debug-secret debug-secret-key init-secret init-secret-key iscsi p-secret pull v-secret"
    );
    let mounted = mounted_by(&pod);
    assert_eq!(
        (list(&mounted.config_maps), list(&mounted.secrets)),
        ("p-map v-map".into(), "csi iscsi p-secret v-secret".into())
    );
    assert_eq!(objects_of(&Pod::default()), ObjectNames::default());
}

/// An ephemeral container can be added to a pod that runs, with any number of references.
#[test]
fn only_so_many_objects_are_watched_for_one_pod() {
    let env: Vec<_> = (0..10_000)
        .flat_map(|n| {
            let reference = json!({ "name": format!("o{n}"), "key": "k" });
            [json!({ "configMapKeyRef": reference }), json!({ "secretKeyRef": reference })]
        })
        .map(|from| json!({ "name": "A", "valueFrom": from }))
        .collect();
    let pod = json!({ "spec": { "containers": [], "ephemeralContainers": [{ "name": "debug", "env": env }] } });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let names = objects_of(&pod);
    assert_eq!((names.config_maps.len(), names.secrets.len()), (MAX_OBJECTS, MAX_OBJECTS));
    assert_eq!(all_objects_of(&pod).config_maps.len(), 10_000);
}
