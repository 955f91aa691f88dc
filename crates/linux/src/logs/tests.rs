use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::testing::{TempDir, temp_dir};

fn logs() -> (TempDir, DiskLogs) {
    let dir = temp_dir();
    let dirs = LogDirs { pods: dir.path().join("pods"), containers: dir.path().join("containers") };
    fs::create_dir(&dirs.pods).unwrap();
    (dir, DiskLogs::new(dirs))
}

fn pod(uid: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: "web".into(), uid: uid.into() }
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn log_01_directories_are_open_to_log_shippers() {
    let (dir, logs) = logs();
    assert_eq!(logs.dir(&pod("u1")), dir.path().join("pods/ns_web_u1"));
    logs.make_dir(&pod("u1")).await.unwrap();
    assert_eq!(names(&logs.dir(&pod("u1"))).len(), 0, "a sandbox needs only the pod's directory");
    assert_eq!(logs.make(&pod("u1"), "c").await.unwrap(), None);
    for path in ["pods/ns_web_u1", "pods/ns_web_u1/c"] {
        assert_eq!(fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777, 0o755, "{path}");
    }
}

#[tokio::test]
async fn a_mode_that_an_administrator_chose_stays() {
    let (_dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let path = logs.dir(&pod("u1"));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    logs.make(&pod("u1"), "c").await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn the_contract_holds() {
    let (_dir, logs) = logs();
    rubelet_testkit::contract::check_pod_logs(&logs).await;
}

#[tokio::test]
async fn rt_41_the_greatest_restart_count_of_any_log() {
    let (_dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let dir = logs.dir(&pod("u1")).join("c");
    for (name, expected) in [
        ("0.log", Some(0)),
        ("2.log.20200101-000000.gz", Some(2)),
        ("1.log", Some(2)),
        ("x9.log", Some(2)),
        (".log", Some(2)),
        ("99999999999999999999.log", Some(2)),
        ("7.txt", Some(2)),
        ("11.log", Some(11)),
    ] {
        fs::write(dir.join(name), "").unwrap();
        assert_eq!(logs.make(&pod("u1"), "c").await.unwrap(), expected, "{name}");
    }
    fs::create_dir(dir.join("50.log")).unwrap();
    assert_eq!(logs.make(&pod("u1"), "c").await.unwrap(), Some(11), "a directory is no log");
}

#[test]
fn log_02_a_link_name_is_shortened_at_the_end_of_the_id() {
    let id = "0123456789abcdef".repeat(4);
    assert_eq!(link_name(&pod("u1"), "c", &id), format!("web_ns_c-{id}.log"));
    for length in [100, 182, 183, 184, 253] {
        let container = "c".repeat(length);
        let name = link_name(&pod("u1"), &container, &id);
        assert!(name.len() <= 255, "{length}");
        assert!(name.starts_with(&format!("web_ns_{}", &container[..100])) && name.ends_with(".log"));
    }
    assert_eq!(link_name(&pod("u1"), &"c".repeat(253), &id).len(), 255);
}

#[tokio::test]
async fn rt_49_a_link_leads_to_a_log_that_exists() {
    let (dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    logs.link(&pod("u1"), "c", "id", 0).await.unwrap();
    assert!(!dir.path().join("containers").exists(), "no log, no link");
    let log = logs.dir(&pod("u1")).join("c/0.log");
    fs::write(&log, "").unwrap();
    let link = dir.path().join("containers/web_ns_c-id.log");
    for _ in 0..2 {
        logs.link(&pod("u1"), "c", "id", 0).await.unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), log);
    }
    assert_eq!(fs::metadata(dir.path().join("containers")).unwrap().mode() & 0o7777, 0o755);
    fs::remove_file(&link).unwrap();
    symlink("/elsewhere", &link).unwrap();
    logs.link(&pod("u1"), "c", "id", 0).await.unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), log);
}

#[tokio::test]
async fn a_hostile_name_is_refused() {
    let (dir, logs) = logs();
    fs::create_dir(dir.path().join("victim")).unwrap();
    fs::write(dir.path().join("victim/0.log"), "").unwrap();
    for bad in ["../../victim", "..", "a/b"] {
        assert!(logs.make(&pod("u1"), bad).await.is_err(), "{bad}");
        assert!(logs.make(&pod(bad), "c").await.is_err() || !bad.contains('/'), "{bad}");
        assert!(logs.remove_container(&pod("u1"), bad, "id", 0).await.is_err(), "{bad}");
    }
    assert!(dir.path().join("victim/0.log").exists());
}

