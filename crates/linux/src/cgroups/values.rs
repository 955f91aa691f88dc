//! The files in which a cgroup keeps its values (CG-05).

use std::io;
use std::path::Path;

use rubelet_core::qos::{CgroupValues, DEFAULT_PERIOD, shares_to_weight};
use rubelet_engine::ports::CgroupError;
use rustix::io::Errno;

use super::{Layout, error, missing};
use crate::beneath;

/// Writes what is set, each value into the tree of its controller.
pub(super) fn write_v1(layout: &Layout, spelt: &Path, values: &CgroupValues) -> Result<(), CgroupError> {
    let dir = |controller: &'static str| {
        layout.v1_tree(controller).map(|tree| tree.root.join(spelt)).ok_or_else(|| missing(controller))
    };
    if let Some(shares) = values.cpu_shares {
        write(&dir("cpu")?, "cpu.shares", &shares.to_string())?;
    }
    if given(values.cpu_quota).is_some() || values.cpu_period.is_some() {
        write_v1_quota(&dir("cpu")?, given(values.cpu_quota), values.cpu_period)?;
    }
    if let Some(limit) = given(values.memory_limit) {
        write(&dir("memory")?, "memory.limit_in_bytes", &limit.to_string())?;
    }
    if let Some(limit) = values.pids_limit {
        write(&dir("pids")?, "pids.max", &or_max(limit))?;
    }
    // A host without the controller has nothing to limit. upstream: cgroup_manager_linux.go maybeSetHugetlb (v1.36)
    if let Ok(dir) = dir("hugetlb") {
        write_hugepages(&dir, values, "limit_in_bytes")?;
    }
    Ok(())
}

/// The kernel checks quota against period, its own and the parent's, at each write. So the period goes first, and if
/// that is refused with the old quota, the new quota does.
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

/// Writes what is set into the one tree.
pub(super) fn write_v2(dir: &Path, values: &CgroupValues) -> Result<(), CgroupError> {
    if let Some(shares) = values.cpu_shares {
        write(dir, "cpu.weight", &shares_to_weight(shares).to_string())?;
    }
    if given(values.cpu_quota).is_some() || values.cpu_period.is_some() {
        write(dir, "cpu.max", &cpu_max(dir, given(values.cpu_quota), values.cpu_period))?;
    }
    if let Some(limit) = given(values.memory_limit) {
        write(dir, "memory.max", &or_max(limit))?;
    }
    if let Some(limit) = values.pids_limit {
        write(dir, "pids.max", &or_max(limit))?;
    }
    write_hugepages(dir, values, "max")?;
    for (file, value) in &values.unified {
        let file = beneath::name(file).map_err(error("write", file.clone()))?;
        write(dir, file, value)?;
    }
    Ok(())
}

/// `quota period`. The half that is not given stays as it is.
fn cpu_max(dir: &Path, quota: Option<i64>, period: Option<u64>) -> String {
    let now = std::fs::read_to_string(dir.join("cpu.max")).unwrap_or_default();
    let mut now = now.split_whitespace();
    let (old_quota, old_period) = (now.next().unwrap_or("max"), now.next());
    let quota = quota.map_or_else(|| old_quota.to_owned(), or_max);
    match period {
        Some(period) => format!("{quota} {period}"),
        None => format!("{quota} {}", old_period.map_or_else(|| DEFAULT_PERIOD.to_string(), str::to_owned)),
    }
}

/// The limit counts pages in use; where the kernel can, those reserved are counted as well.
fn write_hugepages(dir: &Path, values: &CgroupValues, file: &str) -> Result<(), CgroupError> {
    for (size, limit) in &values.hugepages {
        let size = beneath::name(size).map_err(error("write", size.clone()))?;
        for file in [format!("hugetlb.{size}.{file}"), format!("hugetlb.{size}.rsvd.{file}")] {
            match write(dir, &file, &limit.to_string()) {
                // The host has no such pages, or counts no reservations.
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
        // cgroupfs lets no one make files, and says so rather than that there is none.
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied && !path.exists() => Err(Errno::NOENT.into()),
        other => other,
    };
    result.map_err(error("write", path.display().to_string()))
}

/// No CPU time and no memory at all is nobody's wish: zero leaves a limit as it is.
/// upstream: opencontainers/cgroups writes no zero, as of v1.36
fn given(limit: Option<i64>) -> Option<i64> {
    limit.filter(|limit| *limit != 0)
}

/// The kernel's word for "no limit".
fn or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

fn is(err: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(err) == Some(errno)
}
