use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::testing::{TempDir, needs_node_tests, temp_dir};
use rubelet_engine::ports::VolumeDirs;

struct Case {
    _root: TempDir,
    writer: Payloads,
    volumes: RootVolumes,
    path: PathBuf,
}

fn place() -> VolumePlace {
    VolumePlace { uid: "u1".into(), plugin: "kubernetes.io/configmap", volume: "v".into() }
}

async fn case() -> Case {
    let root = temp_dir();
    let volumes = RootVolumes::new(root.path());
    let path = volumes.make(&place(), 0o777).await.unwrap();
    let clock = Clock::virtual_from("2026-11-15T22:47:54.5Z".parse().unwrap());
    Case { _root: root, writer: Payloads::new(volumes.clone(), clock), volumes, path }
}

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |data: &str| PayloadFile { data: data.into(), mode: 0o644, owner: None };
    let files = files.iter().map(|(path, data)| ((*path).to_owned(), file(data))).collect();
    Payload { files, ..Payload::default() }
}

impl Case {
    async fn write(&self, files: &[(&str, &str)]) -> Written {
        self.writer.write(&place(), payload(files)).await.unwrap()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path.join(path)).unwrap()
    }

    fn link(&self, path: &str) -> PathBuf {
        fs::read_link(self.path.join(path)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with("..2")).collect();
        names.sort();
        names
    }

    fn data_dirs(&self) -> usize {
        let entries = fs::read_dir(&self.path).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("..2")).count()
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn vol_20_files_are_links_into_a_directory_that_is_swapped_as_a_whole() {
    let case = case().await;
    assert!(!case.writer.is_written(&place()).await.unwrap());
    assert_eq!(case.write(&[("a", "1"), ("dir/b", "2"), ("dir/sub/c", "3")]).await, Written::New);
    assert!(case.writer.is_written(&place()).await.unwrap());
    assert_eq!(case.names(), ["..data", "a", "dir"]);
    let first = case.link("..data");
    let name = first.to_str().unwrap();
    assert!(name.starts_with("..2026_11_15_22_47_54."), "{name}");
    assert_eq!(case.link("a"), Path::new("..data/a"));
    assert_eq!(case.link("dir"), Path::new("..data/dir"));
    assert_eq!((case.read("a"), case.read("dir/b"), case.read("dir/sub/c")), ("1".into(), "2".into(), "3".into()));
    assert_eq!(mode(case.path.join(&first)), 0o755);
    assert_eq!(mode(case.path.join(&first).join("dir")), 0o755);

    assert_eq!(case.write(&[("a", "9"), ("dir/b", "2")]).await, Written::New);
    assert_ne!(case.link("..data"), first);
    assert_eq!((case.read("a"), case.read("dir/b")), ("9".into(), "2".into()));
    assert!(!case.path.join("dir/sub").exists());
    assert!(!case.path.join(first).exists());
    assert_eq!(case.data_dirs(), 1);
}

#[tokio::test]
async fn vol_20_nothing_is_written_when_nothing_changed() {
    let case = case().await;
    let files = [("a", "1"), ("dir/b", "2")];
    case.write(&files).await;
    let before = case.link("..data");
    assert_eq!(case.write(&files).await, Written::Same);
    assert_eq!(case.link("..data"), before);
    // A removed link is made again.
    fs::remove_file(case.path.join("a")).unwrap();
    assert_eq!(case.write(&files).await, Written::Same);
    assert_eq!(case.read("a"), "1");
    for changed in [vec![("a", "1")], vec![("a", "1"), ("dir/b", "2"), ("c", "3")], vec![("a", "2"), ("dir/b", "2")]] {
        assert_eq!(case.write(&changed).await, Written::New, "{changed:?}");
    }
    assert_eq!(case.write(&[]).await, Written::New);
    assert_eq!(case.names(), ["..data"]);
    assert_eq!(case.write(&[]).await, Written::Same);
}

#[tokio::test]
async fn vol_20_removed_keys_disappear_for_readers() {
    let case = case().await;
    case.write(&[("a", "1"), ("b/c", "2"), ("d", "3")]).await;
    case.write(&[("d", "3"), ("a/was/a/file", "4")]).await;
    assert_eq!(case.names(), ["..data", "a", "d"]);
    assert_eq!(case.read("a/was/a/file"), "4");
    case.write(&[("a", "5")]).await;
    assert_eq!(case.names(), ["..data", "a"]);
    assert_eq!(case.read("a"), "5");
}

#[tokio::test]
async fn an_open_file_keeps_its_old_content() {
    let case = case().await;
    case.write(&[("a", "old")]).await;
    let mut open = fs::File::open(case.path.join("a")).unwrap();
    case.write(&[("a", "new")]).await;
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old");
    assert_eq!(case.read("a"), "new");
}

#[tokio::test]
async fn modes_are_exact_whatever_the_umask() {
    let case = case().await;
    let file = |mode| PayloadFile { data: b"x".to_vec(), mode, owner: None };
    let modes = [0o400, 0o440, 0o644, 0o666, 0o777, 0o600];
    let files = modes.iter().map(|mode| (format!("{mode:o}"), file(*mode))).collect();
    case.writer.write(&place(), Payload { files, ..Payload::default() }).await.unwrap();
    for wanted in modes {
        let path = case.path.join("..data").join(format!("{wanted:o}"));
        assert_eq!(mode(&path), wanted, "{wanted:o}");
    }
}

