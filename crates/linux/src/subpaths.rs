//! `subPath`: a part of a volume, bind-mounted at a separate place so that a container can mount only that part
//! (MNT-02).
//!
//! The kernel resolves the part inside the volume in one step that cannot leave the volume, and the resulting
//! descriptor is what is mounted. A container that swaps a directory for a link meanwhile gets an error or its own
//! directory, never the host's (CVE-2017-1002101, CVE-2021-25741).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_engine::blocking::POD_FILES;
use rubelet_engine::ports::{FileError, SubpathRequest, Subpaths};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{self, failed};
use crate::kernel_mounts::{bind, is_mount_root, same_file, unmount_at};
use crate::pod_dirs::{PODS, entries, make_pod_dir, none_if_gone, open_pod_dir};
use crate::tree::{self, Remove};

const SUBPATHS: &str = "volume-subpaths";
const PRIVATE_DIR: u32 = 0o750;

/// Stacked mounts that are undone.
const MAX_STACKED: usize = 16;

/// Subpath mounts below one root directory.
#[derive(Clone, Debug)]
pub struct RootSubpaths {
    root: Arc<Path>,
}

impl RootSubpaths {
    /// Subpath mounts below `root`, which must be absolute and exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into() }
    }
}

#[async_trait]
impl Subpaths for RootSubpaths {
    async fn bind(&self, request: &SubpathRequest) -> Result<PathBuf, FileError> {
        let (root, uid, request) = (Arc::clone(&self.root), request.uid.clone(), request.clone());
        POD_FILES
            .run(uid.as_str(), move || {
                let part = request.volume_path.join(&request.subpath);
                let source = open_part(&request).map_err(failed("open subpath", part))?;
                let target = root
                    .join(PODS)
                    .join(request.uid.as_str())
                    .join(SUBPATHS)
                    .join(&request.volume)
                    .join(&request.container)
                    .join(request.index.to_string());
                bind_part(&root, &request, &source).map_err(failed("bind subpath to", &target))?;
                Ok(target)
            })
            .await
    }

    async fn unbind_all(&self, uid: &PodUid) -> Result<(), FileError> {
        let (root, of) = (Arc::clone(&self.root), uid.clone());
        POD_FILES.run(uid.as_str(), move || unbind_all(&root, &of)).await
    }
}

/// A handle on the part, which is made if it is missing.
fn open_part(request: &SubpathRequest) -> io::Result<OwnedFd> {
    let steps = steps(&request.subpath)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let volume = rustix::fs::open(&request.volume_path, flags, Mode::empty())?;
    let whole: PathBuf = steps.iter().collect();
    if whole.as_os_str().is_empty() {
        return Ok(volume);
    }
    match beneath::handle_inside(&volume, &whole) {
        Err(Errno::NOENT) => make_part(&volume, &steps),
        other => Ok(other?),
    }
}

/// The path components of a subpath. upstream: kubelet_pods.go makeMounts (v1.36)
fn steps(subpath: &str) -> io::Result<Vec<&str>> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    let mut steps = Vec::new();
    for component in Path::new(subpath).components() {
        match component {
            Component::Normal(name) => steps.push(beneath::name(name.to_str().unwrap_or_default())?),
            Component::CurDir => {}
            Component::ParentDir => return refuse("must not contain '..'"),
            Component::RootDir | Component::Prefix(_) => return refuse("must not be an absolute path"),
        }
    }
    Ok(steps)
}

/// Makes the missing directories, each with the volume's own mode.
fn make_part(volume: &OwnedFd, steps: &[&str]) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(volume)?.st_mode);
    let mut at = volume.try_clone()?;
    for step in steps {
        // Each step is resolved inside the directory reached so far, so a link can only lead further in.
        at = match beneath::handle_inside(&at, Path::new(step)) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&at, *step, mode) {
                    // Another container of the pod made it first.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(err) => return Err(err.into()),
                }
                let dir = beneath::open_dir(&at, step)?;
                beneath::set_mode(&dir, mode)?;
                dir
            }
            other => other?,
        };
    }
    Ok(at)
}

