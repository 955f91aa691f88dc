use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rubelet_engine::ports::LogStreams;

use super::*;
use crate::testing::{TempDir, temp_dir};

const LOG: &str = "\
2026-01-01T00:00:01.1Z stdout F one
2026-01-01T00:00:02.25+01:00 stderr F two
2026-01-01T00:00:03Z stdout P thr
2026-01-01T00:00:03Z stdout P:tag e
2026-01-01T00:00:04Z stdout F e
2026-01-01T00:00:05Z stderr F \n";

struct Setup {
    _dir: TempDir,
    logs: DiskLogs,
    path: PathBuf,
}

fn setup(content: &str) -> Setup {
    let dir = temp_dir();
    let pods = dir.path().join("pods");
    let place = pods.join("ns_web_u1/app");
    fs::create_dir_all(&place).unwrap();
    let path = place.join("0.log");
    fs::write(&path, content).unwrap();
    let logs = DiskLogs::new(LogDirs { pods, containers: dir.path().join("containers") });
    Setup { _dir: dir, logs, path }
}

impl Setup {
    async fn open(&self, wish: &LogWish) -> Result<Box<dyn LogText>, FileError> {
        self.logs.open(self.path.to_str().unwrap(), wish).await
    }

    fn write(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

/// The rest of the log's text.
async fn rest(text: &mut Box<dyn LogText>) -> String {
    let mut all = Vec::new();
    while let Some(piece) = text.next().await.unwrap() {
        all.extend(piece);
    }
    String::from_utf8(all).unwrap()
}

async fn next(text: &mut Box<dyn LogText>) -> String {
    let piece = tokio::time::timeout(Duration::from_secs(10), text.next()).await.expect("the text arrives in time");
    String::from_utf8(piece.unwrap().expect("the log has not ended")).unwrap()
}

fn second(second: i64) -> Option<jiff::Timestamp> {
    Some("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_secs(second))
}

#[tokio::test]
async fn log_05_every_option_of_reading() {
    let all = LogWish::default;
    let rows = [
        (all(), "one\ntwo\nthree\n\n"),
        (LogWish { tail_lines: Some(0), ..all() }, ""),
        (LogWish { tail_lines: Some(1), ..all() }, "\n"),
        // Parts of a line count as lines, as they do upstream.
        (LogWish { tail_lines: Some(2), ..all() }, "e\n\n"),
        (LogWish { tail_lines: Some(100), ..all() }, "one\ntwo\nthree\n\n"),
        (LogWish { limit_bytes: Some(5), ..all() }, "one\nt"),
        (LogWish { limit_bytes: Some(8), ..all() }, "one\ntwo\n"),
        (LogWish { limit_bytes: Some(1000), ..all() }, "one\ntwo\nthree\n\n"),
        (LogWish { since: second(4), ..all() }, "e\n\n"),
        (LogWish { since: second(3), ..all() }, "three\n\n"),
        (LogWish { since: second(60), ..all() }, ""),
        (LogWish { since: second(4), tail_lines: Some(3), ..all() }, "e\n\n"),
        (LogWish { streams: LogStreams::Stdout, ..all() }, "one\nthree\n"),
        (LogWish { streams: LogStreams::Stderr, ..all() }, "two\n\n"),
        (LogWish { streams: LogStreams::Stderr, limit_bytes: Some(3), ..all() }, "two"),
        (
            LogWish { timestamps: true, ..all() },
            "2026-01-01T00:00:01.100000000Z one\n2026-01-01T00:00:02.250000000+01:00 two\n\
             2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:05.000000000Z \n",
        ),
        (LogWish { timestamps: true, limit_bytes: Some(33), ..all() }, "2026-01-01T00:00:01.100000000Z on"),
    ];
    let setup = setup(LOG);
    for (wish, expected) in rows {
        let mut text = setup.open(&wish).await.unwrap();
        assert_eq!(rest(&mut text).await, expected, "{wish:?}");
    }
}

#[tokio::test]
async fn a_last_line_that_is_not_whole_is_read_and_a_broken_one_left_out() {
    for (content, expected) in [
        ("", ""),
        ("2026-01-01T00:00:01Z stdout F cut o", "cut o"),
        ("2026-01-01T00:00:01Z stdout F a\nwhat is this\n2026-01-01T00:00:01Z stdout F b\n", "a\nb\n"),
        ("{\"log\":\"json\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:01Z\"}\n", "json\n"),
    ] {
        let mut text = setup(content).open(&LogWish::default()).await.unwrap();
        assert_eq!(rest(&mut text).await, expected, "{content:?}");
    }
    let mut text = setup("no log at all\n").open(&LogWish::default()).await.unwrap();
    assert_eq!(text.next().await.unwrap_err().source.kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn the_last_lines_of_a_long_log_are_found_from_its_end() {
    let line = |n: usize| format!("2026-01-01T00:00:01Z stdout F {n:0>100}\n");
    let setup = setup(&(0..5000).map(line).collect::<String>());
    for lines in [1, 499, 500, 1234, 4999, 5000, 5001] {
        let wish = LogWish { tail_lines: Some(lines), ..LogWish::default() };
        let text = rest(&mut setup.open(&wish).await.unwrap()).await;
        assert_eq!(text.lines().count() as u64, lines.min(5000));
        assert!(text.ends_with("4999\n"));
    }
}

#[tokio::test]
async fn log_05_a_log_is_followed_through_its_rotation_until_the_container_ends() {
    let setup = setup("2026-01-01T00:00:01Z stdout F one\n");
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    assert_eq!(next(&mut text).await, "one\n");
    let silence = tokio::time::timeout(Duration::from_millis(50), text.next()).await;
    assert!(silence.is_err(), "it waits");
    setup.write("2026-01-01T00:00:02Z stdout F two\n2026-01-01T00:00:02Z stdo");
    assert_eq!(next(&mut text).await, "two\n");
    setup.write("ut F three\n");
    assert_eq!(next(&mut text).await, "three\n");

    // Lines that the runtime still writes to the old file come before those of the new file.
    let rotated = setup.path.with_extension("log.20260101-000000");
    fs::rename(&setup.path, &rotated).unwrap();
    let mut old = OpenOptions::new().append(true).open(&rotated).unwrap();
    old.write_all(b"2026-01-01T00:00:03Z stdout F four\n").unwrap();
    setup.write("2026-01-01T00:00:04Z stdout F five\n");
    let mut both = next(&mut text).await;
    if both == "four\n" {
        both += &next(&mut text).await;
    }
    assert_eq!(both, "four\nfive\n");
    setup.write("2026-01-01T00:00:05Z stdout F six\n");
    assert_eq!(next(&mut text).await, "six\n");

    setup.write("2026-01-01T00:00:06Z stdout F seven\n2026-01-01T00:00:06Z stdout F eight");
    text.finish();
    assert_eq!(rest(&mut text).await, "seven\neight");
}

#[tokio::test]
async fn following_from_the_end_shows_only_new_lines() {
    let setup = setup(LOG);
    let wish = LogWish { follow: true, tail_lines: Some(0), limit_bytes: Some(7), ..LogWish::default() };
    let mut text = setup.open(&wish).await.unwrap();
    setup.write("2026-01-01T00:00:06Z stdout F new\n2026-01-01T00:00:06Z stdout F newer\n");
    assert_eq!(rest(&mut text).await, "new\nnew", "the byte limit ends the log");
}

#[tokio::test]
async fn no_link_and_no_path_leads_out_of_the_log_directory() {
    let setup = setup(LOG);
    let pods = setup.path.ancestors().nth(3).unwrap().to_owned();
    let secret = pods.with_file_name("secret.log");
    fs::write(&secret, LOG).unwrap();
    let place = setup.path.parent().unwrap().to_owned();
    symlink(&secret, place.join("1.log")).unwrap();
    symlink(pods.parent().unwrap(), pods.join("out")).unwrap();
    fs::create_dir(place.join("2.log")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, place.join("3.log"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let inside = |name: &str| place.join(name).to_str().unwrap().to_owned();
    for path in [
        inside("1.log"),
        inside("2.log"),
        inside("3.log"),
        inside("4.log"),
        inside("../../../secret.log"),
        pods.join("out/secret.log").to_str().unwrap().to_owned(),
        secret.to_str().unwrap().to_owned(),
        pods.to_str().unwrap().to_owned(),
        pods.join("top.log").to_str().unwrap().to_owned(),
        "relative.log".to_owned(),
        String::new(),
    ] {
        assert!(setup.logs.open(&path, &LogWish::default()).await.is_err(), "{path}");
    }

    // Nor does a link that replaces the log while it is followed.
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    assert_eq!(next(&mut text).await, "one\ntwo\nthree\n\n");
    fs::remove_file(&setup.path).unwrap();
    symlink(&secret, &setup.path).unwrap();
    tokio::time::timeout(Duration::from_secs(10), text.next()).await.expect("it ends").unwrap_err();
}

/// Inotify instances of this process.
fn instances() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_str() == Some("anon_inode:inotify")).count()
}

/// A follower that has read everything and waits.
async fn waiting(setup: &Setup) -> Box<dyn LogText> {
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    assert_eq!(next(&mut text).await, "one\n");
    assert!(tokio::time::timeout(Duration::from_millis(20), text.next()).await.is_err(), "it waits");
    text
}

#[tokio::test]
async fn a_hundred_followers_share_one_inotify_instance() {
    let setups: Vec<Setup> = (0..4).map(|_| setup("2026-01-01T00:00:01Z stdout F one\n")).collect();
    let logs = DiskLogs { dirs: Arc::clone(&setups[0].logs.dirs), watches: Arc::default() };
    let mut followers = Vec::new();
    for n in 0..100 {
        let setup = &setups[n % 4];
        let one = DiskLogs { dirs: Arc::clone(&setup.logs.dirs), watches: Arc::clone(&logs.watches) };
        let mut text =
            one.open(setup.path.to_str().unwrap(), &LogWish { follow: true, ..LogWish::default() }).await.unwrap();
        assert_eq!(next(&mut text).await, "one\n");
        assert!(tokio::time::timeout(Duration::from_millis(5), text.next()).await.is_err(), "it waits");
        followers.push(text);
    }
    // Other tests of this process have inotify instances, too.
    assert!(instances() < 50, "{} instances", instances());
    assert_eq!(logs.watches.watched(), 4, "one watch for each directory");
    setups.iter().for_each(|setup| setup.write("2026-01-01T00:00:02Z stdout F two\n"));
    for text in &mut followers {
        assert_eq!(next(text).await, "two\n");
    }
    drop(followers);
    let gone = async {
        while logs.watches.watched() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("no watch outlives its followers");
}

#[tokio::test]
async fn a_follower_without_a_watch_polls() {
    for room in [0, 1] {
        let (mut first, mut second) = (setup(""), setup(""));
        let watches = Arc::new(Watches::with_room(room));
        let mut texts = Vec::new();
        for setup in [&mut first, &mut second] {
            setup.write("2026-01-01T00:00:01Z stdout F one\n");
            setup.logs.watches = Arc::clone(&watches);
            texts.push(waiting(setup).await);
        }
        assert_eq!(watches.watched(), room);
        for (setup, text) in [&first, &second].into_iter().zip(&mut texts) {
            setup.write("2026-01-01T00:00:02Z stdout F two\n");
            assert_eq!(next(text).await, "two\n");
            // Through a rotation as well.
            fs::rename(&setup.path, setup.path.with_extension("log.20260101-000000")).unwrap();
            setup.write("2026-01-01T00:00:03Z stdout F three\n");
            assert_eq!(next(text).await, "three\n");
        }
    }
}

#[tokio::test]
async fn a_directory_that_goes_away_ends_no_other_follower() {
    let (gone, stays) = (setup("2026-01-01T00:00:01Z stdout F one\n"), setup("2026-01-01T00:00:01Z stdout F one\n"));
    let stays = Setup {
        logs: DiskLogs { dirs: Arc::clone(&stays.logs.dirs), watches: Arc::clone(&gone.logs.watches) },
        ..stays
    };
    let (mut lost, mut text) = (waiting(&gone).await, waiting(&stays).await);
    fs::remove_dir_all(gone.path.parent().unwrap()).unwrap();
    stays.write("2026-01-01T00:00:02Z stdout F two\n");
    assert_eq!(next(&mut text).await, "two\n");
    lost.finish();
    assert_eq!(rest(&mut lost).await, "");
}

#[tokio::test]
async fn extreme_log_options_cost_no_more_than_the_log() {
    let setup = setup(LOG);
    let most = u64::try_from(i64::MAX).unwrap();
    for (wish, expected) in [
        (LogWish { tail_lines: Some(most), ..LogWish::default() }, "one\ntwo\nthree\n\n"),
        (LogWish { tail_lines: Some(u64::MAX), ..LogWish::default() }, "one\ntwo\nthree\n\n"),
        (LogWish { limit_bytes: Some(most), ..LogWish::default() }, "one\ntwo\nthree\n\n"),
        (LogWish { limit_bytes: Some(u64::MAX), timestamps: false, ..LogWish::default() }, "one\ntwo\nthree\n\n"),
        (LogWish { tail_lines: Some(0), limit_bytes: Some(most), ..LogWish::default() }, ""),
    ] {
        assert_eq!(rest(&mut setup.open(&wish).await.unwrap()).await, expected, "{wish:?}");
    }
    // A sparse file of 64 MiB without a newline: the search ends at its beginning, in stretches.
    let hole = fs::OpenOptions::new().write(true).open(&setup.path).unwrap();
    hole.set_len(0).unwrap();
    hole.set_len(64 * 1024 * 1024).unwrap();
    let mut text = setup.open(&LogWish { tail_lines: Some(1), ..LogWish::default() }).await.unwrap();
    assert_eq!(text.next().await.unwrap_err().source.kind(), io::ErrorKind::InvalidData, "the line is too long");
}

/// A log that is rotated again and again, with compression, faster than its follower reads.
struct Rotating {
    place: PathBuf,
    dir: std::os::fd::OwnedFd,
    lines: usize,
    rotations: usize,
}

impl Rotating {
    fn write(&mut self, lines: usize) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.place.join("0.log")).unwrap();
        for _ in 0..lines {
            writeln!(file, "2026-01-01T00:00:01Z stdout F line {}", self.lines).unwrap();
            self.lines += 1;
        }
    }

    fn rotate(&mut self) {
        let name = format!("0.log.20260101-{:06}", self.rotations);
        self.rotations += 1;
        fs::rename(self.place.join("0.log"), self.place.join(name)).unwrap();
    }

    /// Compresses the rotated log of this number.
    fn compress(&self, number: usize) {
        let dir = self.dir.try_clone().unwrap();
        super::super::rotate::compress(&dir, &format!("0.log.20260101-{number:06}")).unwrap();
    }
}

fn rotating(setup: &Setup) -> Rotating {
    let place = setup.path.parent().unwrap().to_path_buf();
    let dir = beneath::open_root(&place).unwrap();
    Rotating { place, dir, lines: 0, rotations: 0 }
}

fn expected(lines: usize) -> String {
    (0..lines).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn log_04_a_follower_that_is_late_by_many_rotations_loses_no_line() {
    let setup = setup("");
    let mut log = rotating(&setup);
    log.write(10);
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    let mut seen = next(&mut text).await;
    for round in 0..40 {
        log.write(round % 7);
        log.write(1);
        log.rotate();
        if round > 1 {
            log.compress(round - 2);
        }
    }
    log.write(5);
    text.finish();
    seen += &rest(&mut text).await;
    assert_eq!(seen, expected(log.lines));
}

#[tokio::test]
async fn log_04_a_follower_in_the_midst_of_rapid_rotations_loses_no_line() {
    let setup = setup("");
    let mut log = rotating(&setup);
    log.write(1);
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    let writer = std::thread::spawn(move || {
        for round in 0..60 {
            log.write(200);
            log.rotate();
            if round > 0 {
                log.compress(round - 1);
            }
        }
        log.write(1);
        log.lines
    });
    let mut seen = String::new();
    let last = format!("line {}\n", 1 + 60 * 200);
    while !seen.ends_with(&last) {
        seen += &next(&mut text).await;
    }
    let lines = writer.join().unwrap();
    assert_eq!(seen, expected(lines));
    text.finish();
    assert_eq!(rest(&mut text).await, "");
}

#[tokio::test]
async fn log_04_a_follower_whose_file_was_removed_goes_on_with_the_oldest_that_is_left() {
    let setup = setup("");
    let mut log = rotating(&setup);
    log.write(1);
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    assert_eq!(next(&mut text).await, "line 0\n");
    for _ in 0..4 {
        log.rotate();
        log.write(1);
    }
    for gone in ["0.log.20260101-000000", "0.log.20260101-000001"] {
        fs::remove_file(log.place.join(gone)).unwrap();
    }
    text.finish();
    assert_eq!(rest(&mut text).await, "line 2\nline 3\nline 4\n");
}

/// The runtime may still have something to write to the old file when it has opened the new one.
#[tokio::test]
async fn log_04_what_the_runtime_writes_late_to_the_old_file_is_read() {
    let setup = setup("");
    let mut log = rotating(&setup);
    log.write(1);
    let mut text = setup.open(&LogWish { follow: true, ..LogWish::default() }).await.unwrap();
    assert_eq!(next(&mut text).await, "line 0\n");
    let mut old = OpenOptions::new().append(true).open(&setup.path).unwrap();
    log.rotate();
    fs::write(&setup.path, "").unwrap();
    let late = async {
        tokio::time::sleep(SETTLES / 4).await;
        writeln!(old, "2026-01-01T00:00:01Z stdout F late").unwrap();
    };
    let (text, ()) = tokio::join!(next(&mut text), late);
    assert_eq!(text, "late\n");
}
