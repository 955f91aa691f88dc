//! Container logs on disk: the runtime writes them; this module names, links, reads and removes them.
//!
//! `<pods>/<namespace>_<name>_<uid>/<container>/<restart count>.log` (LOG-01), and for log shippers a link
//! `<containers>/<name>_<namespace>_<container>-<id>.log` to it (LOG-02).

mod format;
mod lines;
mod next;
mod read;
mod rotate;
mod tail;
mod watch;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::id::PodRef;
use rubelet_engine::blocking::{LOGS, SURVEYS};
use rubelet_engine::ports::{FileError, LogCleaner, PodLogs};
use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;

pub use self::format::{LogLine, Stream, parse_line};
use self::watch::Watches;
use crate::beneath::{self, failed};
use crate::pod_dirs::{entries, none_if_gone};
use crate::tree::{self, Remove};

/// Mode of a pod's and a container's log directory: log shippers do not run as root.
const PUBLIC_DIR: u32 = 0o755;

/// Longest name that ext4 takes. upstream: kuberuntime/legacy.go ext4MaxFileNameLen (v1.36)
const MAX_NAME: usize = 255;

const SUFFIX: &str = ".log";

/// Where logs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDirs {
    /// `podLogsDir`, by default `/var/log/pods`.
    pub pods: PathBuf,
    /// `/var/log/containers`.
    pub containers: PathBuf,
}

/// Logs in these directories.
#[derive(Clone, Debug)]
pub struct DiskLogs {
    dirs: Arc<LogDirs>,
    watches: Arc<Watches>,
}

impl DiskLogs {
    /// Logs in `dirs`. The pod log directory must exist; the directory of links is made when it is needed.
    pub fn new(dirs: LogDirs) -> Self {
        Self { dirs: Arc::new(dirs), watches: Arc::default() }
    }

    /// The pod's log directory, whether it exists or not.
    fn dir(&self, pod: &PodRef) -> PathBuf {
        self.dirs.pods.join(pod_dir_name(pod))
    }
}

#[async_trait]
impl PodLogs for DiskLogs {
    async fn make_dir(&self, pod: &PodRef) -> Result<(), FileError> {
        let (dirs, uid, pod, path) = (Arc::clone(&self.dirs), pod.uid.clone(), pod.clone(), self.dir(pod));
        LOGS.run(uid.as_str(), move || {
            let made = beneath::open_root(&dirs.pods)
                .and_then(|root| beneath::ensure_dir_keeping_mode(root, &pod_dir_name(&pod), PUBLIC_DIR));
            made.map(drop).map_err(failed("make log directory", path))
        })
        .await
    }

    async fn make(&self, pod: &PodRef, container: &str) -> Result<Option<u32>, FileError> {
        let path = self.dir(pod).join(container);
        let (dirs, uid, pod, container) = (Arc::clone(&self.dirs), pod.uid.clone(), pod.clone(), container.to_owned());
        LOGS.run(uid.as_str(), move || {
            let make = || {
                let root = beneath::open_root(&dirs.pods)?;
                let pod = beneath::ensure_dir_keeping_mode(root, &pod_dir_name(&pod), PUBLIC_DIR)?;
                greatest_restart_count(beneath::ensure_dir_keeping_mode(pod, &container, PUBLIC_DIR)?)
            };
            make().map_err(failed("make log directory", path))
        })
        .await
    }

    async fn link(&self, pod: &PodRef, container: &str, id: &str, restart_count: u32) -> Result<(), FileError> {
        let log = self.dir(pod).join(container).join(format!("{restart_count}{SUFFIX}"));
        let (dirs, name) = (Arc::clone(&self.dirs), link_name(pod, container, id));
        LOGS.run(pod.uid.as_str(), move || {
            let path = dirs.containers.join(&name);
            // No link if the runtime has written no log yet, or writes it elsewhere (RT-49).
            if !is_there(&dirs.pods, &log).unwrap_or(false) {
                return Ok(());
            }
            replace_link(&dirs.containers, &name, &log).map_err(failed("link", path))
        })
        .await
    }

