use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::testing::{TempDir, needs_node_tests, temp_dir};

fn pods() -> (TempDir, RootPods) {
    let dir = temp_dir();
    let pods = RootPods::new(dir.path());
    (dir, pods)
}

fn uid(text: &str) -> PodUid {
    PodUid::from(text)
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn sync_09_a_pod_gets_its_directories_with_their_modes() {
    let (dir, pods) = pods();
    for _ in 0..2 {
        let path = pods.make(&uid("u1")).await.unwrap();
        assert_eq!(path, dir.path().join("pods/u1"));
        for dir in [path.clone(), path.join("volumes"), path.join("plugins"), dir.path().join("pods")] {
            assert_eq!(mode(&dir), 0o750, "{dir:?}");
        }
    }
    assert_eq!(pods.list().await.unwrap(), [uid("u1")]);
}

#[tokio::test]
async fn a_hostile_uid_or_container_name_is_refused() {
    let (dir, pods) = pods();
    fs::create_dir(dir.path().join("victim")).unwrap();
    for bad in ["../victim", "..", ".", "", "a/b", "/etc"] {
        assert!(pods.make(&uid(bad)).await.is_err(), "{bad}");
        assert!(pods.write_hosts(&uid(bad), "x").await.is_err(), "{bad}");
        assert!(pods.make_termination_file(&uid("u1"), bad, "0").await.is_err(), "{bad}");
        assert!(pods.make_termination_file(&uid("u1"), "c", bad).await.is_err(), "{bad}");
        assert!(pods.remove(&uid(bad)).await.is_err(), "{bad}");
    }
    assert!(dir.path().join("victim").exists());
    assert_eq!(fs::read_dir(dir.path().join("victim")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_link_in_place_of_a_pod_directory_is_refused() {
    let (dir, pods) = pods();
    fs::create_dir_all(dir.path().join("pods")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    symlink("../outside", dir.path().join("pods/u1")).unwrap();
    assert!(pods.make(&uid("u1")).await.is_err());
    assert!(pods.remove(&uid("u1")).await.is_err());
    assert!(pods.list().await.unwrap().is_empty());
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 0);
}

#[tokio::test]
async fn host_01_the_hosts_file_is_written_in_place() {
    let (_dir, pods) = pods();
    let path = pods.write_hosts(&uid("u1"), "127.0.0.1\tlocalhost\n").await.unwrap();
    let before = fs::metadata(&path).unwrap();
    assert_eq!(mode(&path), 0o644);
    // A container made the file longer and unreadable.
    fs::write(&path, "x".repeat(10_000)).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for content in ["1\n", "22\n", "22\n"] {
        pods.write_hosts(&uid("u1"), content).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino(), "running containers see the same file");
    assert_eq!(mode(&path), 0o644);
}

#[tokio::test]
async fn mnt_05_anyone_may_write_the_termination_message() {
    let (dir, pods) = pods();
    let path = pods.make_termination_file(&uid("u1"), "web", "1a2b3c4d").await.unwrap();
    assert_eq!(path, dir.path().join("pods/u1/containers/web/1a2b3c4d"));
    assert_eq!(mode(&path), 0o666);
    assert_eq!(mode(path.parent().unwrap()), 0o750);
}

#[tokio::test]
async fn rt_110_the_end_of_a_termination_message_is_read() {
    let (_dir, pods) = pods();
    let path = pods.make_termination_file(&uid("u1"), "web", "1a2b3c4d").await.unwrap();
    let text = path.to_str().unwrap();
    let read = async |limit| pods.read_termination_file(&uid("u1"), text, limit).await;
    assert_eq!(read(10).await.unwrap(), b"");
    fs::write(&path, "0123456789").unwrap();
    assert_eq!(read(4).await.unwrap(), b"6789");
    assert_eq!(read(10).await.unwrap(), b"0123456789");
    assert_eq!(read(4096).await.unwrap(), b"0123456789");
    fs::remove_file(&path).unwrap();
    assert_eq!(read(4096).await.unwrap(), b"", "no file, no message");
}

#[tokio::test]
async fn a_termination_message_that_is_no_regular_file_is_refused_without_blocking() {
    let (dir, pods) = pods();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    let path = pods.make_termination_file(&uid("u1"), "web", "1").await.unwrap();
    let text = path.to_str().unwrap();
    fs::remove_file(&path).unwrap();
    symlink(dir.path().join("secret"), &path).unwrap();
    assert!(pods.read_termination_file(&uid("u1"), text, 100).await.is_err());
    fs::remove_file(&path).unwrap();
    let parent = beneath::open_root(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(&parent, "1", FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(pods.read_termination_file(&uid("u1"), text, 100).await.is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(pods.read_termination_file(&uid("u1"), text, 100).await.is_err());
    for outside in ["/etc/passwd", dir.path().join("pods/u2/x").to_str().unwrap(), "containers/web/1", ""] {
        let err = pods.read_termination_file(&uid("u1"), outside, 100).await.unwrap_err();
        assert_eq!(err.source.kind(), io::ErrorKind::InvalidInput, "{outside}");
    }
    let upwards = dir.path().join("pods/u1/../../secret");
    assert!(pods.read_termination_file(&uid("u1"), upwards.to_str().unwrap(), 100).await.is_err());
}

#[tokio::test]
async fn hk_06_a_pod_directory_without_volumes_is_removed() {
    let (dir, pods) = pods();
    let path = pods.make(&uid("u1")).await.unwrap();
    pods.write_hosts(&uid("u1"), "x").await.unwrap();
    pods.make_termination_file(&uid("u1"), "web", "1").await.unwrap();
    fs::create_dir_all(path.join("volumes/kubernetes.io~empty-dir")).unwrap();
    fs::create_dir_all(path.join("plugins/kubernetes.io~empty-dir/v")).unwrap();
    fs::write(path.join("plugins/kubernetes.io~empty-dir/v/ready"), "").unwrap();
    fs::write(dir.path().join("precious"), "x").unwrap();
    symlink(dir.path().join("precious"), path.join("containers/link")).unwrap();
    for _ in 0..2 {
        pods.remove(&uid("u1")).await.unwrap();
        assert!(!path.exists());
    }
    assert!(dir.path().join("precious").exists());
    assert!(pods.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn hk_06_volume_content_is_never_removed_and_the_error_names_it() {
    let (_dir, pods) = pods();
    let path = pods.make(&uid("u1")).await.unwrap();
    let data = path.join("volumes/kubernetes.io~csi/pv/mount");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("precious"), "x").unwrap();
    pods.write_hosts(&uid("u1"), "x").await.unwrap();
    let err = pods.remove(&uid("u1")).await.unwrap_err();
    assert_eq!(err.path, data.join("precious"));
    assert_eq!(err.to_string(), format!("remove {}", data.join("precious").display()));
    assert!(data.join("precious").exists());
    assert!(path.join("etc-hosts").exists(), "nothing else is removed before the volumes");
}

#[tokio::test]
async fn hk_06_node_a_mounted_volume_keeps_the_pod_directory() {
    needs_node_tests();
    let (_dir, pods) = pods();
    let path = pods.make(&uid("u1")).await.unwrap();
    let volume = path.join("volumes/kubernetes.io~csi/pv");
    fs::create_dir_all(&volume).unwrap();
    fs::create_dir_all(path.join("volumes/kubernetes.io~empty-dir/empty")).unwrap();
    crate::kernel_mounts::mount_new("tmpfs", &[], beneath::open_root(&volume).unwrap()).unwrap();
    let result = pods.remove(&uid("u1")).await;
    crate::kernel_mounts::unmount_at(beneath::open_root(volume.parent().unwrap()).unwrap(), "pv").unwrap();
    let err = result.unwrap_err();
    assert_eq!(err.path, volume.canonicalize().unwrap());
    assert_eq!(err.source.to_string(), "a file system is still mounted there");
    assert!(path.join("volumes/kubernetes.io~empty-dir/empty").exists());
    pods.remove(&uid("u1")).await.unwrap();
}

#[tokio::test]
async fn the_contract_holds() {
    let (_dir, pods) = pods();
    rubelet_testkit::contract::check_pod_dirs(&pods).await;
}
