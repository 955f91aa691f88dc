//! Pod directories and logs in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::log_rotation::log_name;
use rubelet_engine::ports::{
    EnvFileRequest, EnvFiles, FileError, HostFiles, LogCleaner, LogFiles, LogId, LogSize, PodDirs, PodLogs,
    SubpathRequest, Subpaths,
};

/// Pod directories in memory. Clones share them.
#[derive(Clone, Default)]
pub struct FakePodDirs(Arc<Mutex<Dirs>>);

#[derive(Default)]
struct Dirs {
    pods: BTreeMap<PodUid, BTreeMap<PathBuf, Vec<u8>>>,
    blocked: BTreeSet<PodUid>,
    full: bool,
    hung: bool,
}

impl FakePodDirs {
    /// The root of all pod directories.
    pub const ROOT: &str = "/var/lib/kubelet/pods";

    /// Makes `remove` of this pod fail, as when a volume is still mounted below it, or succeed again.
    pub fn set_blocked(&self, uid: &PodUid, blocked: bool) {
        let mut dirs = self.dirs();
        if blocked {
            dirs.blocked.insert(uid.clone())
        } else {
            dirs.blocked.remove(uid)
        };
    }

    /// Makes every further write fail for want of space, or succeed again.
    pub fn set_full(&self, full: bool) {
        self.dirs().full = full;
    }

    /// Makes `list` hang, as on a file system whose server does not answer, or return again. A call that hangs stays
    /// so.
    pub fn set_list_hung(&self, hung: bool) {
        self.dirs().hung = hung;
    }

    /// Writes a file as a container would, such as a termination message.
    pub fn write(&self, uid: &PodUid, path: impl Into<PathBuf>, content: &[u8]) {
        self.dirs().pods.entry(uid.clone()).or_default().insert(path.into(), content.to_vec());
    }

    /// The content of a file in a pod's directory.
    pub fn read(&self, uid: &PodUid, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.dirs().pods.get(uid)?.get(path.as_ref()).cloned()
    }

    /// Pods that have a directory.
    pub fn uids(&self) -> Vec<PodUid> {
        self.dirs().pods.keys().cloned().collect()
    }

    fn dirs(&self) -> MutexGuard<'_, Dirs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, uid: &PodUid, path: PathBuf, content: &[u8]) -> Result<PathBuf, FileError> {
        let mut dirs = self.dirs();
        if dirs.full {
            return Err(FileError { action: "write", path, source: ErrorKind::StorageFull.into() });
        }
        let Some(files) = dirs.pods.get_mut(uid) else {
            return Err(FileError { action: "write", path, source: ErrorKind::NotFound.into() });
        };
        files.insert(path.clone(), content.to_vec());
        Ok(path)
    }
}

fn pod_dir(uid: &PodUid) -> PathBuf {
    Path::new(FakePodDirs::ROOT).join(uid.as_str())
}

#[async_trait]
impl EnvFiles for FakePodDirs {
    async fn read(&self, file: &EnvFileRequest, limit: usize) -> Result<Vec<u8>, FileError> {
        let path = file.volume_path.join(&file.path);
        let kind = match FakePodDirs::read(self, &file.uid, &path) {
            Some(content) if content.len() <= limit => return Ok(content),
            Some(_) => ErrorKind::FileTooLarge,
            None => ErrorKind::NotFound,
        };
        Err(FileError { action: "read", path, source: kind.into() })
    }
}

#[async_trait]
impl PodDirs for FakePodDirs {
    async fn make(&self, uid: &PodUid) -> Result<PathBuf, FileError> {
        let path = pod_dir(uid);
        let mut dirs = self.dirs();
        if dirs.full {
            return Err(FileError { action: "make directory", path, source: ErrorKind::StorageFull.into() });
        }
        dirs.pods.entry(uid.clone()).or_default();
        Ok(path)
    }

    async fn write_hosts(&self, uid: &PodUid, content: &str) -> Result<PathBuf, FileError> {
        self.put(uid, pod_dir(uid).join("etc-hosts"), content.as_bytes())
    }

    async fn make_termination_file(&self, uid: &PodUid, container: &str, name: &str) -> Result<PathBuf, FileError> {
        self.put(uid, pod_dir(uid).join("containers").join(container).join(name), b"")
    }

    async fn read_termination_file(&self, uid: &PodUid, path: &str, limit: usize) -> Result<Vec<u8>, FileError> {
        let mut content = self.read(uid, path).unwrap_or_default();
        content.truncate(limit);
        Ok(content)
    }

