use rubelet_testkit::pod;
use serde_json::json;

use super::*;
use crate::testing::{disk, request};

#[tokio::test]
async fn labels_are_a_file_in_memory_that_follows_the_pod() {
    let (disk, content) = disk();
    let plugin = DownwardApi::new(content, Amounts::default());
    let source = json!({"downwardAPI": {
        "defaultMode": 256,
        "items": [{"path": "meta/labels", "fieldRef": {"fieldPath": "metadata.labels"}}],
    }});
    let web = |label: &str| pod("web").label("app", label).build();
    rubelet_testkit::contract::check_volume_plugin(&plugin, &request(web("one"), &source)).await;
    for label in ["one", "two"] {
        plugin.set_up(&request(web(label), &source)).await.unwrap();
        assert_eq!(disk.files(), [format!("meta/labels 400 app={label:?}")]);
    }
    assert!(plugin.follows_changes());
    assert!(disk.calls().iter().any(|call| call.starts_with("mount Tmpfs")));
}
