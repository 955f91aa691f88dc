use rubelet_core::volume_files::file;
use rubelet_testkit::pod;
use serde_json::json;

use super::*;
use crate::testing::{disk, request};

const NAME: &str = "kubernetes.io/secret";

fn files(data: &str) -> Files {
    Files::from([("a".to_owned(), file(data, 0o644))])
}

#[tokio::test]
async fn in_memory_it_is_mounted_once_and_marked_as_upstreams_wrapped_empty_dir() {
    let (disk, content) = disk();
    let request = request(pod("web").limit("memory", "64Mi").build(), &json!({"secret": {}}));
    assert_eq!(content.put(NAME, &request, Medium::Memory, Ok(files("1"))).await.unwrap(), PathBuf::from("/v"));
    let size = 64 << 20;
    let made = [
        "make 777 kubernetes.io/secret/v".to_owned(),
        format!("mount Tmpfs {{ size: Some({size}) }} kubernetes.io/secret/v"),
        "ready kubernetes.io/empty-dir/wrapped_v".to_owned(),
        "write kubernetes.io/secret/v".to_owned(),
    ];
    assert_eq!(disk.calls(), made);
    content.put(NAME, &request, Medium::Memory, Ok(files("2"))).await.unwrap();
    assert_eq!(disk.calls(), ["write kubernetes.io/secret/v"]);
    assert_eq!(disk.files(), ["a 644 2"]);
    // The directory survives a reboot, the memory does not.
    disk.change("kubernetes.io/secret/v", |state| state.mounted = None);
    content.put(NAME, &request, Medium::Memory, Ok(files("2"))).await.unwrap();
    assert_eq!(disk.calls(), made);
    assert_eq!(content.volumes_of(NAME, &"web-uid".into()).await.unwrap(), ["v"]);
    content.remove(NAME, &"web-uid".into(), "v").await.unwrap();
    assert_eq!(disk.calls(), ["remove kubernetes.io/empty-dir/wrapped_v", "remove kubernetes.io/secret/v"]);
}

#[tokio::test]
async fn on_disk_it_is_a_directory() {
    let (disk, content) = disk();
    let request = request(pod("web").build(), &json!({"configMap": {"name": "x"}}));
    for _ in 0..2 {
        content.put(NAME, &request, Medium::Disk, Ok(files("1"))).await.unwrap();
    }
    let once = ["make 777 kubernetes.io/secret/v", "ready kubernetes.io/empty-dir/wrapped_v"];
    let write = "write kubernetes.io/secret/v";
    assert_eq!(disk.calls(), [once[0], once[1], write, write]);
}

#[tokio::test]
async fn bad_paths_and_groups_are_refused_before_anything_is_made() {
    let (disk, content) = disk();
    let mut request = request(pod("web").build(), &json!({"secret": {}}));
    let bad = Files::from([("..data".to_owned(), file("", 0o644))]);
    let err = content.put(NAME, &request, Medium::Memory, Ok(bad)).await.unwrap_err();
    assert_eq!(err.to_string(), "invalid path: must not start with '..': ..data");
    request.fs_group = Some(-1);
    let err = content.put(NAME, &request, Medium::Memory, Ok(files(""))).await.unwrap_err();
    assert_eq!(err.to_string(), "fsGroup -1 is out of range");
    assert!(disk.calls().is_empty());
    request.fs_group = Some(2000);
    content.put(NAME, &request, Medium::Memory, Ok(files(""))).await.unwrap();
    assert_eq!(disk.payload().group, Some(2000));
}

#[tokio::test]
async fn while_the_api_server_is_away_a_volume_keeps_what_it_has() {
    let (disk, content) = disk();
    let request = request(pod("web").build(), &json!({"secret": {}}));
    let away = || Err(VolumeError::Away("connection refused".to_owned()));
    let err = content.put(NAME, &request, Medium::Memory, away()).await.unwrap_err();
    assert_eq!(err.to_string(), "connection refused");
    assert!(disk.calls().is_empty());
    content.put(NAME, &request, Medium::Memory, Ok(files("1"))).await.unwrap();
    assert_eq!(content.put(NAME, &request, Medium::Memory, away()).await.unwrap(), PathBuf::from("/v"));
    assert_eq!(disk.files(), ["a 644 1"]);
    let gone = Err(VolumeError::Refused("secret \"x\" not found".to_owned()));
    assert!(content.put(NAME, &request, Medium::Memory, gone).await.is_err(), "that is an answer");
    // After a reboot there is nothing to keep.
    disk.change("kubernetes.io/secret/v", |state| state.mounted = None);
    assert!(content.put(NAME, &request, Medium::Memory, away()).await.is_err());
}
