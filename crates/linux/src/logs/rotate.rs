//! The files of a log, for its rotation (LOG-04): sizes, renames, removal, compression.
//!
//! Every step opens the container's log directory beneath the pod log directory and works on names in it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use rubelet_core::log_rotation::{COMPRESSED, TEMPORARY};
use rubelet_engine::blocking::{LOGS, SURVEYS};
use rubelet_engine::ports::{FileError, LogFiles, LogId, LogSize};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Timestamps};
use rustix::io::Errno;

use super::{DiskLogs, LogDirs, pod_dir_name};
use crate::beneath::{self, failed};
use crate::pod_dirs::{entries, none_if_gone};

/// How much is compressed between two looks at whether the log was removed meanwhile.
const STRETCH: usize = 1024 * 1024;
/// The least share of the CPU: compression must not slow down containers. The kernel derives the share of the disk from it.
const LOWEST_PRIORITY: i32 = 19;

impl DiskLogs {
    /// Runs `work` in the directory of the log.
    async fn in_dir<T: Send + 'static>(
        &self,
        action: &'static str,
        log: &LogId,
        work: impl FnOnce(io::Result<OwnedFd>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        let path = self.dir(&log.pod).join(&log.container);
        let (dirs, wanted) = (std::sync::Arc::clone(&self.dirs), log.clone());
        let done = LOGS.run(log.pod.uid.as_str(), move || work(open_dir(&dirs, &wanted))).await;
        done.map_err(failed(action, path))
    }
}

#[async_trait]
impl LogFiles for DiskLogs {
    async fn sizes(&self, logs: Vec<LogId>) -> Vec<LogSize> {
        let dirs = std::sync::Arc::clone(&self.dirs);
        let look = move || logs.iter().map(|log| size(&dirs, log)).collect();
        SURVEYS.run("sizes of logs", look).await
    }

    async fn list(&self, log: &LogId) -> Result<Vec<String>, FileError> {
        self.in_dir("list logs in", log, |dir| {
            let Some(dir) = none_if_gone(dir)? else { return Ok(Vec::new()) };
            let files = entries(dir)?.into_iter().filter(|(_, kind)| *kind == FileType::RegularFile);
            Ok(files.map(|(name, _)| name).collect())
        })
        .await
    }

    async fn rename(&self, log: &LogId, from: &str, to: &str) -> Result<(), FileError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.in_dir("rename a log in", log, move |dir| rename(&dir?, &from, &to)).await
    }

    async fn remove(&self, log: &LogId, names: &[String]) -> Result<(), FileError> {
        let names = names.to_vec();
        self.in_dir("remove logs in", log, move |dir| {
            let Some(dir) = none_if_gone(dir)? else { return Ok(()) };
            names.iter().try_for_each(|name| unlink(&dir, name))
        })
        .await
    }

    async fn compress(&self, log: &LogId, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        let dir = self.in_dir("open", log, none_if_gone).await?;
        let Some(dir) = dir else { return Ok(()) };
        let done = at_low_priority(move || compress(&dir, &name)).await;
        done.map_err(failed("compress a log in", self.dir(&log.pod).join(&log.container)))
    }
}

fn open_dir(dirs: &LogDirs, log: &LogId) -> io::Result<OwnedFd> {
    let pod = pod_dir_name(&log.pod);
    let inside = format!("{}/{}", beneath::name(&pod)?, beneath::name(&log.container)?);
    beneath::open_dir(beneath::open_root(&dirs.pods)?, &inside)
}

fn size(dirs: &LogDirs, log: &LogId) -> LogSize {
    let look = open_dir(dirs, log).and_then(|dir| {
        let stat = rustix::fs::statat(dir, log.file(), AtFlags::SYMLINK_NOFOLLOW)?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(if regular { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 })
    });
    match look {
        Ok(size) => LogSize::Bytes(size),
        Err(err) if err.kind() == io::ErrorKind::NotFound => LogSize::Missing,
        Err(err) => LogSize::Unknown(failed("look at log", dirs.pods.join(pod_dir_name(&log.pod)))(err)),
    }
}

fn rename(dir: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (beneath::name(from)?, beneath::name(to)?);
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // A file system that cannot exclude the replacement; nobody else makes files with such names.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => Ok(rustix::fs::renameat(dir, from, dir, to)?),
        },
        renamed => Ok(renamed?),
    }
}

fn unlink(dir: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, beneath::name(name)?, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

/// Runs `work` on a thread of its own, which ends with it: a thread of a pool would keep the low priority. The caller bounds
/// how many there are.
async fn at_low_priority<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (send, done) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("log-compress".to_owned()).spawn(move || {
        // On Linux this is the priority of the calling thread. Without it the work is done all the same.
        let _refused = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        let _gone = send.send(work());
    })?;
    done.await.unwrap_or_else(|_| Err(io::Error::other("the compression panicked")))
}

/// Compresses to a temporary file, which then gets its name; only then the log is removed. The compressed file has the mode
/// and the time of last modification of the log: followers go by it.
pub(super) fn compress(dir: &OwnedFd, name: &str) -> io::Result<()> {
    let Some(mut log) = none_if_gone(beneath::open_file(dir, beneath::name(name)?, OFlags::RDONLY))? else {
        return Ok(());
    };
    let temporary = format!("{name}{TEMPORARY}");
    let compressed = compress_to(dir, &mut log, &temporary);
    match compressed {
        Ok(true) => {
            let target = format!("{name}{COMPRESSED}");
            // A rotation may have taken the temporary file for a leftover; it has the log compressed again.
            match rustix::fs::renameat(dir, &*temporary, dir, beneath::name(&target)?) {
                Ok(()) => unlink(dir, name),
                Err(Errno::NOENT) => Ok(()),
                Err(err) => Err(err.into()),
            }
        }
        Ok(false) => unlink(dir, &temporary),
        Err(err) => {
            let _gone = unlink(dir, &temporary);
            Err(err)
        }
    }
}

/// Returns whether the log was compressed whole: it was not, if it was removed meanwhile.
fn compress_to(dir: &OwnedFd, log: &mut File, temporary: &str) -> io::Result<bool> {
    let stat = rustix::fs::fstat(&*log)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let out = beneath::open_file(dir, beneath::name(temporary)?, flags)?;
    beneath::set_mode(&out, Mode::from_raw_mode(stat.st_mode))?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    let mut buffer = vec![0; STRETCH];
    loop {
        if rustix::fs::fstat(&*log)?.st_nlink == 0 {
            return Ok(false);
        }
        let size = match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => size,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        encoder.write_all(buffer.get(..size).unwrap_or_default())?;
    }
    let out = encoder.finish()?;
    let written = modified(&stat);
    rustix::fs::futimens(&out, &Timestamps { last_access: written, last_modification: written })?;
    Ok(rustix::fs::fstat(&*log)?.st_nlink > 0)
}

/// When the file was last written.
pub(super) fn modified(stat: &rustix::fs::Stat) -> rustix::fs::Timespec {
    rustix::fs::Timespec { tv_sec: stat.st_mtime, tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or_default() }
}

#[cfg(test)]
mod tests;