    async fn list(&self) -> Result<Vec<PodUid>, FileError> {
        let hung = self.dirs().hung;
        if hung {
            std::future::pending::<()>().await;
        }
        Ok(self.dirs().pods.keys().cloned().collect())
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let mut dirs = self.dirs();
        if dirs.blocked.contains(uid) {
            let source = Error::new(ErrorKind::ResourceBusy, "a volume is still mounted");
            return Err(FileError { action: "remove directory", path: pod_dir(uid), source });
        }
        dirs.pods.remove(uid);
        Ok(())
    }
}

/// Container logs in memory. Clones share them.
#[derive(Clone, Default)]
pub struct FakePodLogs(Arc<Mutex<BTreeMap<PodRef, PodLog>>>);

/// Logs of one pod: the numbers of each container's `N.log` files, and the links to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PodLog {
    containers: BTreeMap<String, BTreeSet<u32>>,
    links: BTreeSet<String>,
    tails: BTreeMap<String, Vec<u8>>,
    /// By container: the sizes of its files.
    files: BTreeMap<String, BTreeMap<String, u64>>,
}

impl FakePodLogs {
    /// Adds a log, as left by an earlier run.
    pub fn add(&self, pod: &PodRef, container: &str, number: u32) {
        self.logs().entry(pod.clone()).or_default().containers.entry(container.into()).or_default().insert(number);
    }

    /// Sets the result of `tail` for the log at `path`.
    pub fn set_tail(&self, pod: &PodRef, path: &str, content: &[u8]) {
        self.logs().entry(pod.clone()).or_default().tails.insert(path.into(), content.to_vec());
    }

    /// A container writes: to its live log, or to the one that was last renamed while the runtime has opened no other.
    pub fn write(&self, pod: &str, container: &str, bytes: u64) {
        let mut logs = self.logs();
        let log = logs.iter_mut().find(|(named, _)| &*named.name == pod).map(|(_, log)| log);
        let Some(files) = log.and_then(|log| log.files.get_mut(container)) else { return };
        let live = files.keys().rfind(|name| name.ends_with(".log")).cloned();
        let written = live.or_else(|| files.keys().rfind(|name| !name.ends_with(".gz")).cloned());
        if let Some(size) = written.and_then(|name| files.get_mut(&name)) {
            *size += bytes;
        }
    }

    /// The files of a container's logs, with their sizes.
    pub fn files(&self, pod: &str, container: &str) -> BTreeMap<String, u64> {
        let logs = self.logs();
        let log = logs.iter().find(|(named, _)| &*named.name == pod).map(|(_, log)| log);
        log.and_then(|log| log.files.get(container)).cloned().unwrap_or_default()
    }

    /// Makes or removes a file of a container's logs.
    pub fn set_file(&self, pod: &str, container: &str, name: &str, size: Option<u64>) {
        let mut logs = self.logs();
        let log = logs.iter_mut().find(|(named, _)| &*named.name == pod).map(|(_, log)| log);
        let Some(files) = log.map(|log| log.files.entry(container.to_owned()).or_default()) else { return };
        match size {
            Some(size) => files.insert(name.to_owned(), size),
            None => files.remove(name),
        };
    }

    /// The runtime opens the log at this path anew.
    pub(crate) fn reopen(&self, path: &str) {
        let mut parts = path.rsplit('/');
        let (Some(name), Some(container), Some(dir)) = (parts.next(), parts.next(), parts.next()) else { return };
        let mut logs = self.logs();
        let of_pod = logs.iter_mut().find(|(pod, _)| dir == format!("{}_{}_{}", pod.namespace, pod.name, pod.uid));
        if let Some(files) = of_pod.and_then(|(_, log)| log.files.get_mut(container)) {
            files.entry(name.to_owned()).or_default();
        }
    }

    fn with_files<T>(
        &self,
        log: &LogId,
        work: impl FnOnce(&mut BTreeMap<String, u64>) -> Result<T, ErrorKind>,
    ) -> Result<T, FileError> {
        let mut logs = self.logs();
        let files = logs.get_mut(&log.pod).and_then(|pod| pod.files.get_mut(&log.container));
        let mut none = BTreeMap::new();
        let done = work(files.unwrap_or(&mut none));
        done.map_err(|kind| FileError {
            action: "change logs of",
            path: log.container.clone().into(),
            source: kind.into(),
        })
    }

    /// Every link, in order.
    pub fn links(&self) -> Vec<String> {
        self.logs().values().flat_map(|log| log.links.iter().cloned()).collect()
    }

