//! Sizes of file systems, and what directories take of them (STS-02).
//!
//! A directory is measured in turns. One that is not finished at the end of its turn keeps its place until the next
//! question for it, so that a million files delay neither the others nor the disk. Project quotas, which know the same at
//! once where a file system has them, would be another source of the answer in [`KernelDisks::usage`].

mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rubelet_core::time::Instant;
use rubelet_core::usage::FsStats;
use rubelet_engine::blocking::DISKS;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Disks, Unmeasured, Walked};

use self::walk::{Turn, Walk};

/// Directories that are measured in part. Of more, the one that nobody has asked for the longest begins again.
const MOST_UNFINISHED: usize = 16;

/// The disks of this machine.
#[derive(Clone, Debug)]
pub struct KernelDisks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// Taken out while its turn lasts, so that nobody waits for the lock.
    unfinished: Mutex<BTreeMap<PathBuf, (Instant, Walk)>>,
}

impl KernelDisks {
    /// Turns are measured by `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { inner: Arc::new(Inner { clock, unfinished: Mutex::default() }) }
    }
}

#[async_trait]
impl Disks for KernelDisks {
    async fn file_system(&self, path: &Path) -> Result<FsStats, Unmeasured> {
        let asked = path.to_path_buf();
        DISKS.run(&format!("fs {}", path.display()), move || file_system(&asked)).await
    }

    async fn usage(&self, dirs: &[PathBuf]) -> BTreeMap<PathBuf, Walked> {
        let Some(first) = dirs.first() else { return BTreeMap::new() };
        let (inner, dirs) = (Arc::clone(&self.inner), dirs.to_vec());
        let key = first.display().to_string();
        DISKS.run(&key, move || dirs.into_iter().filter_map(|dir| inner.turn(dir)).collect()).await
    }
}

impl Inner {
    fn turn(&self, dir: PathBuf) -> Option<(PathBuf, Walked)> {
        let begun = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).remove(&dir);
        let mut walk = match begun {
            Some((_, walk)) => walk,
            None => match Walk::begin(&dir).ok()? {
                Turn::Whole(used) => return Some((dir, Walked::Whole(used))),
                Turn::Unfinished(walk) => walk,
            },
        };
        match walk.turn(&self.clock) {
            Some(used) => Some((dir, Walked::Whole(used))),
            None => {
                self.keep(dir.clone(), walk);
                Some((dir, Walked::Unfinished))
            }
        }
    }

    fn keep(&self, dir: PathBuf, walk: Walk) {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.insert(dir, (self.clock.mono(), walk));
        if unfinished.len() > MOST_UNFINISHED {
            let oldest = unfinished.iter().min_by_key(|(_, (at, _))| *at).map(|(dir, _)| dir.clone());
            if let Some(oldest) = oldest {
                unfinished.remove(&oldest);
            }
        }
    }
}

/// upstream: cadvisor fs/fs.go getVfsStats, as of v1.36
fn file_system(path: &Path) -> Result<FsStats, Unmeasured> {
    let failed = |err: rustix::io::Errno| Unmeasured(format!("read the file system of {}: {err}", path.display()));
    let stat = rustix::fs::statvfs(path).map_err(failed)?;
    let device = rustix::fs::stat(path).map_err(failed)?.st_dev;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(FsStats {
        device,
        capacity: bytes(stat.f_blocks),
        available: bytes(stat.f_bavail),
        used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
    })
}

#[cfg(test)]
mod tests;
