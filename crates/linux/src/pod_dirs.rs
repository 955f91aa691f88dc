//! `pods/<uid>` below the root directory, and the files that the kubelet writes there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_engine::blocking::{POD_FILES, SURVEYS};
use rubelet_engine::ports::{FileError, PodDirs};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::beneath::{self, failed};
use crate::kernel_mounts::mount_table;
use crate::tree::{self, Remove, TreeError};

/// Mode of directories for the kubelet and its helpers only.
const PRIVATE_DIR: u32 = 0o750;

/// The directory of all pods, below the root directory.
pub(crate) const PODS: &str = "pods";

/// Pod directories below one root directory.
#[derive(Clone, Debug)]
pub struct RootPods {
    root: Arc<Path>,
}

impl RootPods {
    /// Pod directories below `root`, which must be absolute and exist. It is opened on each call: the root may become a
    /// mount when it is made shared (BOOT-14).
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }

    fn pod_path(&self, uid: &PodUid) -> PathBuf {
        self.root.join(PODS).join(uid.as_str())
    }

    /// Runs `work` with the pod's directory open, made if it is missing.
    async fn in_pod<T: Send + 'static>(
        &self,
        uid: &PodUid,
        work: impl FnOnce(OwnedFd, PathBuf) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let (this, of) = (self.clone(), uid.clone());
        POD_FILES
            .run(uid.as_str(), move || {
                let path = this.pod_path(&of);
                let pod = make_pod_dir(&this.root, &of).map_err(failed("make directory", &path))?;
                work(pod, path)
            })
            .await
    }
}

/// `pods/<uid>` below `root`, made if it is missing.
pub(crate) fn make_pod_dir(root: &Path, uid: &PodUid) -> io::Result<OwnedFd> {
    let pods = beneath::ensure_dir_keeping_mode(beneath::open_root(root)?, PODS, PRIVATE_DIR)?;
    beneath::ensure_dir(pods, uid.as_str(), PRIVATE_DIR)
}

/// `pods/<uid>` below `root`, if it exists.
pub(crate) fn open_pod_dir(root: &Path, uid: &PodUid) -> io::Result<Option<OwnedFd>> {
    let opened = beneath::name(uid.as_str())
        .and_then(|uid| beneath::open_dir(beneath::open_root(root)?, &format!("{PODS}/{uid}")));
    none_if_gone(opened)
}

/// Maps "does not exist" to `None`; another error stays an error.
pub(crate) fn none_if_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

#[async_trait]
impl PodDirs for RootPods {
    async fn make(&self, uid: &PodUid) -> Result<PathBuf, FileError> {
        self.in_pod(uid, |pod, path| {
            for name in ["volumes", "plugins"] {
                beneath::ensure_dir(&pod, name, PRIVATE_DIR).map_err(failed("make directory", path.join(name)))?;
            }
            Ok(path)
        })
        .await
    }

    async fn write_hosts(&self, uid: &PodUid, content: &str) -> Result<PathBuf, FileError> {
        let content = content.to_owned();
        self.in_pod(uid, move |pod, path| {
            let path = path.join("etc-hosts");
            write_in_place(&pod, "etc-hosts", content.as_bytes()).map_err(failed("write", &path))?;
            Ok(path)
        })
        .await
    }

    async fn make_termination_file(&self, uid: &PodUid, container: &str, name: &str) -> Result<PathBuf, FileError> {
        let (container, name) = (container.to_owned(), name.to_owned());
        self.in_pod(uid, move |pod, path| {
            let path = path.join("containers").join(&container).join(&name);
            make_public_file(&pod, &container, &name).map_err(failed("make file", &path))?;
            Ok(path)
        })
        .await
    }

    async fn read_termination_file(&self, uid: &PodUid, path: &str, limit: usize) -> Result<Vec<u8>, FileError> {
        let (this, of, path) = (self.clone(), uid.clone(), path.to_owned());
        POD_FILES
            .run(uid.as_str(), move || {
                let inside = Path::new(&path).strip_prefix(this.pod_path(&of)).ok().and_then(Path::to_str);
                let read = match inside {
                    Some(inside) => none_if_gone(read_end(&this.root, &of, inside, limit)),
                    None => Err(io::Error::new(io::ErrorKind::InvalidInput, "not in the pod's directory")),
                };
                read.map(Option::unwrap_or_default).map_err(failed("read", path))
            })
            .await
    }

    async fn list(&self) -> Result<Vec<PodUid>, FileError> {
        let root = Arc::clone(&self.root);
        SURVEYS
            .run("pod directories", move || {
                let opened = none_if_gone(beneath::open_root(&root).and_then(|root| beneath::open_dir(root, PODS)));
                opened
                    .and_then(|pods| pods.map_or(Ok(Vec::new()), sub_dirs))
                    .map(|names| names.into_iter().map(PodUid::from).collect())
                    .map_err(failed("list", root.join(PODS)))
            })
            .await
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let (this, of) = (self.clone(), uid.clone());
        POD_FILES.run(uid.as_str(), move || remove_pod_dir(&this.root, &of)).await
    }
}

