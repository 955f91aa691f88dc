//! Open files and sockets of the processes of a cgroup: every process has to be visited.

use std::path::Path;

use rubelet_core::usage::{CgroupKind, OpenFiles, Usage};
use rubelet_engine::ports::Detail;
use rustix::fs::CWD;

use super::files::{Dir, Reader, open_dir};

/// Most processes of a cgroup whose files are counted.
const MOST_PROCESSES: usize = 1024;

/// Processes of a cgroup by which its network can be read: the first one may just have ended.
pub(super) const FIRST: usize = 3;

/// Most open files of a process that are looked at.
const MOST_FILES: u64 = 65_536;

/// Counts the processes of a cgroup without those below it, and with every detail their open files. Answers with some of them.
/// upstream: cadvisor container/libcontainer/handler.go processStatsFromProcs, as of v1.36
pub(super) fn count(
    dir: Dir<'_>,
    (kind, limit): (&CgroupKind, Option<u64>),
    reader: &mut Reader,
    detail: Detail,
    usage: &mut Usage,
) -> Vec<u32> {
    match (kind, detail) {
        (CgroupKind::Container { .. }, Detail::Usage | Detail::Everything)
        | (CgroupKind::System(_), Detail::Everything) => {}
        // Of the root it would be every process of the machine; the levels of pods have no processes of their own.
        _ => return Vec::new(),
    }
    let Some(mut processes) = processes(dir, reader) else { return Vec::new() };
    if let Some(tasks) = &mut usage.tasks {
        tasks.processes = u64::try_from(processes.len()).ok();
    }
    if detail == Detail::Everything {
        usage.files = Some(OpenFiles { limit, ..open_files(&processes, reader) });
    }
    processes.truncate(FIRST);
    processes
}

/// The soft limit of open files of the first process of a container.
pub(super) fn limit(dir: Dir<'_>, kind: &CgroupKind, reader: &mut Reader) -> Option<u64> {
    if !matches!(kind, CgroupKind::Container { .. } | CgroupKind::System(_)) {
        return None;
    }
    let first = *processes(dir, reader)?.first()?;
    reader.path(&Path::new("/proc").join(first.to_string()).join("limits")).and_then(soft_limit)
}

/// The processes of a cgroup.
pub(super) fn processes(dir: Dir<'_>, reader: &mut Reader) -> Option<Vec<u32>> {
    let text = reader.list(dir, "cgroup.procs")?;
    // A process of another PID namespace is shown as zero.
    Some(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect())
}

fn open_files(processes: &[u32], reader: &mut Reader) -> OpenFiles {
    let mut files = OpenFiles::default();
    for pid in processes.iter().take(MOST_PROCESSES) {
        let (descriptors, sockets) = of_process(*pid, reader).unwrap_or_default();
        files.descriptors += descriptors;
        files.sockets += sockets;
    }
    files
}

fn of_process(pid: u32, reader: &mut Reader) -> Option<(u64, u64)> {
    let dir = open_dir(CWD, &format!("/proc/{pid}/fd")).ok()?;
    let (mut descriptors, mut sockets) = (0, 0);
    let mut target = Vec::with_capacity(64);
    reader.entries(&dir, |entry| {
        descriptors += 1;
        target.clear();
        if let Ok(link) = rustix::fs::readlinkat(&dir, entry.file_name(), std::mem::take(&mut target)) {
            sockets += u64::from(link.as_bytes().starts_with(b"socket:"));
            target = link.into_bytes();
        }
        descriptors < MOST_FILES
    });
    Some((descriptors, sockets))
}

/// The soft limit of open files.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