    /// Pods that have a log directory.
    pub fn pods(&self) -> Vec<PodRef> {
        self.logs().keys().cloned().collect()
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<PodRef, PodLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn link_name(pod: &PodRef, container: &str, id: &str) -> String {
    format!("{}_{}_{container}-{id}.log", pod.name, pod.namespace)
}

#[async_trait]
impl PodLogs for FakePodLogs {
    async fn make_dir(&self, pod: &PodRef) -> Result<(), FileError> {
        self.logs().entry(pod.clone()).or_default();
        Ok(())
    }

    async fn make(&self, pod: &PodRef, container: &str) -> Result<Option<u32>, FileError> {
        let mut logs = self.logs();
        let numbers = logs.entry(pod.clone()).or_default().containers.entry(container.into()).or_default();
        Ok(numbers.last().copied())
    }

    /// A link is made once the container runs, so its log exists from here on.
    async fn link(&self, pod: &PodRef, container: &str, id: &str, restart_count: u32) -> Result<(), FileError> {
        self.add(pod, container, restart_count);
        let mut logs = self.logs();
        let log = logs.entry(pod.clone()).or_default();
        log.links.insert(link_name(pod, container, id));
        log.files.entry(container.to_owned()).or_default().entry(log_name(restart_count)).or_default();
        Ok(())
    }

    async fn tail(&self, log: &str, lines: usize, bytes: usize) -> Result<Vec<u8>, FileError> {
        let logs = self.logs();
        let content = logs.values().find_map(|pod| pod.tails.get(log)).cloned().unwrap_or_default();
        let kept = content.split_inclusive(|byte| *byte == b'\n').rev().take(lines).collect::<Vec<_>>();
        let tail: Vec<u8> = kept.into_iter().rev().flatten().copied().collect();
        let from = tail.len().saturating_sub(bytes);
        Ok(tail.get(from..).unwrap_or_default().to_vec())
    }
}

#[async_trait]
impl LogCleaner for FakePodLogs {
    async fn list(&self) -> Result<Vec<PodRef>, FileError> {
        Ok(self.pods())
    }

    async fn remove(&self, pod: &PodRef) -> Result<(), FileError> {
        self.logs().remove(pod);
        Ok(())
    }

    async fn remove_container(
        &self,
        pod: &PodRef,
        container: &str,
        id: &str,
        restart_count: u32,
    ) -> Result<(), FileError> {
        if let Some(log) = self.logs().get_mut(pod) {
            log.links.remove(&link_name(pod, container, id));
            if let Some(numbers) = log.containers.get_mut(container) {
                numbers.remove(&restart_count);
            }
            if let Some(files) = log.files.get_mut(container) {
                files.retain(|name, _| !name.starts_with(&log_name(restart_count)));
            }
        }
        Ok(())
    }

    async fn prune_links(&self) -> Result<(), FileError> {
        Ok(())
    }
}

#[async_trait]
impl LogFiles for FakePodLogs {
    async fn sizes(&self, logs: Vec<LogId>) -> Vec<LogSize> {
        let size = |log: &LogId| self.with_files(log, |files| Ok(files.get(&log.file()).copied()));
        let size = |log: &LogId| size(log).ok().flatten().map_or(LogSize::Missing, LogSize::Bytes);
        logs.iter().map(size).collect()
    }

    async fn list(&self, log: &LogId) -> Result<Vec<String>, FileError> {
        self.with_files(log, |files| Ok(files.keys().cloned().collect()))
    }

    async fn rename(&self, log: &LogId, from: &str, to: &str) -> Result<(), FileError> {
        self.with_files(log, |files| {
            if files.contains_key(to) {
                return Err(ErrorKind::AlreadyExists);
            }
            let size = files.remove(from).ok_or(ErrorKind::NotFound)?;
            files.insert(to.to_owned(), size);
            Ok(())
        })
    }

    async fn remove(&self, log: &LogId, names: &[String]) -> Result<(), FileError> {
        self.with_files(log, |files| {
            files.retain(|name, _| !names.contains(name));
            Ok(())
        })
    }

    async fn compress(&self, log: &LogId, name: &str) -> Result<(), FileError> {
        self.with_files(log, |files| {
            if let Some(size) = files.remove(name) {
                files.insert(format!("{name}.gz"), size / 10);
            }
            Ok(())
        })
    }
}

/// The node's own files, with fixed content.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeHostFiles;

#[async_trait]
impl HostFiles for FakeHostFiles {
    async fn resolv_conf(&self) -> Result<Option<String>, FileError> {
        Ok(Some("nameserver 127.0.0.53\nsearch example.test\n".into()))
    }

    async fn hosts(&self) -> Result<String, FileError> {
        Ok("127.0.0.1\tlocalhost\n".into())
    }
}

/// `subPath` mounts that need no mounting.
#[derive(Clone, Copy, Debug, Default)]
pub struct FakeSubpaths;

#[async_trait]
impl Subpaths for FakeSubpaths {
    async fn bind(&self, request: &SubpathRequest) -> Result<PathBuf, FileError> {
        Ok(request.volume_path.join(&request.subpath))
    }

    async fn unbind_all(&self, _uid: &PodUid) -> Result<(), FileError> {
        Ok(())
    }
}
