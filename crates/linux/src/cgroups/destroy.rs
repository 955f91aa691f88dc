//! Kills the processes left in a cgroup, and removes it (CG-13).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::backoff::Doubling;
use rubelet_core::qos::CgroupPath;
use rubelet_engine::blocking::CGROUPS;
use rubelet_engine::ports::{CgroupError, CgroupVersion};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Inner, dir_names, error, values};

/// Rounds of SIGKILL. A process may fork while we list its siblings, so one is not always enough.
/// upstream: pod_container_manager_linux.go tryKillingCgroupProcesses (v1.36)
const KILL_ROUNDS: usize = 5;

/// Processes killed at a time: each costs a descriptor.
const BATCH: usize = 256;

/// How long one batch may take to exit, in slices. A process in uninterruptible sleep is not waited for any longer.
const WAIT_SLICES: usize = 10;
const WAIT_SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Tries to remove a cgroup: the kernel needs a moment after its last process has exited. The pause doubles each time.
/// upstream: opencontainers/cgroups RemovePaths, as of v1.36
const REMOVE_TRIES: u32 = 6;
const PAUSES: Doubling = Doubling::new(Duration::from_millis(10), Duration::MAX);

/// Kills all processes below `rel_path` in every tree, then removes it. systemd forgets its unit first, or else it would
/// make the cgroup again.
pub(super) async fn destroy(inner: Arc<Inner>, at: &CgroupPath, rel_path: PathBuf) -> Result<(), CgroupError> {
    let path = format!("/{}", rel_path.display());
    let dirs: Vec<PathBuf> = inner.layout.trees().map(|tree| tree.root.join(&rel_path)).collect();
    let dirs = Arc::new(dirs);
    let kill_all = inner.layout.version() == CgroupVersion::V2;
    let killing = Arc::clone(&dirs);
    let left =
        CGROUPS.run(&path, move || kill(&killing, kill_all)).await.map_err(error("kill processes in", &*path))?;
    if left > 0 {
        return Err(CgroupError::Busy { path, left });
    }
    let there = Arc::clone(&dirs);
    if let Some(units) = &inner.units
        && CGROUPS.run(&path, move || there.iter().any(|dir| dir.is_dir())).await
    {
        units.stop(at).await?;
    }
    let mut result = Ok(());
    for attempt in 0..REMOVE_TRIES {
        if attempt > 0 {
            tokio::time::sleep(PAUSES.after(attempt)).await;
        }
        let dirs = Arc::clone(&dirs);
        // Continues after a failure, to remove as much as possible.
        result = CGROUPS.run(&path, move || dirs.iter().map(|dir| remove(dir)).fold(Ok(()), Result::and)).await;
        match &result {
            Err(CgroupError::Io { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy => {}
            _ => break,
        }
    }
    result
}

/// Returns the number of processes left.
fn kill(dirs: &[PathBuf], kill_all: bool) -> io::Result<usize> {
    for _ in 0..KILL_ROUNDS {
        let pids = all_pids(dirs)?;
        if pids.is_empty() {
            return Ok(0);
        }
        if kill_all {
            // One write kills the whole tree, forks included. Kernels before 5.14 do not have it.
            for dir in dirs.iter().filter(|dir| dir.join("cgroup.kill").exists()) {
                if let Err(err) = values::write(dir, "cgroup.kill", "1") {
                    tracing::debug!(err = %err, "cgroup.kill failed");
                }
            }
        }
        for batch in pids.into_iter().collect::<Vec<_>>().chunks(BATCH) {
            kill_batch(dirs, batch)?;
        }
    }
    Ok(all_pids(dirs)?.len())
}

/// A PID may be reused by the time it is signalled. So a pidfd is opened first, and the process behind it is killed
/// only if the PID is still listed afterwards.
fn kill_batch(dirs: &[PathBuf], batch: &[i32]) -> io::Result<()> {
    let held: Vec<(i32, OwnedFd)> = batch
        .iter()
        .filter_map(|pid| Some((*pid, pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok()?)))
        .collect();
    let still = all_pids(dirs)?;
    let mut dying = Vec::new();
    for (pid, process) in held.into_iter().filter(|(pid, _)| still.contains(pid)) {
        match pidfd_send_signal(&process, Signal::KILL) {
            Ok(()) => dying.push(process),
            Err(Errno::SRCH) => {}
            Err(err) => tracing::debug!(pid, err = %err, "Process cannot be killed"),
        }
    }
    for dir in dirs {
        thaw(dir);
    }
    for _ in 0..WAIT_SLICES {
        if dying.is_empty() {
            break;
        }
        let mut polled: Vec<_> = dying.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&WAIT_SLICE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        let ended: Vec<bool> = polled.iter().map(|one| one.revents().contains(PollFlags::IN)).collect();
        let mut ended = ended.into_iter();
        dying.retain(|_| !ended.next().unwrap_or_default());
    }
    Ok(())
}

/// A frozen process in a v1 cgroup does not die. v2 kills frozen processes.
fn thaw(dir: &Path) {
    for dir in below(dir).unwrap_or_default() {
        if dir.join("freezer.state").exists()
            && let Err(err) = values::write(&dir, "freezer.state", "THAWED")
        {
            tracing::debug!(err = %err, "Cgroup cannot be thawed");
        }
    }
}

/// Every process in these cgroups and their descendants, except this process.
fn all_pids(dirs: &[PathBuf]) -> io::Result<BTreeSet<i32>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut pids = BTreeSet::new();
    for dir in dirs {
        for dir in below(dir)? {
            // The cgroup is gone, or it is a threaded cgroup, whose processes its parent lists.
            let Ok(text) = std::fs::read_to_string(dir.join("cgroup.procs")) else { continue };
            pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()).filter(|pid| *pid != own));
        }
    }
    Ok(pids)
}

/// The directory and all directories below it, outermost first. Empty if it does not exist.
fn below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = vec![dir.to_path_buf()];
    let mut at = 0;
    while let Some(dir) = found.get(at).cloned() {
        found.extend(dir_names(&dir)?.into_iter().map(|name| dir.join(name)));
        at += 1;
    }
    Ok(found)
}

/// Removes innermost cgroups first. The kernel removes a cgroup's files with it.
fn remove(dir: &Path) -> Result<(), CgroupError> {
    let found = below(dir).map_err(error("list", dir.display().to_string()))?;
    for dir in found.iter().rev() {
        match rustix::fs::rmdir(dir) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(err) => return Err(error("remove", dir.display().to_string())(err.into())),
        }
    }
    Ok(())
}