/// Running containers have the file mounted, so it is rewritten in place: they would not see a new file. Meanwhile its
/// length stays between those of the old and the new content, and unchanged content is not written.
fn write_in_place(dir: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = beneath::open_file(dir, name, OFlags::RDWR | OFlags::CREATE)?;
    beneath::set_mode(&file, Mode::from_raw_mode(0o644))?;
    let length = u64::try_from(content.len()).map_err(io::Error::other)?;
    if file.metadata()?.len() == length {
        // Bounded by the length of the new content: a container can make the file as long as it likes.
        let mut old = Vec::with_capacity(content.len());
        Read::by_ref(&mut file).take(length).read_to_end(&mut old)?;
        if old == content {
            return Ok(());
        }
    }
    file.seek(SeekFrom::Start(0))?;
    file.write_all(content)?;
    file.set_len(length)
}

fn make_public_file(pod: &OwnedFd, container: &str, name: &str) -> io::Result<()> {
    let containers = beneath::ensure_dir(pod, "containers", PRIVATE_DIR)?;
    let dir = beneath::ensure_dir(&containers, container, PRIVATE_DIR)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = beneath::open_file(&dir, beneath::name(name)?, flags)?;
    // The container's user, with whatever UID, must be able to write (MNT-05).
    beneath::set_mode(&file, Mode::from_raw_mode(0o666))
}

fn read_end(root: &Path, uid: &PodUid, inside: &str, limit: usize) -> io::Result<Vec<u8>> {
    let Some(pod) = open_pod_dir(root, uid)? else { return Ok(Vec::new()) };
    let mut file = beneath::open_file(pod, inside, OFlags::RDONLY)?;
    read_last(&mut file, limit)
}

/// The last `limit` bytes of a file.
pub(crate) fn read_last(file: &mut File, limit: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let start = file.metadata()?.len().saturating_sub(limit);
    file.seek(SeekFrom::Start(start))?;
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// Names of the directories in `dir`. A name that is not UTF-8 cannot be a pod's.
fn sub_dirs(dir: OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, kind) in entries(dir)? {
        if kind == FileType::Directory {
            names.push(name);
        }
    }
    Ok(names)
}

/// The entries of `dir` with their types, in the order of their names.
pub(crate) fn entries(dir: OwnedFd) -> io::Result<Vec<(String, FileType)>> {
    let mut found = Vec::new();
    let mut dir = Dir::new(dir)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match kind_of(dir.fd()?, name) {
                Ok(kind) => kind,
                Err(Errno::NOENT) => continue,
                Err(err) => return Err(err.into()),
            },
            known => known,
        };
        found.push((name.to_owned(), kind));
    }
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// The type of `name` in `dir`, as the kernel knows it without asking a file server or triggering an automount.
fn kind_of(dir: BorrowedFd<'_>, name: &str) -> Result<FileType, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(dir, name, flags, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(stat.stx_mode.into()))
}

/// upstream: kubelet_volumes.go cleanupOrphanedPodDirs, removeOrphanedPodVolumeDirs (v1.36)
fn remove_pod_dir(root: &Path, uid: &PodUid) -> Result<(), FileError> {
    let pods_path = root.join(PODS);
    let path = pods_path.join(uid.as_str());
    let open = || -> io::Result<_> {
        let pods = beneath::open_dir(beneath::open_root(root)?, PODS)?;
        let pod = beneath::open_dir(&pods, beneath::name(uid.as_str())?)?;
        Ok((pods, pod))
    };
    let Some((pods, pod)) = none_if_gone(open()).map_err(failed("open", &path))? else { return Ok(()) };
    // Checked before anything is removed: a pod with a mount below its directory is not gone.
    if let Some(mounted) = first_mount_below(&path).map_err(failed("read mounts below", &path))? {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, "a file system is still mounted there");
        return Err(FileError { action: "remove", path: mounted, source });
    }
    let in_the_way = |base: &Path, err: TreeError| failed("remove", base.join(err.path))(err.source);
    tree::remove(&pod, "volumes", Remove::EmptyDirs).map_err(|err| in_the_way(&path, err))?;
    let mut result = Ok(());
    let listed = pod.try_clone().and_then(entries).map_err(failed("list", &path))?;
    for (name, _) in listed.iter().filter(|(name, _)| name != "volumes") {
        let removed = tree::remove(pod.as_fd(), name, Remove::Everything).map_err(|err| in_the_way(&path, err));
        result = result.and(removed);
    }
    result?;
    tree::remove(&pods, uid.as_str(), Remove::EmptyDirs).map_err(|err| in_the_way(&pods_path, err))
}

fn first_mount_below(path: &Path) -> io::Result<Option<PathBuf>> {
    // The table has real paths; our root may contain links.
    let real = path.canonicalize()?;
    let table = mount_table(Path::new("/proc"))?;
    Ok(table.into_iter().map(|line| line.point).find(|point| point.starts_with(&real)))
}

#[cfg(test)]
mod tests;
