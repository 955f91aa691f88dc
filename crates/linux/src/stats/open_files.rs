//! Open files and sockets of the processes of a cgroup: every process has to be visited.

use std::path::Path;

use rubelet_core::usage::{CgroupKind, OpenFiles, Usage};
use rubelet_engine::ports::Detail;
use rustix::fs::{CWD, Dir as Entries, Mode, OFlags};

use super::files::{Dir, Reader};

/// Most processes of a cgroup whose files are counted.
const MOST_PROCESSES: usize = 1024;

/// Most open files of a process that are looked at.
const MOST_FILES: u64 = 65_536;

/// Counts the processes of a cgroup without those below it, and with every detail their open files.
/// upstream: cadvisor container/libcontainer/handler.go processStatsFromProcs, as of v1.36
pub(super) fn count(dir: Dir<'_>, kind: &CgroupKind, reader: &mut Reader, detail: Detail, usage: &mut Usage) {
    match (kind, detail) {
        (CgroupKind::Container { .. }, _) | (CgroupKind::System(_), Detail::Everything) => {}
        // Of the root it would be every process of the machine; the levels of pods have no processes of their own.
        _ => return,
    }
    let Some(processes) = processes(dir, reader) else { return };
    if let Some(tasks) = &mut usage.tasks {
        tasks.processes = u64::try_from(processes.len()).ok();
    }
    if detail == Detail::Everything {
        usage.files = Some(open_files(&processes, reader));
    }
}

/// The processes of a cgroup.
pub(super) fn processes(dir: Dir<'_>, reader: &mut Reader) -> Option<Vec<u32>> {
    let text = reader.list(dir, "cgroup.procs")?;
    // A process of another PID namespace is shown as zero.
    Some(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect())
}

fn open_files(processes: &[u32], reader: &mut Reader) -> OpenFiles {
    let mut files = OpenFiles::default();
    for (at, pid) in processes.iter().take(MOST_PROCESSES).enumerate() {
        let process = Path::new("/proc").join(pid.to_string());
        let (descriptors, sockets) = of_process(&process).unwrap_or_default();
        files.descriptors += descriptors;
        files.sockets += sockets;
        if at == 0 {
            files.limit = reader.path(&process.join("limits")).and_then(soft_limit);
        }
    }
    files
}

fn of_process(process: &Path) -> Option<(u64, u64)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, process.join("fd"), flags, Mode::empty()).ok()?;
    let (mut descriptors, mut sockets) = (0, 0);
    let mut target = Vec::with_capacity(64);
    for entry in Entries::read_from(&dir).ok()?.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        descriptors += 1;
        if descriptors > MOST_FILES {
            break;
        }
        target.clear();
        if let Ok(link) = rustix::fs::readlinkat(&dir, name, std::mem::take(&mut target)) {
            sockets += u64::from(link.as_bytes().starts_with(b"socket:"));
            target = link.into_bytes();
        }
    }
    Some((descriptors, sockets))
}

/// The soft limit of open files.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
