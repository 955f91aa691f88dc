use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, Mode};

use super::*;
use crate::testing::{TempDir, temp_dir};

/// A log directory with pods' logs, and beside it what nobody may read.
fn log_dir() -> (TempDir, NodeLogDir) {
    let dir = temp_dir();
    let log = dir.path().join("log");
    std::fs::create_dir_all(log.join("pods/ns_web_uid/app")).unwrap();
    std::fs::create_dir(log.join("containers")).unwrap();
    std::fs::write(log.join("syslog"), "0123456789").unwrap();
    std::fs::write(log.join("pods/ns_web_uid/app/0.log"), "a line\n").unwrap();
    std::fs::write(dir.path().join("secret"), "hush").unwrap();
    symlink(log.join("pods/ns_web_uid/app/0.log"), log.join("containers/web.log")).unwrap();
    symlink("../pods/ns_web_uid/app/0.log", log.join("containers/relative.log")).unwrap();
    let logs = NodeLogDir::new(&log);
    (dir, logs)
}

async fn content(logs: &NodeLogDir, path: &str) -> Result<String, io::ErrorKind> {
    match logs.open(path).await.map_err(|err| err.source.kind())? {
        NodeLog::File { content, size, .. } => {
            let text = content.read(0, 1024).await.unwrap();
            assert_eq!(u64::try_from(text.len()).unwrap(), size);
            Ok(String::from_utf8(text).unwrap())
        }
        NodeLog::Directory { entries, more } => {
            assert!(!more);
            let slash = |entry: NodeLogEntry| entry.name + if entry.is_directory { "/" } else { "" };
            Ok(entries.into_iter().map(slash).collect::<Vec<_>>().join(" "))
        }
    }
}

#[tokio::test]
async fn files_directories_and_links_below_the_log_directory_are_read() {
    let (_dir, logs) = log_dir();
    for (path, expected) in [
        ("", "containers/ pods/ syslog"),
        ("/", "containers/ pods/ syslog"),
        ("syslog", "0123456789"),
        ("pods/", "ns_web_uid/"),
        ("pods/ns_web_uid/app/0.log", "a line\n"),
        ("containers", "relative.log web.log"),
        ("containers/web.log", "a line\n"),
        ("containers/relative.log", "a line\n"),
        ("pods/../syslog", "0123456789"),
    ] {
        assert_eq!(content(&logs, path).await.as_deref(), Ok(expected), "{path}");
    }
}