#[tokio::test]
async fn gc_07_an_instance_is_removed_with_its_rotated_files_and_link() {
    let (dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let at = logs.dir(&pod("u1")).join("c");
    for name in ["1.log", "1.log.20200101-000000", "1.log.20200101-000001.gz", "10.log", "11.log", "0.log"] {
        fs::write(at.join(name), "").unwrap();
    }
    logs.link(&pod("u1"), "c", "id", 1).await.unwrap();
    for _ in 0..2 {
        logs.remove_container(&pod("u1"), "c", "id", 1).await.unwrap();
        assert_eq!(names(&at), BTreeSet::from(["0.log", "10.log", "11.log"].map(str::to_owned)));
        assert_eq!(names(&dir.path().join("containers")).len(), 0);
    }
}

#[tokio::test]
async fn gc_04_logs_of_removed_pods_are_removed_with_their_links() {
    let (dir, logs) = logs();
    for uid in ["u1", "u2"] {
        logs.make(&pod(uid), "c").await.unwrap();
        fs::write(logs.dir(&pod(uid)).join("c/0.log"), "").unwrap();
        logs.link(&pod(uid), "c", uid, 0).await.unwrap();
    }
    fs::create_dir(dir.path().join("pods/u3")).unwrap();
    fs::write(dir.path().join("precious"), "").unwrap();
    symlink(dir.path().join("precious"), logs.dir(&pod("u2")).join("c/link")).unwrap();
    fs::write(dir.path().join("containers/other.log"), "").unwrap();
    symlink("/nowhere", dir.path().join("containers/not-a-log")).unwrap();
    assert_eq!(logs.list().await.unwrap(), [pod("u1"), pod("u2")], "a directory with another form of name is ignored");
    logs.remove(&pod("u2")).await.unwrap();
    logs.remove(&pod("u2")).await.unwrap();
    logs.prune_links().await.unwrap();
    assert_eq!(names(&dir.path().join("pods")), BTreeSet::from(["ns_web_u1".to_owned(), "u3".to_owned()]));
    let links = ["not-a-log", "other.log", "web_ns_c-u1.log"].map(str::to_owned);
    assert_eq!(names(&dir.path().join("containers")), BTreeSet::from(links));
    assert!(dir.path().join("precious").exists());
}

#[tokio::test]
async fn gc_04_a_link_outlives_the_rotation_of_its_log() {
    let (dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let log = logs.dir(&pod("u1")).join("c/0.log");
    fs::write(&log, "").unwrap();
    logs.link(&pod("u1"), "c", "id", 0).await.unwrap();
    let rotated = log.with_file_name("0.log.20200101-000000");
    fs::rename(&log, &rotated).unwrap();
    logs.prune_links().await.unwrap();
    assert_eq!(names(&dir.path().join("containers")).len(), 1);
    fs::remove_file(&rotated).unwrap();
    logs.prune_links().await.unwrap();
    assert_eq!(names(&dir.path().join("containers")).len(), 0);
}

#[tokio::test]
async fn rt_110_the_end_of_a_log_is_read_and_nothing_but_logs() {
    let (dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let log = logs.dir(&pod("u1")).join("c/0.log");
    fs::write(&log, "2016-10-06T00:17:09Z stderr F panic: x\n").unwrap();
    assert_eq!(logs.tail(log.to_str().unwrap(), 80, 2048).await.unwrap(), b"panic: x\n");
    fs::write(dir.path().join("secret"), "2016-10-06T00:17:09Z stderr F secret\n").unwrap();
    let link = log.with_file_name("1.log");
    symlink(dir.path().join("secret"), &link).unwrap();
    let upwards = dir.path().join("pods/../secret");
    for bad in
        [link.to_str().unwrap(), upwards.to_str().unwrap(), "/etc/passwd", "", log.parent().unwrap().to_str().unwrap()]
    {
        assert!(logs.tail(bad, 80, 2048).await.is_err(), "{bad}");
    }
    let parent = beneath::open_root(log.parent().unwrap()).unwrap();
    rustix::fs::mknodat(&parent, "2.log", FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(logs.tail(log.with_file_name("2.log").to_str().unwrap(), 80, 2048).await.is_err());
}

/// A link that leads into a mount is not followed: a server that does not answer would block housekeeping.
#[tokio::test]
async fn hostile_links_that_lead_elsewhere_are_neither_followed_nor_removed() {
    let (dir, logs) = logs();
    logs.make(&pod("u1"), "c").await.unwrap();
    let log = logs.dir(&pod("u1")).join("c/0.log");
    // The log itself is a link, as some runtimes make it; its target is not checked.
    symlink("/nowhere/docker.log", &log).unwrap();
    logs.link(&pod("u1"), "c", "id", 0).await.unwrap();
    symlink("/nowhere/else.log", dir.path().join("containers/else.log")).unwrap();
    symlink("../../../nowhere.log", dir.path().join("containers/up.log")).unwrap();
    symlink(dir.path().join("pods/ns_web_u1/c/../../../gone.log"), dir.path().join("containers/dots.log")).unwrap();
    logs.prune_links().await.unwrap();
    let left = ["dots.log", "else.log", "up.log", "web_ns_c-id.log"].map(str::to_owned);
    assert_eq!(names(&dir.path().join("containers")), BTreeSet::from(left));
}

/// Hung calls of one pod do not delay the logs of other pods, and hung log reads of clients do not delay pod starts.
#[tokio::test]
async fn hostile_hung_calls_of_one_pod_delay_no_other() {
    use rubelet_engine::blocking::{LOG_READS, POD_FILES};
    use rubelet_engine::ports::{LogReader, LogWish, PodDirs};

    let (dir, logs) = logs();
    let pods = crate::pod_dirs::RootPods::new(dir.path());
    let (release, hung) = (std::sync::Mutex::new(Vec::new()), std::time::Duration::from_millis(20));
    let hang = |pool: &'static rubelet_engine::blocking::Pool, key: &'static str| {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        release.lock().unwrap().push(hold);
        tokio::time::timeout(hung, pool.run(key, move || held.recv().is_err()))
    };
    for _ in 0..8 {
        let _late = hang(&POD_FILES, "u1").await;
        let _late = hang(&LOGS, "u1").await;
        let _late = hang(&LOG_READS, "u1").await;
    }
    let work = async {
        pods.make(&"u2".into()).await.unwrap();
        logs.make(&pod("u2"), "c").await.unwrap();
        let log = logs.dir(&pod("u2")).join("c/0.log");
        fs::write(&log, "2026-01-01T00:00:00Z stdout F hello\n").unwrap();
        let mut text = logs.open(log.to_str().unwrap(), &LogWish::default()).await.unwrap();
        text.next().await.unwrap()
    };
    let read = tokio::time::timeout(std::time::Duration::from_secs(5), work)
        .await
        .expect("it does not wait for the hung calls");
    assert!(read.is_some_and(|text| text.ends_with(b"hello\n")));
    drop(release);
}
