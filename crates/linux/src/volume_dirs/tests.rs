use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::testing::{TempDir, needs_node_tests, temp_dir};

fn volumes() -> (TempDir, RootVolumes) {
    let dir = temp_dir();
    let volumes = RootVolumes::new(dir.path());
    (dir, volumes)
}

fn place(volume: &str) -> VolumePlace {
    VolumePlace { uid: "u1".into(), plugin: "kubernetes.io/empty-dir", volume: volume.into() }
}

#[tokio::test]
async fn making_marking_and_removing_a_volume_are_idempotent() {
    let (dir, volumes) = volumes();
    let path = dir.path().join("pods/u1/volumes/kubernetes.io~empty-dir/v");
    let nothing = VolumeState { path: path.clone(), ..VolumeState::default() };
    assert_eq!(volumes.look(&place("v")).await.unwrap(), nothing);
    for _ in 0..2 {
        let path = volumes.make(&place("v"), 0o777).await.unwrap();
        assert_eq!(path, dir.path().join("pods/u1/volumes/kubernetes.io~empty-dir/v"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
        volumes.mark_ready(&place("v")).await.unwrap();
    }
    assert!(dir.path().join("pods/u1/plugins/kubernetes.io~empty-dir/v/ready").is_file());
    let state = VolumeState { path, exists: true, ready: true, mounted: None };
    assert_eq!(volumes.look(&place("v")).await.unwrap(), state);
    for _ in 0..2 {
        volumes.remove(&place("v")).await.unwrap();
        assert_eq!(volumes.look(&place("v")).await.unwrap(), nothing);
    }
}

#[tokio::test]
async fn cve_2017_1002102_links_planted_in_a_volume_are_not_followed() {
    let (dir, volumes) = volumes();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("etc")).unwrap();
    fs::write(host.join("etc/passwd"), "x").unwrap();
    let path = volumes.make(&place("v"), 0o777).await.unwrap();
    symlink(&host, path.join("host")).unwrap();
    symlink(host.join("etc/passwd"), path.join("passwd")).unwrap();
    fs::create_dir_all(path.join("deep/er")).unwrap();
    symlink(&host, path.join("deep/er/host")).unwrap();
    volumes.remove(&place("v")).await.unwrap();
    assert!(host.join("etc/passwd").exists());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_link_in_place_of_a_volume_is_not_entered() {
    let (dir, volumes) = volumes();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("sub")).unwrap();
    let path = volumes.make(&place("v"), 0o777).await.unwrap();
    fs::remove_dir(&path).unwrap();
    symlink(&host, &path).unwrap();
    assert!(volumes.make(&place("v"), 0o777).await.is_err());
    assert!(volumes.give_to_group(&place("v"), rustix::process::getegid().as_raw()).await.is_err());
    volumes.remove(&place("v")).await.unwrap();
    assert!(host.join("sub").exists());
    assert_ne!(fs::metadata(&host).unwrap().mode() & 0o7777, 0o777);
}

#[tokio::test]
async fn a_hostile_volume_name_is_refused() {
    let (dir, volumes) = volumes();
    for bad in ["..", "../../../../victim", "", ".", "a/b"] {
        assert!(volumes.make(&place(bad), 0o777).await.is_err(), "{bad}");
        assert!(volumes.remove(&place(bad)).await.is_err(), "{bad}");
        assert!(volumes.mark_ready(&place(bad)).await.is_err(), "{bad}");
    }
    assert!(!dir.path().join("victim").exists());
}

#[tokio::test]
async fn node_a_memory_file_system_is_mounted_detected_and_unmounted() {
    needs_node_tests();
    let (_dir, volumes) = volumes();
    let path = volumes.make(&place("v"), 0o777).await.unwrap();
    volumes.mount(&place("v"), &MemoryFs::Tmpfs { size: Some(64 * 1024) }).await.unwrap();
    // A second mount on top, as an interrupted set-up leaves it.
    volumes.mount(&place("v"), &MemoryFs::Tmpfs { size: None }).await.unwrap();
    assert_eq!(volumes.look(&place("v")).await.unwrap().mounted, Some(MountedFs::Tmpfs));
    fs::write(path.join("file"), "x").unwrap();
    // A process still has a file of the mount open.
    let open = fs::File::open(path.join("file")).unwrap();
    volumes.remove(&place("v")).await.unwrap();
    drop(open);
    assert!(!path.exists());
}

#[tokio::test]
async fn node_a_tmpfs_has_its_size() {
    needs_node_tests();
    let (_dir, volumes) = volumes();
    let path = volumes.make(&place("v"), 0o777).await.unwrap();
    volumes.mount(&place("v"), &MemoryFs::Tmpfs { size: Some(64 * 1024) }).await.unwrap();
    let stat = rustix::fs::statvfs(&path).unwrap();
    let result = fs::write(path.join("file"), vec![0; 128 * 1024]);
    volumes.remove(&place("v")).await.unwrap();
    assert_eq!(stat.f_blocks * stat.f_bsize, 64 * 1024);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[tokio::test]
async fn node_a_foreign_mount_is_named_and_kept() {
    needs_node_tests();
    let (dir, volumes) = volumes();
    let host = dir.path().join("host");
    fs::create_dir(&host).unwrap();
    fs::write(host.join("precious"), "x").unwrap();
    let path = volumes.make(&place("v"), 0o777).await.unwrap();
    let (source, target) = (beneath::open_root(&host).unwrap(), beneath::open_root(&path).unwrap());
    crate::kernel_mounts::bind(source, target).unwrap();
    let result = volumes.remove(&place("v")).await;
    unmount_at(beneath::open_root(path.parent().unwrap()).unwrap(), "v").unwrap();
    let err = result.unwrap_err();
    assert_eq!(err.path, path);
    assert_eq!(err.source.to_string(), "another file system is mounted on it");
    assert!(host.join("precious").exists());
}