#[tokio::test]
async fn nothing_outside_the_log_directory_is_read() {
    let (dir, logs) = log_dir();
    let log = dir.path().join("log");
    for (name, target) in [
        ("absolute", dir.path().join("secret")),
        ("up", "../secret".into()),
        ("far-up", "pods/../../secret".into()),
        ("etc", "/etc".into()),
        ("root", "/".into()),
        ("itself", "itself".into()),
        ("beside", format!("{}x", log.display()).into()),
        ("self", "/proc/self/root/etc/passwd".into()),
    ] {
        symlink(target, log.join(name)).unwrap();
    }
    rustix::fs::mknodat(CWD, log.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    for path in [
        "absolute",
        "up",
        "far-up",
        "etc/passwd",
        "root/etc/passwd",
        "beside",
        "self",
        "fifo",
        "..",
        "../secret",
        "pods/../../secret",
        "pods/../../../../../../../etc/passwd",
    ] {
        assert_eq!(content(&logs, path).await, Err(io::ErrorKind::PermissionDenied), "{path}");
    }
    assert_eq!(
        content(&logs, "/etc-of-the-host").await,
        Err(io::ErrorKind::NotFound),
        "it is a path below the directory"
    );
    assert!(content(&logs, "itself").await.is_err(), "a loop of links ends");
    assert_eq!(content(&logs, "syslog/x").await, Err(io::ErrorKind::NotADirectory));
    assert!(content(&logs, &"pods/../".repeat(10_000)).await.is_ok(), "long, and leads nowhere else");
    assert!(content(&logs, &"x/".repeat(10_000)).await.is_err());
}

#[tokio::test]
async fn a_link_that_is_swapped_all_the_time_never_leads_out() {
    let (dir, logs) = log_dir();
    let log = dir.path().join("log");
    let (good, bad, name) = (log.join("good"), log.join("bad"), log.join("swapped"));
    std::thread::scope(|threads| {
        let swapper = threads.spawn(|| {
            for round in 0..2_000 {
                let (target, link) = if round % 2 == 0 { ("syslog", &good) } else { ("../secret", &bad) };
                symlink(target, link).unwrap();
                std::fs::rename(link, &name).unwrap();
            }
        });
        while !swapper.is_finished() {
            if let Ok(Found::File(file)) = find(&log, "swapped") {
                assert_eq!(std::io::read_to_string(file).unwrap(), "0123456789");
            }
        }
    });
    assert!(logs.open("swapped").await.is_err(), "the last link leads out");
}

/// A program in place of `journalctl`.
fn journalctl(dir: &TempDir, script: &str) -> NodeLogDir {
    let path = dir.path().join("journalctl");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    NodeLogDir::with_journalctl(dir.path(), path)
}

async fn read(logs: &NodeLogDir, query: &JournalQuery) -> String {
    let mut journal = logs.journal(query).await.unwrap();
    let mut all = Vec::new();
    while let Some(piece) = journal.next().await {
        all.extend(piece);
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn http_05_the_journal_gets_its_arguments_as_they_are() {
    let dir = temp_dir();
    let logs = journalctl(&dir, r#"for argument in "$@"; do printf '<%s>' "$argument"; done; echo complaint >&2"#);
    assert_eq!(read(&logs, &JournalQuery::default()).await, "<--utc><--no-pager><--output=short-precise>complaint\n");
    let query = JournalQuery {
        services: vec!["kubelet".into(), "--flush".into()],
        since: Some("2026-01-01T01:00:00+01:00".parse().unwrap()),
        until: Some("2026-01-01T00:00:01Z".parse().unwrap()),
        tail_lines: Some(5),
        boot: Some(-1),
        pattern: "$(touch /tmp/x); `id` ' \" | & *".into(),
    };
    assert_eq!(
        read(&logs, &query).await,
        "<--utc><--no-pager><--output=short-precise><--since=@1767225600><--until=@1767225601><--pager-end><--lines=5>\
         <--unit=kubelet><--unit=--flush><--grep=$(touch /tmp/x); `id` ' \" | & *><--boot=-1>complaint\n"
    );
}

#[tokio::test]
async fn http_05_the_journal_knows_its_services() {
    let dir = temp_dir();
    let logs = journalctl(&dir, "[ \"$*\" = '--field _SYSTEMD_UNIT' ] && printf 'kubelet.service\\nabcron.service\\n'");
    let services = ["kubelet", "cron", "abcron", "kubelet.service"].map(str::to_owned);
    assert_eq!(logs.in_journal(&services).await, [true, false, true, false]);
    let none = NodeLogDir::with_journalctl(dir.path(), "/no/such/journalctl");
    assert_eq!(none.in_journal(&services).await, [false; 4]);
    assert!(matches!(none.journal(&JournalQuery::default()).await, Err(JournalError::Start(_))));
}

#[tokio::test]
async fn http_05_few_journal_programs_run_and_they_end_with_their_readers() {
    let dir = temp_dir();
    let logs = journalctl(&dir, "while :; do echo line; done");
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(logs.journal(&JournalQuery::default()).await.unwrap());
    }
    assert!(matches!(logs.journal(&JournalQuery::default()).await, Err(JournalError::TooMany)));
    for journal in &mut open {
        assert!(journal.next().await.is_some());
    }
    drop(open);
    // The readers are dropped by their tasks, which run once more.
    while let Err(err) = logs.journal(&JournalQuery::default()).await {
        assert!(matches!(err, JournalError::TooMany), "{err}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn http_05_a_journal_program_is_killed_at_its_deadline() {
    let dir = temp_dir();
    let logs = journalctl(&dir, "exec sleep 3600");
    let text = read(&logs, &JournalQuery::default()).await;
    assert_eq!(text, "\nerror: the journal was read for 30s and is cut off here\n");
}
