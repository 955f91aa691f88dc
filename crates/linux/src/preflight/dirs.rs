//! Directories: the root directory, the logs of pods, the manifests of static pods.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, StatVfsMountFlags};

use super::{Finding, HostCheck};

/// Below this much free space or free inodes a file system is called nearly full. Upstream's kubelet evicts pods then
/// (EV-02: `nodefs.available`, `nodefs.inodesFree`).
const MIN_FREE_PERCENT: u64 = 10;
const MIN_FREE_INODES_PERCENT: u64 = 5;

pub(super) fn findings(request: &HostCheck) -> Vec<Finding> {
    let mut found =
        vec![dir("root-dir", "--root-dir", &request.root), dir("pod-logs", "podLogsDir", &request.pod_logs)];
    found.extend(request.static_pods.as_deref().map(|path| static_pods(path, seen(path))));
    found
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Dir,
    File,
    Absent,
    Unreadable(io::ErrorKind),
}

fn seen(path: &Path) -> Seen {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Seen::Dir,
        Ok(_) => Seen::File,
        Err(err) if err.kind() == io::ErrorKind::NotFound => Seen::Absent,
        Err(err) => Seen::Unreadable(err.kind()),
    }
}

/// A directory that is made at the start if it is absent.
fn dir(name: &str, setting: &str, path: &Path) -> Finding {
    let plain: PathBuf = path.components().collect();
    if !path.is_absolute() || plain.as_os_str() != path.as_os_str() {
        let mend = format!("set {setting} to an absolute path without `.`, `..` and a slash at its end");
        return Finding::fail(name, format!("{}: not a path in canonical form", path.display()), mend);
    }
    // What does not exist yet will be on the file system of the nearest directory above.
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if seen(there) == Seen::File {
        let what = format!("{} is a file, and a directory is needed", there.display());
        return Finding::fail(name, what, format!("move the file away, or set {setting} to a directory"));
    }
    match rustix::fs::statvfs(there) {
        Ok(stat) => file_system(name, setting, path, &Space::of(&stat)),
        Err(err) => {
            let what = format!("{}: free space cannot be read: {err}", there.display());
            Finding::fail(name, what, format!("check the file system, or set {setting} to a directory on another"))
        }
    }
}

/// What a file system has left, and how it is mounted.
#[derive(Clone, Copy, Debug)]
struct Space {
    gigabytes: u64,
    percent: u64,
    inodes_percent: u64,
    flags: StatVfsMountFlags,
}

impl Space {
    fn of(stat: &StatVfs) -> Self {
        let percent = |free: u64, of: u64| free.saturating_mul(100).checked_div(of).unwrap_or(100);
        Self {
            gigabytes: stat.f_bavail.saturating_mul(stat.f_frsize) >> 30,
            percent: percent(stat.f_bavail, stat.f_blocks),
            inodes_percent: percent(stat.f_ffree, stat.f_files),
            flags: stat.f_flag,
        }
    }
}

fn file_system(name: &str, setting: &str, path: &Path, space: &Space) -> Finding {
    let at = path.display();
    if space.flags.contains(StatVfsMountFlags::RDONLY) {
        let mend = format!("`mount -o remount,rw` its file system, or set {setting} to a directory on another");
        return Finding::fail(name, format!("{at}: its file system is mounted read-only"), mend);
    }
    let Space { gigabytes, percent, inodes_percent, .. } = space;
    let what = format!("{at}: {gigabytes} GiB free ({percent} %), {inodes_percent} % of inodes free");
    if *percent < MIN_FREE_PERCENT || *inodes_percent < MIN_FREE_INODES_PERCENT {
        let mend = "free some space: pods are evicted below evictionHard, by default 10 % of space or 5 % of inodes, \
                    and writes fail once the file system is full";
        return Finding::warn(name, what, mend);
    }
    let options = [(StatVfsMountFlags::NOEXEC, "noexec"), (StatVfsMountFlags::NOSUID, "nosuid")];
    let options: Vec<&str> =
        options.into_iter().filter(|(flag, _)| space.flags.contains(*flag)).map(|(_, o)| o).collect();
    // Volumes are bind mounts of directories below the root directory, and inherit its options. Logs are only read.
    if name == "root-dir" && !options.is_empty() {
        let options = options.join(",");
        let what = format!("{at}: its file system is mounted {options}, and so are volumes in containers");
        return Finding::warn(
            name,
            what,
            format!("mount it without {options} if containers run programs from volumes"),
        );
    }
    Finding::ok(name, what)
}

