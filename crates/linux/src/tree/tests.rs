use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::*;
use crate::beneath::open_root;
use crate::testing::{in_own_mount_namespace, temp_dir};

fn remove_in(dir: &Path, name: &str, what: Remove) -> Result<(), TreeError> {
    remove(open_root(dir).unwrap(), name, what)
}

#[test]
fn a_tree_is_removed_but_not_the_targets_of_its_links() {
    let dir = temp_dir();
    let outside = dir.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::write(tree.join("a/b/file"), "y").unwrap();
    symlink(&outside, tree.join("a/link")).unwrap();
    symlink(outside.join("precious"), tree.join("link")).unwrap();
    rustix::fs::mknodat(open_root(&tree).unwrap(), "fifo", FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    remove_in(dir.path(), "tree", Remove::Everything).unwrap();
    assert!(!tree.exists());
    assert!(outside.join("precious").exists());
}

#[test]
fn a_link_in_the_place_of_the_tree_is_removed_itself() {
    let dir = temp_dir();
    fs::create_dir_all(dir.path().join("outside/sub")).unwrap();
    symlink("outside", dir.path().join("tree")).unwrap();
    remove_in(dir.path(), "tree", Remove::Everything).unwrap();
    assert!(dir.path().join("outside/sub").exists());
    assert!(fs::symlink_metadata(dir.path().join("tree")).is_err());
}

#[test]
fn removing_a_missing_tree_succeeds() {
    let dir = temp_dir();
    for what in [Remove::Everything, Remove::EmptyDirs] {
        remove_in(dir.path(), "nothing", what).unwrap();
    }
}

#[test]
fn empty_directories_are_removed_and_the_first_file_is_named() {
    let dir = temp_dir();
    fs::create_dir_all(dir.path().join("volumes/empty/a/b")).unwrap();
    remove_in(dir.path(), "volumes", Remove::EmptyDirs).unwrap();
    assert!(!dir.path().join("volumes").exists());

    fs::create_dir_all(dir.path().join("volumes/plugin/data")).unwrap();
    fs::create_dir_all(dir.path().join("volumes/plugin/empty")).unwrap();
    fs::write(dir.path().join("volumes/plugin/data/file"), "x").unwrap();
    let err = remove_in(dir.path(), "volumes", Remove::EmptyDirs).unwrap_err();
    assert_eq!(err.path, Path::new("volumes/plugin/data/file"));
    assert_eq!(err.source.to_string(), "it is a file, not an empty directory");
    assert!(dir.path().join("volumes/plugin/data/file").exists());
    assert!(!dir.path().join("volumes/plugin/empty").exists());
}

#[test]
fn depth_costs_neither_stack_nor_descriptors() {
    let dir = temp_dir();
    let levels = 5 * MAX_OPEN_LEVELS + 7;
    let mut at = open_root(dir.path()).unwrap();
    rustix::fs::mkdirat(&at, "tree", Mode::from_raw_mode(0o755)).unwrap();
    at = beneath::open_dir(&at, "tree").unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        rustix::fs::mknodat(&at, "f", FileType::RegularFile, Mode::from_raw_mode(0o600), 0).unwrap();
        at = beneath::open_dir(&at, "d").unwrap();
    }
    drop(at);
    remove_in(dir.path(), "tree", Remove::Everything).unwrap();
    assert!(!dir.path().join("tree").exists());
}

#[test]
fn many_entries_go_in_one_call() {
    let dir = temp_dir();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for i in 0..5_000 {
        fs::write(tree.join(i.to_string()), "").unwrap();
    }
    remove_in(dir.path(), "tree", Remove::Everything).unwrap();
    assert!(!tree.exists());
}

#[test]
fn the_group_of_files_and_directories_changes_but_not_of_link_targets() {
    let dir = temp_dir();
    let outside = dir.path().join("outside");
    fs::write(&outside, "x").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(&outside).unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::set_permissions(tree.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(tree.join("sub/file"), "x").unwrap();
    fs::set_permissions(tree.join("sub/file"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&outside, tree.join("sub/link")).unwrap();
    // Only root may set any group; the process's own group is always allowed.
    let gid = if rustix::process::geteuid().is_root() { 4711 } else { before.gid() };
    give_to_group(open_root(dir.path()).unwrap(), "tree", gid, GroupMay::Write).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&tree.join("sub")), 0o2770);
    assert_eq!(mode(&tree.join("sub/file")), 0o660);
    assert_eq!(fs::metadata(tree.join("sub/file")).unwrap().gid(), gid);
    assert_eq!(fs::symlink_metadata(tree.join("sub/link")).unwrap().gid(), gid);
    assert_eq!(mode(&outside), 0o600);
    assert_eq!(fs::metadata(&outside).unwrap().gid(), before.gid());
}

#[test]
fn node_a_mount_in_the_tree_is_named_and_not_entered() {
    in_own_mount_namespace(a_mount_in_the_tree);
}

fn a_mount_in_the_tree() {
    let dir = temp_dir();
    let inner = dir.path().join("tree/a/mnt");
    fs::create_dir_all(&inner).unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("precious"), "x").unwrap();
    crate::kernel_mounts::bind(open_root(&source).unwrap(), open_root(&inner).unwrap()).unwrap();
    let results = [Remove::Everything, Remove::EmptyDirs].map(|what| remove_in(dir.path(), "tree", what));
    crate::kernel_mounts::unmount_at(open_root(inner.parent().unwrap()).unwrap(), "mnt").unwrap();
    for result in results {
        let err = result.unwrap_err();
        assert_eq!(err.path, Path::new("tree/a/mnt"));
        assert_eq!(err.source.to_string(), "another file system is mounted on it");
    }
    assert!(source.join("precious").exists());
}

/// The group of the volume's own files changes, not that of a mount below it.
#[test]
fn node_the_group_of_a_mount_in_the_tree_does_not_change() {
    in_own_mount_namespace(|| {
        let dir = temp_dir();
        let (inner, source) = (dir.path().join("tree/mnt"), dir.path().join("source"));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(&source).unwrap();
        fs::write(source.join("precious"), "x").unwrap();
        crate::kernel_mounts::bind(open_root(&source).unwrap(), open_root(&inner).unwrap()).unwrap();
        give_to_group(open_root(dir.path()).unwrap(), "tree", 4321, GroupMay::Write).unwrap();
        assert_eq!(fs::metadata(dir.path().join("tree")).unwrap().gid(), 4321);
        assert_ne!(fs::metadata(source.join("precious")).unwrap().gid(), 4321);
    });
}

/// A mount or a link that replaces a directory after the kernel refused to remove that directory. `/proc` stands for
/// the mount: every machine has it, and it is only opened.
#[test]
fn a_mount_or_link_swapped_in_for_a_directory_is_not_entered() {
    let dir = temp_dir();
    symlink("/", dir.path().join("link")).unwrap();
    for (at, name) in [(Path::new("/"), c"proc"), (dir.path(), c"link")] {
        let at = open_root(at).unwrap();
        let mut remover =
            Remover { at: at.as_fd(), what: Remove::EmptyDirs, levels: Vec::new(), moved: 0, first_error: None };
        remover.descend(name);
        assert!(remover.levels.is_empty(), "{name:?}");
        assert!(remover.first_error.is_some(), "{name:?}");
    }
}
