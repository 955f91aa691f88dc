use rubelet_testkit::{FakeObjects, pod};
use serde_json::{Value, json};

use super::*;
use crate::testing::{disk, request};

async fn set_up(objects: &FakeObjects, source: Value) -> Result<Vec<String>, String> {
    let (disk, content) = disk();
    let plugin = Secrets::new(content, Arc::new(objects.clone()));
    let request = request(pod("web").build(), &json!({ "secret": source }));
    plugin.set_up(&request).await.map(|_| disk.files()).map_err(|err| err.to_string())
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
        assert_eq!(set_up(&objects, source.clone()).await, expected, "{source}");
    }
    objects.set_down(true);
    assert_eq!(set_up(&objects, json!({"secretName": "x"})).await, Err("connection refused".to_owned()));
}

#[tokio::test]
async fn the_contract_holds_and_it_is_in_memory() {
    let (disk, content) = disk();
    let objects = FakeObjects::default();
    objects.put_secret("x", [("a", "1")]);
    let plugin = Secrets::new(content, Arc::new(objects));
    let request = request(pod("web").build(), &json!({"secret": {"secretName": "x"}}));
    rubelet_testkit::contract::check_volume_plugin(&plugin, &request).await;
    assert!(disk.calls().iter().any(|call| call.starts_with("mount Tmpfs")));
}
