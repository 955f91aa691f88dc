use std::os::unix::fs::{MetadataExt, symlink};

use rubelet_core::usage::DiskUsage;

use super::*;
use crate::testing::{in_own_mount_namespace, temp_dir};

fn disks() -> KernelDisks {
    KernelDisks::new(Clock::real())
}

/// Asks until the directory is measured, and counts the questions.
async fn whole(disks: &KernelDisks, dir: &Path) -> (DiskUsage, usize) {
    for turn in 1..10_000 {
        match disks.usage(&[dir.to_path_buf()]).await.get(dir) {
            Some(Walked::Whole(used)) => return (*used, turn),
            Some(Walked::Unfinished) => {}
            None => panic!("{} cannot be measured", dir.display()),
        }
    }
    panic!("it never ends");
}

fn blocks(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).expect("a file").blocks() * 512
}

#[tokio::test]
async fn sts_02_a_directory_takes_what_its_files_take() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("a/b")).expect("made");
    std::fs::write(at("a/b/data"), vec![1; 100_000]).expect("written");
    std::fs::hard_link(at("a/b/data"), at("a/again")).expect("linked");
    std::fs::write(at("small"), "x").expect("written");
    symlink("/etc", at("link")).expect("linked");
    symlink("/no/such/file", at("broken")).expect("linked");
    let files = ["", "a", "a/b", "a/b/data", "small", "link", "broken"];
    let bytes = files.iter().map(|name| blocks(&at(name))).sum();
    let (used, turns) = whole(&disks(), dir.path()).await;
    assert_eq!(
        (used, turns),
        (DiskUsage { bytes, inodes: 7 }, 1),
        "a file with two names counts once, and no link is followed"
    );
}

#[tokio::test]
async fn sts_02_what_is_missing_takes_nothing_and_a_file_is_measured_alone() {
    let dir = temp_dir();
    let file = dir.path().join("etc-hosts");
    std::fs::write(&file, vec![1; 5000]).expect("written");
    assert_eq!(whole(&disks(), &file).await.0, DiskUsage { bytes: blocks(&file), inodes: 1 });
    assert_eq!(whole(&disks(), &dir.path().join("missing/below")).await.0, DiskUsage::default());
    assert_eq!(whole(&disks(), &file.join("below")).await.0, DiskUsage::default());
    assert!(disks().usage(&[]).await.is_empty());
}

#[tokio::test]
async fn hostile_a_large_directory_is_measured_in_turns_and_delays_no_other() {
    let dir = temp_dir();
    let (large, small) = (dir.path().join("large"), dir.path().join("small"));
    std::fs::create_dir_all(&small).expect("made");
    for part in 0..10 {
        let part = large.join(part.to_string());
        std::fs::create_dir_all(&part).expect("made");
        (0..2000).for_each(|file| std::fs::write(part.join(file.to_string()), "").expect("written"));
    }
    let disks = disks();
    let first = disks.usage(&[large.clone(), small.clone()]).await;
    assert_eq!(first[&large], Walked::Unfinished);
    assert!(matches!(first[&small], Walked::Whole(used) if used.inodes == 1));
    let (used, turns) = whole(&disks, &large).await;
    assert_eq!(used.inodes, 20_011);
    assert!(turns >= 4, "in {turns} more turns");
    assert!(disks.inner.unfinished.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn hostile_directories_nested_deeper_than_descriptors_may_be_open_are_counted() {
    let dir = temp_dir();
    let mut at = beneath_of(dir.path());
    for _ in 0..1000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::from_raw_mode(0o755)).expect("made");
        at = crate::beneath::open_dir(&at, "d").expect("opened");
    }
    assert_eq!(whole(&disks(), dir.path()).await.0.inodes, 1001);
}

fn beneath_of(path: &Path) -> std::os::fd::OwnedFd {
    crate::beneath::open_root(path).expect("opened")
}

#[tokio::test]
async fn hostile_unfinished_walks_are_bounded() {
    let disks = disks();
    let dir = temp_dir();
    for number in 0..=MOST_UNFINISHED {
        let path = dir.path().join(number.to_string());
        std::fs::create_dir(&path).expect("made");
        let Ok(Turn::Unfinished(walk)) = Walk::begin(&path) else { panic!("a directory") };
        disks.inner.keep(path, walk);
    }
    let kept = disks.inner.unfinished.lock().expect("not poisoned");
    assert_eq!((kept.len(), kept.contains_key(&dir.path().join("0"))), (MOST_UNFINISHED, false));
}

#[tokio::test]
async fn sts_02_the_size_of_a_file_system() {
    let dir = temp_dir();
    let size = disks().file_system(dir.path()).await.expect("a size");
    assert_eq!(size.device, std::fs::metadata(dir.path()).expect("a directory").dev());
    assert!(size.capacity >= size.used && size.capacity >= size.available && size.used > 0, "{size:?}");
    let err = disks().file_system(&dir.path().join("missing")).await.expect_err("it is missing");
    assert!(err.to_string().contains("missing"), "{err}");
}

#[tokio::test]
async fn the_adapter_obeys_the_laws_of_the_port() {
    rubelet_testkit::contract::check_disks(&disks(), temp_dir().path()).await;
}

#[test]
fn sts_02_node_a_mount_below_a_directory_is_not_entered() {
    in_own_mount_namespace(|| {
        use rustix::mount::{MountFlags, mount};
        let dir = temp_dir();
        let (own, inner) = (dir.path().join("own"), dir.path().join("own/inner"));
        std::fs::create_dir_all(&own).expect("made");
        mount("tmpfs", &own, "tmpfs", MountFlags::empty(), None).expect("mounted");
        std::fs::create_dir(&inner).expect("made");
        std::fs::write(own.join("file"), vec![1; 8192]).expect("written");
        mount("tmpfs", &inner, "tmpfs", MountFlags::empty(), None).expect("mounted");
        std::fs::write(inner.join("file"), vec![1; 1 << 20]).expect("written");
        // On this thread: another one would not see the mounts.
        let turn = |path: &Path| match Walk::begin(path).expect("opened") {
            Turn::Whole(used) => used,
            Turn::Unfinished(mut walk) => walk.turn(&clock()).expect("a small directory"),
        };
        assert_eq!((turn(&own).inodes, turn(&own).bytes), (2, 8192), "a mount itself is measured, one below it is not");
        assert_eq!(turn(dir.path()).inodes, 1);
        assert_ne!(file_system(&own).expect("a size").device, file_system(dir.path()).expect("a size").device);
    });
}

fn clock() -> Clock {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async { Clock::real() })
}