fn static_pods(path: &Path, seen: Seen) -> Finding {
    let (name, at) = ("static-pods", path.display());
    if !path.is_absolute() {
        let what = format!("staticPodPath {at} is relative: it depends on the directory in which rubelet is started");
        return Finding::warn(name, what, "set staticPodPath to an absolute path");
    }
    match seen {
        Seen::Dir => Finding::ok(name, format!("{at}")),
        Seen::File => Finding::ok(name, format!("{at}: one file with one pod")),
        Seen::Absent => {
            let what = format!("staticPodPath {at} does not exist: there are no static pods until it does");
            Finding::warn(name, what, format!("`mkdir -p {at}`, or remove staticPodPath"))
        }
        Seen::Unreadable(why) => {
            let what = format!("staticPodPath {at} cannot be read: {why}");
            Finding::fail(
                name,
                what,
                format!("see the directories above {at}: each must be a directory that root may read"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::Grade;
    use super::super::tests::{lines, request};
    use super::*;

    #[test]
    fn the_disk_of_a_directory_yet_to_be_made_is_the_one_above() {
        let (_dir, request) = request();
        let found = dir("root-dir", "--root-dir", &request.root);
        assert_ne!(found.grade, Grade::Fail, "{found:?}");
        assert!(found.what.starts_with(request.root.to_str().unwrap()));
    }

    #[test]
    fn a_root_directory_that_is_a_file_or_no_plain_path_fails() {
        let (temp, _) = request();
        let file = temp.path().join("file");
        std::fs::write(&file, "").unwrap();
        let odd = ["relative", "/a//b", "/a/"].map(|path| dir("root-dir", "--root-dir", Path::new(path)));
        let found = [dir("root-dir", "--root-dir", &file), dir("root-dir", "--root-dir", &file.join("below"))];
        let text = lines(&[found.as_slice(), odd.as_slice()].concat());
        expect![[r#"
            Fail root-dir: TEMP/file is a file, and a directory is needed
              fix: move the file away, or set --root-dir to a directory
            Fail root-dir: TEMP/file is a file, and a directory is needed
              fix: move the file away, or set --root-dir to a directory
            Fail root-dir: relative: not a path in canonical form
              fix: set --root-dir to an absolute path without `.`, `..` and a slash at its end
            Fail root-dir: /a//b: not a path in canonical form
              fix: set --root-dir to an absolute path without `.`, `..` and a slash at its end
            Fail root-dir: /a/: not a path in canonical form
              fix: set --root-dir to an absolute path without `.`, `..` and a slash at its end
        "#]]
        .assert_eq(&text.replace(temp.path().to_str().unwrap(), "TEMP"));
    }

    #[test]
    fn a_file_system_is_judged_by_its_space_and_its_options() {
        let judge = |percent: u64, inodes_percent: u64, flags: StatVfsMountFlags| {
            let space = Space { gigabytes: 7, percent, inodes_percent, flags };
            file_system("root-dir", "--root-dir", Path::new("/r"), &space)
        };
        let none = StatVfsMountFlags::empty();
        expect![[r#"
            Ok root-dir: /r: 7 GiB free (10 %), 5 % of inodes free
            Warn root-dir: /r: 7 GiB free (9 %), 5 % of inodes free
              fix: free some space: pods are evicted below evictionHard, by default 10 % of space or 5 % of inodes, and writes fail once the file system is full
            Warn root-dir: /r: 7 GiB free (10 %), 4 % of inodes free
              fix: free some space: pods are evicted below evictionHard, by default 10 % of space or 5 % of inodes, and writes fail once the file system is full
            Fail root-dir: /r: its file system is mounted read-only
              fix: `mount -o remount,rw` its file system, or set --root-dir to a directory on another
            Warn root-dir: /r: its file system is mounted noexec,nosuid, and so are volumes in containers
              fix: mount it without noexec,nosuid if containers run programs from volumes
        "#]]
        .assert_eq(&lines(&[
            judge(10, 5, none),
            judge(9, 5, none),
            judge(10, 4, none),
            judge(50, 50, StatVfsMountFlags::RDONLY),
            judge(50, 50, StatVfsMountFlags::NOEXEC | StatVfsMountFlags::NOSUID),
        ]));
    }

    #[test]
    fn the_directory_of_static_pods_is_absolute_and_there() {
        let path = Path::new("/etc/m");
        expect![[r#"
            Ok static-pods: /etc/m
            Ok static-pods: /etc/m: one file with one pod
            Warn static-pods: staticPodPath /etc/m does not exist: there are no static pods until it does
              fix: `mkdir -p /etc/m`, or remove staticPodPath
            Fail static-pods: staticPodPath /etc/m cannot be read: not a directory
              fix: see the directories above /etc/m: each must be a directory that root may read
            Warn static-pods: staticPodPath manifests is relative: it depends on the directory in which rubelet is started
              fix: set staticPodPath to an absolute path
        "#]]
        .assert_eq(&lines(&[
            static_pods(path, Seen::Dir),
            static_pods(path, Seen::File),
            static_pods(path, Seen::Absent),
            static_pods(path, Seen::Unreadable(io::ErrorKind::NotADirectory)),
            static_pods(Path::new("manifests"), Seen::Dir),
        ]));
    }
}
