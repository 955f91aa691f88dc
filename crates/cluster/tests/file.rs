//! Pods from files and directories (SRC-01, SRC-02), on real directories with the kernel's own events.

use std::fs;
use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use rubelet_cluster::{FileSource, MAX_MANIFEST};
use support::{Running, manifest, node};
use tempfile::TempDir;

mod support;

/// Never within a test: changes are seen by inotify alone.
const RARELY: Duration = Duration::from_secs(3600);
/// Soon: changes may be found by a relist of the directory.
const OFTEN: Duration = Duration::from_millis(20);

fn source(path: &Path, every: Duration) -> Running {
    Running::start(FileSource::new(path, every, node()))
}

/// Moves a complete file into place.
fn place(dir: &Path, name: &str, content: &str) {
    let hidden = dir.join(format!(".{name}.new"));
    fs::write(&hidden, content).expect("a file can be written");
    fs::rename(hidden, dir.join(name)).expect("a file can be moved");
}

/// The first delivery for a directory that `fill` has filled.
async fn check(fill: impl FnOnce(&Path), want: Expect) {
    let dir = TempDir::new().expect("a directory can be made");
    fill(dir.path());
    let mut running = source(dir.path(), RARELY);
    let seen = running.next().await;
    want.assert_eq(&seen.replace(dir.path().to_str().expect("paths here are UTF-8"), "DIR"));
    running.stop().await;
}

#[tokio::test]
async fn src_01_a_directory_is_read_in_order_without_dot_files() {
    check(|_| {}, expect!["[]"]).await;
    check(
        |dir| {
            fs::write(dir.join("b.yaml"), manifest("b", "1")).unwrap();
            const JSON: &str =
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"app","image":"i:1"}]}}"#;
            fs::write(dir.join("a.json"), JSON).unwrap();
            fs::write(dir.join("c"), manifest("c", "1")).unwrap();
            fs::write(dir.join(".hidden.yaml"), manifest("hidden", "1")).unwrap();
        },
        expect!["[a=1 b=1 c=1]"],
    )
    .await;
}

