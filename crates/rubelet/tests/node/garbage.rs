//! What would fill the disk: logs and images.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rubelet_core::launch::ImageSpec;
use rubelet_engine::ports::Images;

use crate::rig::{BUSYBOX, Containerd, NAMED_USER, NONROOT, Node, Setup, WAIT, app, pod};

const MIB: u64 = 1 << 20;

/// The sizes of the files of a container's logs: of the live one, and of all.
fn sizes(log: &str) -> (u64, u64, usize) {
    let live = fs::metadata(log).map_or(0, |file| file.len());
    let dir = Path::new(log).parent().expect("a log has a directory");
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let all: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    (live, all.iter().sum(), all.len())
}

/// LOG-04: a container that writes as fast as it can for 20 s, which without rotation is some gigabytes.
#[test]
fn a_container_that_writes_fast_stays_near_its_limit() {
    let node = Setup::default().config("containerLogMaxSize", "1Mi").config("containerLogMaxFiles", 3).start();
    // About 10 MB a second, in lines of 1 KiB.
    let script = "line=$(printf '%01000d' 7); while :; do i=0; while [ $i -lt 100 ]; do echo $line; i=$((i+1)); done; \
                  sleep 0.01; done";
    node.apply(&pod("writer", script));
    let seen = node.running("writer");
    let log = app(&seen).log_path.clone();
    node.until("a rotated log", || (sizes(&log).2 > 2).then_some(()));
    let mut greatest = (0, 0, 0);
    for _ in 0..200 {
        let (live, all, files) = sizes(&log);
        greatest = (greatest.0.max(live), greatest.1.max(all), greatest.2.max(files));
        node.let_pass(Duration::from_millis(50));
    }
    // Ten times the limit in ten seconds, if it were looked at only that often.
    assert!(greatest.0 < 6 * MIB, "live {} of at most 1 MiB", greatest.0);
    assert!(greatest.1 < 16 * MIB, "all {}", greatest.1);
    // Three, and what is being compressed.
    assert!(greatest.2 <= 5, "{} files", greatest.2);
}

/// LOG-04, LOG-05: every line is in exactly one of the files, in order.
#[test]
fn rotation_loses_no_line() {
    let node = Setup::default()
        .config("containerLogMaxSize", "64Ki")
        .config("containerLogMaxFiles", 1000)
        .config("containerLogMonitorInterval", "3s")
        .start();
    // For longer than a quiet log is left alone.
    let script = format!(
        "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); [ $((i % 1000)) -ne 0 ] || sleep 0.5; done; echo end; {WAIT}"
    );
    node.apply(&pod("writer", &script));
    let seen = node.running("writer");
    let log = app(&seen).log_path.clone();
    node.until("the last line", || node.container_log(app(&seen)).contains("end").then_some(()));
    let dir = Path::new(&log).parent().expect("a log has a directory");
    let mut names: Vec<_> = fs::read_dir(dir).expect("it is there").flatten().map(|file| file.file_name()).collect();
    // The live log's name sorts first, and it is the last.
    names.sort();
    names.rotate_left(1);
    let mut lines = Vec::new();
    for name in &names {
        let path = dir.join(name);
        let bytes = fs::read(&path).expect("it is there");
        let text = match path.extension().is_some_and(|end| end == "gz") {
            true => gunzip(&path),
            false => bytes,
        };
        let text = String::from_utf8(text).expect("the container wrote text");
        lines.extend(text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(str::to_owned));
    }
    let expected: Vec<String> = (0..20000).map(|n| format!("line {n}")).chain(["end".to_owned()]).collect();
    assert!(names.len() > 2, "it was rotated: {names:?}");
    assert!(lines == expected, "{} lines in {names:?}", lines.len());
}

/// With the program that everybody has.
fn gunzip(path: &Path) -> Vec<u8> {
    let output = std::process::Command::new("gzip").arg("-dc").arg(path).output().expect("gzip is installed");
    assert!(output.status.success(), "{} is gzip", path.display());
    output.stdout
}

/// Brings the images of the environment back, however the test ends.
struct Restored<'a>(&'a Containerd);

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        self.0.import_images();
    }
}

/// IGC-01: with a threshold that every disk is above, what nothing uses is removed, and what a container uses is not.
#[test]
fn unused_images_are_removed_when_the_disk_counts_as_full() {
    let runtime = Containerd::under_test();
    let spec = |name: &str| ImageSpec { image: name.to_owned(), ..ImageSpec::default() };
    let mut node = Setup::default()
        .config("imageGCHighThresholdPercent", 1)
        .config("imageGCLowThresholdPercent", 0)
        .config("imageMinimumGCAge", "1ms")
        .prepare();
    let there = |node: &Node, name: &str| {
        node.block_on(node.images.image_status(&spec(name))).expect("the runtime answers").is_some()
    };
    assert!(there(&node, NAMED_USER) && there(&node, NONROOT), "the environment has made them");
    let restored = Restored(&runtime);
    // The pod is there before the first collection, which is at the start of rubelet: so its image is used.
    node.apply(&pod("user", WAIT));
    node.start();
    let seen = node.running("user");
    node.until("the unused images to be gone", || (!there(&node, NAMED_USER) && !there(&node, NONROOT)).then_some(()));
    assert!(there(&node, BUSYBOX), "a container uses it");
    // The image of sandboxes is there as well: a new pod can start.
    node.apply(&pod("other", WAIT));
    node.running("other");
    assert!(seen.ready_sandbox().is_some());
    drop(restored);
    assert!(there(&node, NAMED_USER) && there(&node, NONROOT), "the next test needs them");
}