#[tokio::test]
async fn vol_09_a_group_may_read_all_and_write_nothing_more() {
    let case = case().await;
    let group = rustix::process::getegid().as_raw();
    let file = |mode| PayloadFile { data: b"x".to_vec(), mode, owner: Some(rustix::process::geteuid().as_raw()) };
    let files = [("token", 0o600), ("d/f", 0o400)].map(|(path, mode)| (path.to_owned(), file(mode)));
    let payload = Payload { files: files.into(), group: Some(group), ..Payload::default() };
    case.writer.write(&place(), payload).await.unwrap();
    let data = case.path.join("..data/");
    assert_eq!(mode(data.join("token")), 0o640);
    assert_eq!(mode(data.join("d/f")), 0o440);
    assert_eq!(mode(data.join("d")), 0o2755);
    assert_eq!(mode(&case.path), 0o2777);
    assert_eq!(fs::metadata(data.join("token")).unwrap().gid(), group);
}

#[tokio::test]
async fn node_a_token_belongs_to_its_user() {
    needs_node_tests();
    let case = case().await;
    let file = PayloadFile { data: b"x".to_vec(), mode: 0o600, owner: Some(1000) };
    let files = [("token".to_owned(), file)].into();
    case.writer.write(&place(), Payload { files, ..Payload::default() }).await.unwrap();
    assert_eq!(fs::metadata(case.path.join("token")).unwrap().uid(), 1000);
    assert_eq!(fs::symlink_metadata(case.path.join("token")).unwrap().uid(), 1000);
}

#[tokio::test]
async fn an_interrupted_write_is_cleaned_up_by_the_next() {
    let case = case().await;
    case.write(&[("a", "1")]).await;
    // Interrupted before the swap: the files are there, and the link that was to be renamed.
    fs::create_dir(case.path.join("..2026_11_15_22_47_53.1")).unwrap();
    fs::write(case.path.join("..2026_11_15_22_47_53.1/a"), "2").unwrap();
    symlink("..2026_11_15_22_47_53.1", case.path.join("..data_tmp")).unwrap();
    assert_eq!(case.write(&[("a", "3")]).await, Written::New);
    assert_eq!(case.names(), ["..data", "a"]);
    assert_eq!((case.read("a"), case.data_dirs()), ("3".to_owned(), 1));
    // The data directory in force was removed.
    fs::remove_dir_all(case.path.join(case.link("..data"))).unwrap();
    assert_eq!(case.write(&[("a", "3")]).await, Written::New);
    assert_eq!(case.read("a"), "3");
}

#[tokio::test]
async fn directories_to_mount_on_are_made_and_kept() {
    let case = case().await;
    let points = || vec!["nested/deep".to_owned(), "a".to_owned()];
    for data in ["1", "2"] {
        let payload = Payload { mount_points: points(), ..payload(&[("a", data), ("b", data)]) };
        case.writer.write(&place(), payload).await.unwrap();
    }
    assert!(case.path.join("nested/deep").is_dir());
    assert!(case.path.join("a").is_dir(), "the mount point hides the file");
    assert_eq!(case.read("b"), "2");
    // A later container mounts below a name that is a link by now.
    let payload = Payload { mount_points: vec!["b".to_owned(), "b/x".to_owned()], ..payload(&[("b", "2")]) };
    case.writer.write(&place(), payload).await.unwrap();
}

#[tokio::test]
async fn links_planted_in_the_volume_are_not_followed() {
    let case = case().await;
    let host = case.path.parent().unwrap().join("host");
    fs::create_dir(&host).unwrap();
    fs::write(host.join("a"), "precious").unwrap();
    for target in [host.to_str().unwrap(), "../host", "../../../../../etc"] {
        let _old = fs::remove_file(case.path.join("..data"));
        symlink(target, case.path.join("..data")).unwrap();
        case.write(&[("a", "1")]).await;
        assert_eq!(case.read("a"), "1");
        assert!(case.link("..data").to_str().unwrap().starts_with("..2026_"));
    }
    // In place of a data directory.
    let current = case.path.join(case.link("..data"));
    fs::remove_dir_all(&current).unwrap();
    symlink(&host, &current).unwrap();
    assert!(case.writer.write(&place(), payload(&[("a", "2")])).await.is_err());
    assert_eq!(fs::read_to_string(host.join("a")).unwrap(), "precious");
    case.volumes.remove(&place()).await.unwrap();
    assert!(host.join("a").exists());
}

#[tokio::test]
async fn a_path_that_leaves_the_volume_is_an_error() {
    let case = case().await;
    for bad in ["../a", "a/../../b", "/etc/x", "a//b", "."] {
        assert!(case.writer.write(&place(), payload(&[(bad, "x")])).await.is_err(), "{bad}");
        assert_eq!(case.data_dirs(), 0, "{bad}: nothing is left");
    }
    case.volumes.remove(&place()).await.unwrap();
    assert!(case.writer.write(&place(), payload(&[])).await.is_err(), "the directory must exist");
    assert!(!case.writer.is_written(&place()).await.unwrap());
}
