//! The files that hold a cgroup's values (CG-05).

use std::io;
use std::path::Path;

use rubelet_core::qos::{CgroupValues, DEFAULT_PERIOD, shares_to_weight};
use rubelet_engine::ports::CgroupError;
use rustix::io::Errno;

use super::{Layout, error, missing};
use crate::beneath;

/// Writes the values that are set, each into the tree of its controller.
pub(super) fn write_v1(layout: &Layout, rel_path: &Path, values: &CgroupValues) -> Result<(), CgroupError> {
    let dir = |controller: &'static str| {
        layout.v1_tree(controller).map(|tree| tree.root.join(rel_path)).ok_or_else(|| missing(controller))
    };
    if let Some(shares) = values.cpu_shares {
        write(&dir("cpu")?, "cpu.shares", &shares.to_string())?;
    }
    if nonzero(values.cpu_quota).is_some() || values.cpu_period.is_some() {
        write_v1_quota(&dir("cpu")?, nonzero(values.cpu_quota), values.cpu_period)?;
    }
    if let Some(limit) = nonzero(values.memory_limit) {
        write(&dir("memory")?, "memory.limit_in_bytes", &limit.to_string())?;
    }
    if let Some(limit) = values.pids_limit {
        write(&dir("pids")?, "pids.max", &pids_max(limit))?;
    }
    // A host without the controller has no huge pages to limit. upstream: cgroup_manager_linux.go maybeSetHugetlb
    // (v1.36)
    if let Ok(dir) = dir("hugetlb") {
        write_hugepages(&dir, values, "limit_in_bytes")?;
    }
    Ok(())
}

/// The kernel checks the quota against the period, the cgroup's own and the parent's, at each write. So the period is
/// written first; if the old quota makes the kernel refuse it, the quota is written first.
fn write_v1_quota(dir: &Path, quota: Option<i64>, period: Option<u64>) -> Result<(), CgroupError> {
    let write_quota = || quota.map_or(Ok(()), |quota| write(dir, "cpu.cfs_quota_us", &quota.to_string()));
    let write_period = || period.map_or(Ok(()), |period| write(dir, "cpu.cfs_period_us", &period.to_string()));
    match write_period() {
        Ok(()) => write_quota(),
        Err(CgroupError::Io { source, .. }) if is(&source, Errno::INVAL) && quota.is_some() => {
            write_quota()?;
            write_period()
        }
        Err(err) => Err(err),
    }
}

/// Writes the values that are set into the v2 tree.
pub(super) fn write_v2(dir: &Path, values: &CgroupValues) -> Result<(), CgroupError> {
    if let Some(shares) = values.cpu_shares {
        write(dir, "cpu.weight", &shares_to_weight(shares).to_string())?;
    }
    if nonzero(values.cpu_quota).is_some() || values.cpu_period.is_some() {
        write(dir, "cpu.max", &cpu_max(dir, nonzero(values.cpu_quota), values.cpu_period))?;
    }
    if let Some(limit) = nonzero(values.memory_limit) {
        write(dir, "memory.max", &or_max(limit))?;
    }
    if let Some(limit) = values.pids_limit {
        write(dir, "pids.max", &pids_max(limit))?;
    }
    write_hugepages(dir, values, "max")?;
    for (file, value) in &values.unified {
        let file = beneath::name(file).map_err(error("write", file.clone()))?;
        write(dir, file, value)?;
    }
    Ok(())
}

/// `quota period`. The part that is not set keeps its value.
pub(super) fn cpu_max(dir: &Path, quota: Option<i64>, period: Option<u64>) -> String {
    let now = std::fs::read_to_string(dir.join("cpu.max")).unwrap_or_default();
    let mut now = now.split_whitespace();
    let (old_quota, old_period) = (now.next().unwrap_or("max"), now.next());
    let quota = quota.map_or_else(|| old_quota.to_owned(), or_max);
    match period {
        Some(period) => format!("{quota} {period}"),
        None => format!("{quota} {}", old_period.map_or_else(|| DEFAULT_PERIOD.to_string(), str::to_owned)),
    }
}

/// The limit counts pages in use; if the kernel supports it, reserved pages are limited as well.
fn write_hugepages(dir: &Path, values: &CgroupValues, file: &str) -> Result<(), CgroupError> {
    for (size, limit) in &values.hugepages {
        let size = beneath::name(size).map_err(error("write", size.clone()))?;
        for file in [format!("hugetlb.{size}.{file}"), format!("hugetlb.{size}.rsvd.{file}")] {
            match write(dir, &file, &limit.to_string()) {
                // The host has no pages of this size, or does not count reservations.
                Err(CgroupError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// Writes one file of a cgroup.
pub(super) fn write(dir: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = dir.join(file);
    let result = match std::fs::write(&path, value) {
        // cgroupfs refuses to create a file, so writing a missing one fails with EACCES, not ENOENT.
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied && !path.exists() => Err(Errno::NOENT.into()),
        other => other,
    };
    result.map_err(error("write", path.display().to_string()))
}

/// A zero is never written: no CPU time or no memory at all is not a useful limit.
/// upstream: opencontainers/cgroups writes no zero, as of v1.36
pub(super) fn nonzero(limit: Option<i64>) -> Option<i64> {
    limit.filter(|limit| *limit != 0)
}

/// systemd accepts no limit of zero, so that one process is allowed under either driver.
/// upstream: opencontainers/cgroups fs/pids.go Set, as of v1.36
pub(super) fn pids_max(limit: i64) -> String {
    or_max(if limit == 0 { 1 } else { limit })
}

/// The kernel's spelling of "no limit".
fn or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

fn is(err: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(err) == Some(errno)
}