#[tokio::test]
async fn a_bad_manifest_is_reported_and_does_not_block_the_others() {
    let with_good = |fill: fn(&Path)| {
        move |dir: &Path| {
            fill(dir);
            fs::write(dir.join("good.yaml"), manifest("good", "1")).unwrap();
        }
    };
    check(with_good(|dir| fs::write(dir.join("bad.yaml"), "kind: Pod\n  metadata: x\n").unwrap()), expect![[r#"
        [good=1]
        DIR/bad.yaml: it is neither YAML nor JSON: line 2, column 11: mapping values are not allowed in this context"#]]).await;
    check(
        with_good(|dir| fs::write(dir.join("bad.yaml"), manifest("bad", "1").replace("app", "APP")).unwrap()),
        expect![[r#"
            [good=1]
            DIR/bad.yaml: invalid pod: spec.containers[0].name: Invalid value: "APP": must be lower case letters, digits and '-', beginning and ending with a letter or digit"#]],
    )
    .await;
    check(
        with_good(|dir| fs::write(dir.join("bad.yaml"), "kind: Service\n").unwrap()),
        expect![[r#"
            [good=1]
            DIR/bad.yaml: expected apiVersion: v1, kind: Pod, found apiVersion: none, kind: Service"#]],
    )
    .await;
    check(
        with_good(|dir| fs::write(dir.join("bad.yaml"), "").unwrap()),
        expect![[r#"
        [good=1]
        DIR/bad.yaml: it is empty"#]],
    )
    .await;
    check(
        with_good(|dir| fs::write(dir.join("bad.yaml"), b"\x7fELF\xff").unwrap()),
        expect![[r#"
        [good=1]
        DIR/bad.yaml: it is not text: byte 5 is not UTF-8"#]],
    )
    .await;
    check(
        with_good(|dir| fs::create_dir(dir.join("bad")).unwrap()),
        expect![[r#"
        [good=1]
        DIR/bad: it is a directory; manifests in directories below DIR are not read"#]],
    )
    .await;
    check(
        with_good(|dir| std::os::unix::fs::symlink("nowhere.yaml", dir.join("bad.yaml")).unwrap()),
        expect![[r#"
        [good=1]
        DIR/bad.yaml: it is a link to nowhere.yaml, which does not exist"#]],
    )
    .await;
    check(
        with_good(|dir| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, dir.join("bad"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        expect![[r#"
            [good=1]
            DIR/bad: it is a pipe, not a file"#]],
    )
    .await;
    check(
        with_good(|dir| fs::File::create(dir.join("bad")).unwrap().set_len(MAX_MANIFEST as u64 + 1).unwrap()),
        expect![[r#"
            [good=1]
            DIR/bad: it is larger than 10485760 bytes"#]],
    )
    .await;
    check(
        with_good(|dir| fs::write(dir.join("two.yaml"), manifest("good", "2")).unwrap()),
        expect![[r#"
            [good=1]
            DIR/two.yaml: pod good-n of namespace default is already defined in DIR/good.yaml"#]],
    )
    .await;
}

#[tokio::test]
async fn a_manifest_of_the_maximum_size_is_read() {
    check(
        |dir| {
            let mut text = manifest("big", "1");
            text += &"#".repeat(MAX_MANIFEST - text.len());
            fs::write(dir.join("big.yaml"), text).unwrap();
        },
        expect!["[big=1]"],
    )
    .await;
}

#[tokio::test]
async fn links_are_followed() {
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("real"), manifest("web", "1")).unwrap();
    let target = elsewhere.path().join("real");
    check(|dir| std::os::unix::fs::symlink(target, dir.join("web.yaml")).unwrap(), expect!["[web=1]"]).await;
}

#[tokio::test]
async fn inotify_reports_created_changed_and_deleted_files() {
    let dir = TempDir::new().unwrap();
    let mut running = source(dir.path(), RARELY);
    assert_eq!(running.next().await, "[]");
    place(dir.path(), "web.yaml", &manifest("web", "1"));
    assert_eq!(running.next().await, "[web=1]");
    // Written in place: read when its writer closes it.
    fs::write(dir.path().join("web.yaml"), manifest("web", "2")).unwrap();
    running.until("[web=2]").await;
    fs::write(dir.path().join("db.yaml"), manifest("db", "1")).unwrap();
    running.until("[db=1 web=2]").await;
    fs::rename(dir.path().join("db.yaml"), dir.path().join("zz.yaml")).unwrap();
    running.until("[web=2 db=1]").await;
    std::os::unix::fs::symlink("zz.yaml", dir.path().join("aa.yaml")).unwrap();
    running.next().await;
    fs::remove_file(dir.path().join("aa.yaml")).unwrap();
    running.until("[web=2 db=1]").await;
    fs::rename(dir.path().join("zz.yaml"), dir.path().join(".zz.yaml")).unwrap();
    running.until("[web=2]").await;
    fs::remove_file(dir.path().join("web.yaml")).unwrap();
    running.until("[]").await;
    running.stop().await;
}

/// The pod of a file that was deleted ends, and the same file that is there again begins another life of it.
/// upstream: test/e2e_node/mirror_pod_test.go "should successfully recreate when file is removed and recreated"
#[tokio::test]
async fn src_01_a_file_that_was_deleted_and_made_again_is_first_gone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("web.yaml");
    place(dir.path(), "web.yaml", &manifest("web", "1"));
    let mut directory = source(dir.path(), RARELY);
    let mut alone = source(&path, RARELY);
    assert_eq!((directory.next().await, alone.next().await), ("[web=1]".to_owned(), "[web=1]".to_owned()));
    fs::remove_file(&path).unwrap();
    fs::write(&path, manifest("web", "1")).unwrap();
    for running in [&mut directory, &mut alone] {
        assert_eq!(running.next().await, "[]");
        assert_eq!(running.next().await, "[web=1]");
    }
    // A file that takes another one's place is a new version of it: there is no moment without it.
    place(dir.path(), "web.yaml", &manifest("web", "2"));
    for running in [&mut directory, &mut alone] {
        assert_eq!(running.next().await, "[web=2]");
    }
    directory.stop().await;
    alone.stop().await;
}

/// Half a manifest may be valid: a file is not read before its writer closes it.
#[tokio::test]
async fn a_file_that_is_being_written_is_not_read() {
    use std::io::Write as _;
    let dir = TempDir::new().unwrap();
    let mut running = source(dir.path(), RARELY);
    assert_eq!(running.next().await, "[]");
    let mut file = fs::File::create(dir.path().join("web.yaml")).unwrap();
    file.write_all(manifest("half", "1").as_bytes()).unwrap();
    file.flush().unwrap();
    // Another file, which orders the test after the events of the first one.
    place(dir.path(), "other.yaml", &manifest("other", "1"));
    assert_eq!(running.next().await, "[other=1]");
    drop(file);
    assert_eq!(running.next().await, "[other=1 half=1]");
    running.stop().await;
}

/// Difference: upstream removes the pod at its next list.
#[tokio::test]
async fn a_manifest_that_turns_bad_keeps_its_pod_until_the_file_is_gone() {
    for every in [RARELY, OFTEN] {
        let dir = TempDir::new().unwrap();
        place(dir.path(), "web.yaml", &manifest("web", "1"));
        let mut running = source(dir.path(), every);
        assert_eq!(running.next().await, "[web=1]");
        place(dir.path(), "web.yaml", "kind: [");
        let seen = running.next().await.replace(dir.path().to_str().unwrap(), "DIR");
        expect![[r#"
            [web=1]
            DIR/web.yaml: it is neither YAML nor JSON: line 1, column 7: unclosed bracket '['; its pod goes on as it was last read"#]].assert_eq(&seen);
        place(dir.path(), "web.yaml", &manifest("web", "2"));
        assert_eq!(running.next().await, "[web=2]");
        place(dir.path(), "web.yaml", "kind: [");
        running.next().await;
        fs::remove_file(dir.path().join("web.yaml")).unwrap();
        assert_eq!(running.next().await, "[]");
        running.stop().await;
    }
}

#[tokio::test]
async fn src_02_a_path_that_does_not_exist_is_empty_and_is_read_once_it_exists() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("later");
    let mut running = source(&path, RARELY);
    assert_eq!(running.next().await, "[]", "the source is ready all the same");
    fs::create_dir(&path).unwrap();
    place(&path, "web.yaml", &manifest("web", "1"));
    running.until("[web=1]").await;
    // Removed again with its content: the pods go, as with upstream.
    fs::remove_dir_all(&path).unwrap();
    running.until("[]").await;
    fs::create_dir(&path).unwrap();
    place(&path, "web.yaml", &manifest("web", "2"));
    running.until("[web=2]").await;
    running.stop().await;
}

#[tokio::test]
async fn a_single_file_is_read_and_watched() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("pod.yaml");
    place(dir.path(), "other.yaml", &manifest("other", "1"));
    place(dir.path(), "pod.yaml", &manifest("web", "1"));
    let mut running = source(&path, RARELY);
    assert_eq!(running.next().await, "[web=1]");
    place(dir.path(), "pod.yaml", &manifest("web", "2"));
    assert_eq!(running.next().await, "[web=2]");
    fs::write(&path, manifest("web", "3")).unwrap();
    running.until("[web=3]").await;
    fs::remove_file(&path).unwrap();
    running.until("[]").await;
    running.stop().await;
}

#[tokio::test]
async fn a_relist_finds_changes_that_inotify_does_not_report() {
    let elsewhere = TempDir::new().unwrap();
    let target = elsewhere.path().join("real");
    fs::write(&target, manifest("web", "1")).unwrap();
    let dir = TempDir::new().unwrap();
    std::os::unix::fs::symlink(&target, dir.path().join("web.yaml")).unwrap();
    let mut running = source(dir.path(), OFTEN);
    assert_eq!(running.next().await, "[web=1]");
    place(elsewhere.path(), "real", &manifest("web", "2"));
    assert_eq!(running.next().await, "[web=2]");
    running.stop().await;
}

/// A ConfigMap volume changes all its files by renaming one link.
#[tokio::test]
async fn a_manifest_directory_on_a_configmap_volume_is_followed_at_once() {
    use std::os::unix::fs::symlink;
    let dir = TempDir::new().unwrap();
    let version = |name: &str, image: &str| {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("web.yaml"), manifest("web", image)).unwrap();
        symlink(name, dir.path().join("..new")).unwrap();
        fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    };
    version("..1", "1");
    symlink("..data/web.yaml", dir.path().join("web.yaml")).unwrap();
    let mut running = source(dir.path(), RARELY);
    assert_eq!(running.next().await, "[web=1]");
    version("..2", "2");
    assert_eq!(running.next().await, "[web=2]");
    running.stop().await;
}

#[tokio::test]
async fn nothing_is_delivered_when_nothing_changed() {
    let dir = TempDir::new().unwrap();
    place(dir.path(), "web.yaml", &manifest("web", "1"));
    let mut running = source(dir.path(), OFTEN);
    assert_eq!(running.next().await, "[web=1]");
    // The same content again, then another file: only the latter is delivered.
    place(dir.path(), "web.yaml", &manifest("web", "1"));
    place(dir.path(), "db.yaml", &manifest("db", "1"));
    assert_eq!(running.next().await, "[db=1 web=1]");
    assert!(running.nothing_waits());
    running.stop().await;
}

/// SRC-05: the path is part of the pod's UID, so it is spelt as upstream spells it.
#[tokio::test]
async fn the_path_of_a_manifest_is_spelt_as_upstream_spells_it() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("web.yaml"), "kind: nonsense").unwrap();
    let plain = dir.path().to_str().unwrap().to_owned();
    for spelling in [format!("{plain}/"), format!("{plain}//"), format!("{plain}/./"), format!("{plain}/sub/..")] {
        let mut running = source(Path::new(&spelling), RARELY);
        let seen = running.next().await;
        assert!(seen.contains(&format!("\n{plain}/web.yaml: ")), "{spelling} gives {seen}");
        running.stop().await;
    }
}
