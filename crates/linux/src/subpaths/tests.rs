use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::testing::{TempDir, in_own_mount_namespace, needs_node_tests, temp_dir};

fn request(dir: &TempDir, subpath: &str) -> SubpathRequest {
    let volume_path = dir.path().join("pods/u1/volumes/kubernetes.io~empty-dir/v");
    fs::create_dir_all(&volume_path).unwrap();
    fs::set_permissions(&volume_path, fs::Permissions::from_mode(0o2770)).unwrap();
    SubpathRequest {
        uid: "u1".into(),
        volume: "v".into(),
        volume_path,
        container: "web".into(),
        index: 0,
        subpath: subpath.into(),
    }
}

#[test]
fn mnt_02_an_absolute_or_upward_subpath_is_refused() {
    let dir = temp_dir();
    for bad in ["/etc", "..", "a/../b", "../x", "a/.."] {
        let err = open_part(&request(&dir, bad)).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::InvalidInput, "{bad}");
    }
    assert_eq!(steps("a//b/./c/").unwrap(), ["a", "b", "c"]);
}

#[test]
fn mnt_02_missing_directories_get_the_volumes_mode() {
    let dir = temp_dir();
    let request = request(&dir, "a/b");
    for _ in 0..2 {
        open_part(&request).unwrap();
        for made in ["a", "a/b"] {
            let meta = fs::metadata(request.volume_path.join(made)).unwrap();
            assert_eq!(meta.mode() & 0o7777, 0o2770, "{made}");
        }
    }
}

#[test]
fn mnt_02_links_may_stay_in_the_volume_but_not_leave_it() {
    let dir = temp_dir();
    let request = |subpath| request(&dir, subpath);
    let volume = request("x").volume_path;
    fs::create_dir_all(dir.path().join("outside/sub")).unwrap();
    fs::create_dir_all(volume.join("..data_1")).unwrap();
    fs::write(volume.join("..data_1/key"), "value").unwrap();
    symlink("..data_1", volume.join("..data")).unwrap();
    symlink("..data/key", volume.join("key")).unwrap();
    open_part(&request("key")).expect("as a configMap lays it out");
    symlink(dir.path().join("outside"), volume.join("absolute")).unwrap();
    symlink("../../../../../outside", volume.join("up")).unwrap();
    symlink("/nowhere", volume.join("dangling")).unwrap();
    for bad in ["absolute", "absolute/sub", "absolute/new", "up", "up/new", "dangling", "dangling/new"] {
        assert!(open_part(&request(bad)).is_err(), "{bad}");
    }
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 1, "nothing was made outside");
}

#[tokio::test]
async fn a_hostile_name_is_refused() {
    let dir = temp_dir();
    let subpaths = RootSubpaths::new(dir.path());
    for bad in ["..", "../../victim", "", "a/b"] {
        let mut one = request(&dir, "a");
        one.container = bad.into();
        assert!(subpaths.bind(&one).await.is_err(), "{bad}");
        let mut one = request(&dir, "a");
        one.volume = bad.into();
        assert!(subpaths.bind(&one).await.is_err(), "{bad}");
    }
    assert!(!dir.path().join("victim").exists());
}

#[tokio::test]
async fn unbinding_without_a_mount_succeeds() {
    let dir = temp_dir();
    RootSubpaths::new(dir.path()).unbind_all(&"u1".into()).await.unwrap();
}

