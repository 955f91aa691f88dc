use rubelet_testkit::{FakeObjects, pod};
use serde_json::{Value, json};

use super::*;
use crate::testing::{disk, request};

async fn set_up(objects: &FakeObjects, source: Value) -> Result<Vec<String>, String> {
    let (disk, content) = disk();
    let plugin = ConfigMaps::new(content, Arc::new(objects.clone()));
    let request = request(pod("web").build(), &json!({ "configMap": source }));
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
        assert_eq!(set_up(&objects, source.clone()).await, expected, "{source}");
    }
    objects.set_down(true);
    let down = set_up(&objects, json!({"name": "x", "optional": true})).await;
    assert_eq!(down, Err("connection refused".to_owned()), "to be away is not to be missing");
}

#[tokio::test]
async fn the_contract_holds_and_content_follows() {
    let (disk, content) = disk();
    let objects = FakeObjects::default();
    objects.put_config_map("x", [("a", "1")]);
    let plugin = ConfigMaps::new(content, Arc::new(objects.clone()));
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