    async fn tail(&self, log: &str, lines: usize, bytes: usize) -> Result<Vec<u8>, FileError> {
        let (dirs, key, log) = (Arc::clone(&self.dirs), pod_of_log(&self.dirs, Path::new(log)), log.to_owned());
        LOGS.run(&key, move || {
            let inside = Path::new(&log).strip_prefix(&dirs.pods).ok().and_then(Path::to_str);
            let read = match inside {
                Some(inside) => beneath::open_root(&dirs.pods)
                    .and_then(|root| beneath::open_file(root, inside, OFlags::RDONLY))
                    .and_then(|mut file| tail::tail(&mut file, lines, bytes)),
                None => Err(io::Error::new(io::ErrorKind::InvalidInput, "not in the directory of pod logs")),
            };
            read.map_err(failed("read the end of", log))
        })
        .await
    }
}

#[async_trait]
impl LogCleaner for DiskLogs {
    async fn list(&self) -> Result<Vec<PodRef>, FileError> {
        let dirs = Arc::clone(&self.dirs);
        SURVEYS
            .run("pod log directories", move || {
                let root = beneath::open_root(&dirs.pods).map_err(failed("open", &dirs.pods))?;
                let listed = entries(root).map_err(failed("list", &dirs.pods))?;
                Ok(listed.into_iter().filter_map(|(name, _)| pod_of_dir(&name)).collect())
            })
            .await
    }

    async fn remove(&self, pod: &PodRef) -> Result<(), FileError> {
        let (dirs, name) = (Arc::clone(&self.dirs), pod_dir_name(pod));
        LOGS.run(pod.uid.as_str(), move || {
            let root = &dirs.pods;
            let dir = beneath::open_root(root).map_err(failed("open", root))?;
            tree::remove(&dir, &name, Remove::Everything)
                .map_err(|err| failed("remove", root.join(err.path))(err.source))
        })
        .await
    }

    async fn remove_container(
        &self,
        pod: &PodRef,
        container: &str,
        id: &str,
        restart_count: u32,
    ) -> Result<(), FileError> {
        let path = self.dir(pod).join(container);
        let (dirs, uid, pod, container) = (Arc::clone(&self.dirs), pod.uid.clone(), pod.clone(), container.to_owned());
        let name = link_name(&pod, &container, id);
        LOGS.run(uid.as_str(), move || {
            let removed =
                remove_logs(&dirs.pods, &pod, &container, restart_count).map_err(failed("remove logs in", path));
            let link = dirs.containers.join(&name);
            let unlinked = remove_link(&dirs.containers, &name).map_err(failed("remove link", link));
            removed.and(unlinked)
        })
        .await
    }

    async fn prune_links(&self) -> Result<(), FileError> {
        let dirs = Arc::clone(&self.dirs);
        let prune = move || remove_dangling(&dirs).map_err(failed("remove links in", &dirs.containers));
        SURVEYS.run("links to logs", prune).await
    }
}

/// upstream: kuberuntime/helpers.go BuildPodLogsDirectory (v1.36)
fn pod_dir_name(pod: &PodRef) -> String {
    format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// The UID of a log's pod, so that calls for the log count against the pod's share of threads.
fn pod_of_log(dirs: &LogDirs, log: &Path) -> String {
    let dir = log.strip_prefix(&dirs.pods).ok().and_then(|inside| inside.iter().next()).and_then(|dir| dir.to_str());
    dir.and_then(pod_of_dir).map(|pod| pod.uid.to_string()).unwrap_or_default()
}

/// The pod that a log directory belongs to; `None` if the name has another form. None of the parts can contain `_`.
/// upstream: kuberuntime/helpers.go parsePodUIDFromLogsDirectory (v1.36)
fn pod_of_dir(name: &str) -> Option<PodRef> {
    let mut parts = name.split('_');
    let pod = PodRef { namespace: parts.next()?.into(), name: parts.next()?.into(), uid: parts.next()?.into() };
    parts.next().is_none().then_some(pod)
}

/// The end of the id is cut off if the name is too long. upstream: kuberuntime/legacy.go logSymlink (v1.36)
fn link_name(pod: &PodRef, container: &str, id: &str) -> String {
    let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    name.truncate(name.floor_char_boundary(MAX_NAME - SUFFIX.len()));
    name + SUFFIX
}

/// The greatest `N` of `N.log` and its rotated files.
/// upstream: kuberuntime_container.go calcRestartCountByLogDir (v1.36)
fn greatest_restart_count(dir: OwnedFd) -> io::Result<Option<u32>> {
    let count = |(name, kind): (String, FileType)| {
        let (digits, _) = name.split_once(SUFFIX)?;
        let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (kind != FileType::Directory && all_digits).then(|| digits.parse().ok()).flatten()
    };
    Ok(entries(dir)?.into_iter().filter_map(count).max())
}

fn replace_link(dir: &Path, name: &str, target: &Path) -> io::Result<()> {
    let name = beneath::name(name)?;
    let dir = match beneath::open_root(dir) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(dir)?;
            let opened = beneath::open_root(dir)?;
            beneath::set_mode(&opened, rustix::fs::Mode::from_raw_mode(PUBLIC_DIR))?;
            opened
        }
        other => other?,
    };
    match rustix::fs::symlinkat(target, &dir, name) {
        Err(Errno::EXIST) => {
            let old = rustix::fs::readlinkat(&dir, name, Vec::new());
            if old.is_ok_and(|old| old.as_bytes() == target.as_os_str().as_encoded_bytes()) {
                return Ok(());
            }
            rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
            Ok(rustix::fs::symlinkat(target, &dir, name)?)
        }
        other => Ok(other?),
    }
}