#[tokio::test]
async fn mnt_02_node_a_part_is_bound_again_and_unbound() {
    needs_node_tests();
    let dir = temp_dir();
    let subpaths = RootSubpaths::new(dir.path());
    let one = request(&dir, "a/b");
    let mut file = request(&dir, "file");
    file.index = 1;
    fs::write(file.volume_path.join("file"), "content").unwrap();
    let mut bound = Vec::new();
    for _ in 0..2 {
        bound.push(subpaths.bind(&one).await.unwrap());
        bound.push(subpaths.bind(&file).await.unwrap());
    }
    assert_eq!(bound[0], dir.path().join("pods/u1/volume-subpaths/v/web/0"));
    fs::write(one.volume_path.join("a/b/seen"), "x").unwrap();
    let seen = bound[0].join("seen").exists();
    let content = fs::read_to_string(&bound[1]).unwrap();
    // The same mount with another part of another type.
    let mut other = request(&dir, "file");
    other.index = 0;
    let rebound = subpaths.bind(&other).await.map(|path| fs::read_to_string(path).unwrap());
    for _ in 0..2 {
        subpaths.unbind_all(&"u1".into()).await.unwrap();
    }
    assert!(seen);
    assert_eq!(content, "content");
    assert_eq!(rebound.unwrap(), "content");
    assert!(!dir.path().join("pods/u1/volume-subpaths").exists());
    assert!(one.volume_path.join("a/b/seen").exists(), "the volume is untouched");
}

/// A container swaps a directory for a link to the host and back as fast as it can, while its subpath is mounted again
/// and again.
#[test]
fn cve_2021_25741_node_a_swapped_link_never_reaches_the_host() {
    needs_node_tests();
    let dir = temp_dir();
    let request = request(&dir, "a/b");
    let volume = request.volume_path.clone();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("b")).unwrap();
    fs::write(host.join("b/secret"), "x").unwrap();
    fs::create_dir_all(volume.join("a/b")).unwrap();
    symlink(&host, volume.join("evil")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = beneath::open_root(&volume).unwrap();
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(&at, "a", &at, "evil", rustix::fs::RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut reached = 0;
        for _ in 0..3_000 {
            let Ok(part) = open_part(&request) else { continue };
            reached += 1;
            if bind_part(dir.path(), &request, &part).is_ok() {
                let target = dir.path().join("pods/u1/volume-subpaths/v/web/0");
                let escaped = target.join("secret").exists();
                unbind_all(dir.path(), &request.uid).unwrap();
                if escaped {
                    stop.store(true, Ordering::Relaxed);
                    panic!("the host's directory was bound");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reached > 0, "the link was never swapped in");
    });
    assert!(!host.join("b/b").exists());
}

/// Data under a mount point may be a user's: the mount is removed, the data stays and is named.
#[test]
fn hk_06_node_data_under_a_subpath_mount_is_not_removed() {
    in_own_mount_namespace(|| {
        let dir = temp_dir();
        let place = dir.path().join("pods/u1/volume-subpaths/v/web");
        fs::create_dir_all(place.join("0/sub")).unwrap();
        fs::create_dir_all(place.join("1")).unwrap();
        fs::write(place.join("0/sub/precious"), "x").unwrap();
        fs::write(place.join("2"), "").unwrap();
        unbind_all(dir.path(), &"u1".into()).unwrap_err();
        assert!(place.join("0/sub/precious").exists());
        fs::remove_file(place.join("0/sub/precious")).unwrap();
        unbind_all(dir.path(), &"u1".into()).unwrap();
        assert!(!dir.path().join("pods/u1/volume-subpaths").exists());
    });
}

/// Two stacked mounts, as a restart in the middle leaves them, are both undone.
#[test]
fn node_stacked_subpath_mounts_are_all_undone() {
    in_own_mount_namespace(|| {
        let dir = temp_dir();
        let target = dir.path().join("pods/u1/volume-subpaths/v/web/0");
        let volume = dir.path().join("volume");
        fs::create_dir_all(&target).unwrap();
        fs::create_dir(&volume).unwrap();
        fs::write(volume.join("precious"), "x").unwrap();
        for _ in 0..2 {
            bind(beneath::open_root(&volume).unwrap(), beneath::open_root(&target).unwrap()).unwrap();
        }
        unbind_all(dir.path(), &"u1".into()).unwrap();
        assert!(!target.exists());
        assert!(volume.join("precious").exists());
    });
}
