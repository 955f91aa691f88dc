use rubelet_testkit::{FakeObjects, pod};
use serde_json::{Value, json};

use super::*;
use crate::testing::{disk, request};

async fn set_up(kind: Kind, objects: &FakeObjects, source: Value) -> Result<Vec<String>, String> {
    let (disk, content) = disk();
    let plugin = ObjectVolumes { kind, content, objects: Arc::new(objects.clone()) };
    let source = match kind {
        Kind::ConfigMap => json!({ "configMap": source }),
        Kind::Secret => json!({ "secret": source }),
    };
    let request = request(pod("web").build(), &source);
    plugin.set_up(&request).await.map(|_| disk.files()).map_err(|err| err.to_string())
}

#[tokio::test]
async fn a_config_map_is_there_or_its_pod_waits_unless_it_is_optional() {
    let objects = FakeObjects::default();
    objects.put_config_map("x", [("a", "1"), ("b", "2")]);
    let lines = |lines: &[&str]| Ok(lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    for (source, expected) in [
        (json!({"name": "x", "defaultMode": 292}), lines(&["a 444 1", "b 444 2"])),
        (json!({"name": "x"}), lines(&["a 644 1", "b 644 2"])),
        (json!({"name": "x", "items": [{"key": "b", "path": "dir/c"}]}), lines(&["dir/c 644 2"])),
        (
            json!({"name": "x", "items": [{"key": "z", "path": "z"}]}),
            Err("configmap references non-existent config key: z".to_owned()),
        ),
        (json!({"name": "x", "optional": true, "items": [{"key": "z", "path": "z"}]}), lines(&[])),
        (json!({"name": "y"}), Err("configmap \"y\" not found".to_owned())),
        (json!({"name": "y", "optional": true}), lines(&[])),
    ] {
        assert_eq!(set_up(Kind::ConfigMap, &objects, source.clone()).await, expected, "{source}");
    }
    objects.set_down(true);
    let down = set_up(Kind::ConfigMap, &objects, json!({"name": "x", "optional": true})).await;
    assert_eq!(down, Err("connection refused".to_owned()), "to be away is not to be missing");
}

#[tokio::test]
async fn the_contract_holds_for_config_maps_and_content_follows() {
    let (disk, content) = disk();
    let objects = FakeObjects::default();
    objects.put_config_map("x", [("a", "1")]);
    let plugin = ObjectVolumes::config_maps(content, Arc::new(objects.clone()));
    let request = request(pod("web").build(), &json!({"configMap": {"name": "x"}}));
    rubelet_testkit::contract::check_volume_plugin(&plugin, &request).await;
    assert!(plugin.follows_changes());
    plugin.set_up(&request).await.unwrap();
    objects.put_config_map("x", [("b", "2")]);
    plugin.set_up(&request).await.unwrap();
    assert_eq!(disk.files(), ["b 644 2"]);
    assert_eq!(plugin.volumes_of(&"web-uid".into()).await.unwrap(), ["v"]);
    assert!(!disk.calls().iter().any(|call| call.starts_with("mount")), "it is on disk");
}

#[tokio::test]
async fn a_secret_is_there_or_its_pod_waits_unless_it_is_optional() {
    let objects = FakeObjects::default();
    objects.put_secret("x", [("a", "1"), ("b", "2")]);
    let lines = |lines: &[&str]| Ok(lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    for (source, expected) in [
        (json!({"secretName": "x", "defaultMode": 256}), lines(&["a 400 1", "b 400 2"])),
        (json!({"secretName": "x", "items": [{"key": "b", "path": "c", "mode": 256}]}), lines(&["c 400 2"])),
        (
            json!({"secretName": "x", "items": [{"key": "z", "path": "z"}]}),
            Err("references non-existent secret key: z".to_owned()),
        ),
        (json!({"secretName": "y"}), Err("secret \"y\" not found".to_owned())),
        (json!({"secretName": "y", "optional": true}), lines(&[])),
    ] {
        assert_eq!(set_up(Kind::Secret, &objects, source.clone()).await, expected, "{source}");
    }
    objects.set_down(true);
    assert_eq!(set_up(Kind::Secret, &objects, json!({"secretName": "x"})).await, Err("connection refused".to_owned()));
}

#[tokio::test]
async fn the_contract_holds_for_secrets_which_are_in_memory() {
    let (disk, content) = disk();
    let objects = FakeObjects::default();
    objects.put_secret("x", [("a", "1")]);
    let plugin = ObjectVolumes::secrets(content, Arc::new(objects));
    let request = request(pod("web").build(), &json!({"secret": {"secretName": "x"}}));
    rubelet_testkit::contract::check_volume_plugin(&plugin, &request).await;
    assert!(disk.calls().iter().any(|call| call.starts_with("mount Tmpfs")));
}