fn remove_link(dir: &Path, name: &str) -> io::Result<()> {
    let Some(dir) = none_if_gone(beneath::open_root(dir))? else { return Ok(()) };
    match rustix::fs::unlinkat(dir, beneath::name(name)?, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

/// The instance's log and its rotated files. upstream: logs/container_log_manager.go Clean (v1.36)
fn remove_logs(root: &Path, pod: &PodRef, container: &str, restart_count: u32) -> io::Result<()> {
    let pod = pod_dir_name(pod);
    let inside = format!("{}/{}", beneath::name(&pod)?, beneath::name(container)?);
    let Some(dir) = none_if_gone(beneath::open_root(root).and_then(|root| beneath::open_dir(root, &inside)))? else {
        return Ok(());
    };
    let log = format!("{restart_count}{SUFFIX}");
    for (name, kind) in entries(dir.try_clone()?)? {
        if name.starts_with(&log) && kind != FileType::Directory {
            match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(err) => return Err(err.into()),
            }
        }
    }
    Ok(())
}

/// Whether a log exists; `None` if it is not in the pod log directory. No link is followed and no mount entered, so
/// that the answer never depends on a file server.
fn is_there(pods: &Path, log: &Path) -> Option<bool> {
    let inside = log.strip_prefix(pods).ok()?;
    let root = beneath::open_root(pods).ok()?;
    Some(beneath::is_there(root, inside))
}

/// Removes links whose log is gone. A link that leads out of the pod log directory is not ours and stays: following it
/// could block for ever.
///
/// During a rotation the log is missing for a moment: it has been renamed and the runtime has not created the next one.
/// So a link stays while a rotated file of the same instance exists; upstream asks the runtime instead.
/// upstream: kuberuntime_gc.go evictPodLogsDirectories (v1.36)
fn remove_dangling(dirs: &LogDirs) -> io::Result<()> {
    let dir = &*dirs.containers;
    let Some(fd) = none_if_gone(beneath::open_root(dir))? else { return Ok(()) };
    let mut result = Ok(());
    for (name, kind) in entries(fd.try_clone()?)? {
        if kind != FileType::Symlink || !name.ends_with(SUFFIX) {
            continue;
        }
        let Ok(target) = rustix::fs::readlinkat(&fd, &*name, Vec::new()) else { continue };
        let log = Path::new(OsStr::from_bytes(target.as_bytes()));
        if is_there(&dirs.pods, log) == Some(false) && !is_being_rotated(&dirs.pods, log) {
            result = result.and(remove_link(dir, &name));
        }
    }
    result
}

fn is_being_rotated(pods: &Path, log: &Path) -> bool {
    let inside = log.strip_prefix(pods).ok().and_then(Path::parent).and_then(Path::to_str);
    let (Some(inside), Some(name)) = (inside, log.file_name().and_then(|name| name.to_str())) else { return false };
    let rotated = format!("{name}.");
    let dir = beneath::open_root(pods).and_then(|root| Ok(beneath::open_dir_same_mount(root, inside)?));
    dir.and_then(entries).is_ok_and(|entries| entries.iter().any(|(name, _)| name.starts_with(&rotated)))
}

#[cfg(test)]
mod tests;