/// upstream: subpath_linux.go doBindSubPath, prepareSubpathTarget (v1.36)
fn bind_part(root: &Path, request: &SubpathRequest, source: &OwnedFd) -> io::Result<()> {
    let mut parent = make_pod_dir(root, &request.uid)?;
    for name in [SUBPATHS, &request.volume, &request.container] {
        parent = beneath::ensure_dir(parent, name, PRIVATE_DIR)?;
    }
    let name = request.index.to_string();
    for _ in 0..MAX_STACKED {
        let Some(old) = none_if_gone(beneath::handle(&parent, &*name).map_err(io::Error::from))? else { break };
        if !is_mount_root(&old)? {
            break;
        }
        if same_file(&old, source)? {
            return Ok(());
        }
        unmount_at(&parent, &name)?;
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(source)?.st_mode);
    let target = make_target(&parent, &name, kind)?;
    bind(source, target)
}

/// A mount point: a directory for a directory, a file for anything else.
fn make_target(parent: &OwnedFd, name: &str, kind: FileType) -> io::Result<OwnedFd> {
    let is_dir = kind == FileType::Directory;
    let old = none_if_gone(beneath::handle(parent, name).map_err(io::Error::from))?;
    if let Some(old) = old {
        let old_is_dir = FileType::from_raw_mode(rustix::fs::fstat(&old)?.st_mode) == FileType::Directory;
        if old_is_dir == is_dir {
            return Ok(old);
        }
        // The old mount point was of the other type.
        tree::remove(parent, name, Remove::Everything).map_err(|err| err.source)?;
    }
    if is_dir {
        beneath::ensure_dir(parent, name, PRIVATE_DIR)?;
    } else {
        let file = beneath::open_file(parent, name, OFlags::WRONLY | OFlags::CREATE)?;
        beneath::set_mode(&file, Mode::from_raw_mode(0o640))?;
    }
    Ok(beneath::handle(parent, name)?)
}

/// upstream: subpath_linux.go doCleanSubPaths (v1.36)
fn unbind_all(root: &Path, uid: &PodUid) -> Result<(), FileError> {
    let path = root.join(PODS).join(uid.as_str()).join(SUBPATHS);
    let Some(pod) = open_pod_dir(root, uid).map_err(failed("open", &path))? else { return Ok(()) };
    let Some(subpaths) = none_if_gone(beneath::open_dir(&pod, SUBPATHS)).map_err(failed("open", &path))? else {
        return Ok(());
    };
    let mut result = Ok(());
    let volumes = subpaths.try_clone().and_then(entries).map_err(failed("list", &path))?;
    for (volume, _) in volumes {
        let path = path.join(&volume);
        let unbound = beneath::open_dir(&subpaths, &volume)
            .map_err(failed("open", &path))
            .and_then(|volume| unbind_volume(&volume, &path));
        result = result.and(unbound);
    }
    result?;
    tree::remove(&pod, SUBPATHS, Remove::EmptyDirs)
        .map_err(|err| failed("remove", root.join(PODS).join(uid.as_str()).join(err.path))(err.source))
}

fn unbind_volume(volume: &OwnedFd, path: &Path) -> Result<(), FileError> {
    let mut result = Ok(());
    for (container, _) in volume.try_clone().and_then(entries).map_err(failed("list", path))? {
        let path = path.join(&container);
        let unbound = beneath::open_dir(volume, &container)
            .and_then(|dir| {
                for (index, _) in entries(dir.try_clone()?)? {
                    unbind_one(&dir, &index)?;
                }
                Ok(())
            })
            .map_err(failed("unbind subpaths in", path));
        result = result.and(unbound);
    }
    result
}

fn unbind_one(dir: &OwnedFd, index: &str) -> io::Result<()> {
    // The mount point is not opened or examined first: it may be on a file system whose server does not answer.
    for _ in 0..MAX_STACKED {
        match unmount_at(dir, index) {
            Ok(()) => {}
            // Nothing is mounted there any more.
            Err(err) if Errno::from_io_error(&err) == Some(Errno::INVAL) => break,
            Err(err) => return Err(err),
        }
    }
    // A directory is removed only if it is empty: its content is not ours to remove.
    let kind = FileType::from_raw_mode(rustix::fs::fstat(beneath::handle(dir, index)?)?.st_mode);
    let what = if kind == FileType::Directory { Remove::EmptyDirs } else { Remove::Everything };
    tree::remove(dir.as_fd(), index, what).map_err(|err| err.source)
}

#[cfg(test)]
mod tests;
