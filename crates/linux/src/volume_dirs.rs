//! `pods/<uid>/volumes/<plugin>/<volume>` and the marker beside it, for the volume plugins.

mod payload;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rubelet_core::id::PodUid;
use rubelet_engine::blocking::POD_FILES;
use rubelet_engine::ports::{FileError, MemoryFs, MountedFs, VolumeDirs, VolumePlace, VolumeState};
use rustix::fs::OFlags;
use rustix::io::Errno;

pub use payload::Payloads;

use crate::beneath::{self, failed};
use crate::kernel_mounts::{is_mount_root, mount_new, unmount_at};
use crate::pod_dirs::{PODS, entries, make_pod_dir, none_if_gone, open_pod_dir};
use crate::tree::{self, GroupMay, Remove};

const PRIVATE_DIR: u32 = 0o750;

const VOLUMES: &str = "volumes";
const PLUGINS: &str = "plugins";

/// Name of the marker file. upstream: pkg/volume/util/util.go readyFileName (v1.36)
const READY: &str = "ready";

/// Stacked mounts that are undone. More than this is no accident.
const MAX_STACKED: usize = 16;

const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Volume directories below one root directory.
#[derive(Clone, Debug)]
pub struct RootVolumes {
    root: Arc<Path>,
    /// Whether the kernel accepts tmpfs's `noswap`: known after the first mount.
    noswap: Arc<OnceLock<bool>>,
}

impl RootVolumes {
    /// Volume directories below `root`, which must be absolute and exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into().into(), noswap: Arc::default() }
    }

    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        place: &VolumePlace,
        work: impl FnOnce(&Self, &Place) -> Result<T, io::Error> + Send + 'static,
    ) -> Result<T, FileError> {
        let (this, place) = (self.clone(), Place::from(place));
        let uid = place.uid.clone();
        POD_FILES.run(uid.as_str(), move || work(&this, &place).map_err(failed(action, place.path(&this.root)))).await
    }

    /// The parent of the volume's directory, if it exists.
    fn parent(&self, place: &Place, kind: &str) -> io::Result<Option<OwnedFd>> {
        let Some(pod) = open_pod_dir(&self.root, &place.uid)? else { return Ok(None) };
        none_if_gone(beneath::open_dir(pod, &format!("{kind}/{}", beneath::name(&place.plugin)?)))
    }

    fn make_parent(&self, place: &Place, kind: &str) -> io::Result<OwnedFd> {
        let kind = beneath::ensure_dir(make_pod_dir(&self.root, &place.uid)?, kind, PRIVATE_DIR)?;
        beneath::ensure_dir(kind, &place.plugin, PRIVATE_DIR)
    }

    fn tmpfs(&self, size: Option<u64>, target: &OwnedFd) -> io::Result<()> {
        let mut options = Vec::new();
        if let Some(size) = size {
            options.push(("size", Some(size.to_string())));
        }
        let mut with_noswap = options.clone();
        with_noswap.push(("noswap", None));
        // Kernels before 6.4, and user namespaces, refuse the option. upstream: swap_util.go (v1.36)
        match self.noswap.get() {
            Some(false) => mount_new("tmpfs", &options, target),
            Some(true) => mount_new("tmpfs", &with_noswap, target),
            None => {
                let first = mount_new("tmpfs", &with_noswap, target);
                if first.is_ok() {
                    let _: Result<(), bool> = self.noswap.set(true);
                    return first;
                }
                mount_new("tmpfs", &options, target)?;
                let _: Result<(), bool> = self.noswap.set(false);
                Ok(())
            }
        }
    }
}

/// A volume's place with its names as they are on disk.
struct Place {
    uid: PodUid,
    plugin: String,
    volume: String,
}

impl From<&VolumePlace> for Place {
    fn from(place: &VolumePlace) -> Self {
        // upstream: strings.EscapeQualifiedName (v1.36)
        Self { uid: place.uid.clone(), plugin: place.plugin.replace('/', "~"), volume: place.volume.clone() }
    }
}

impl Place {
    fn path(&self, root: &Path) -> PathBuf {
        root.join(PODS).join(self.uid.as_str()).join(VOLUMES).join(&self.plugin).join(&self.volume)
    }

    fn name(&self) -> io::Result<&str> {
        beneath::name(&self.volume)
    }
}

#[async_trait]
impl VolumeDirs for RootVolumes {
    async fn look(&self, place: &VolumePlace) -> Result<VolumeState, FileError> {
        self.run("look at", place, |this, place| {
            let name = place.name()?;
            let marker = match this.parent(place, PLUGINS)? {
                Some(parent) => none_if_gone(beneath::open_file(parent, &format!("{name}/{READY}"), OFlags::RDONLY))?,
                None => None,
            };
            let dir = match this.parent(place, VOLUMES)? {
                Some(parent) => none_if_gone(beneath::open_dir(parent, name))?,
                None => None,
            };
            let mounted = dir.as_ref().map(mounted_fs).transpose()?.flatten();
            Ok(VolumeState { path: place.path(&this.root), exists: dir.is_some(), ready: marker.is_some(), mounted })
        })
        .await
    }

    async fn list(&self, uid: &PodUid, plugin: &'static str) -> Result<Vec<String>, FileError> {
        let place = VolumePlace { uid: uid.clone(), plugin, volume: String::new() };
        self.run("list", &place, |this, place| {
            let mut names = BTreeSet::new();
            for kind in [VOLUMES, PLUGINS] {
                if let Some(dir) = this.parent(place, kind)? {
                    names.extend(entries(dir)?.into_iter().map(|(name, _)| name));
                }
            }
            Ok(names.into_iter().collect())
        })
        .await
    }

    async fn make(&self, place: &VolumePlace, mode: u32) -> Result<PathBuf, FileError> {
        self.run("make directory", place, move |this, place| {
            let parent = this.make_parent(place, VOLUMES)?;
            beneath::ensure_dir(parent, place.name()?, mode)?;
            Ok(place.path(&this.root))
        })
        .await
    }

    async fn mount(&self, place: &VolumePlace, kind: &MemoryFs) -> Result<(), FileError> {
        let kind = *kind;
        self.run("mount a file system in memory on", place, move |this, place| {
            let parent = this.parent(place, VOLUMES)?.ok_or(Errno::NOENT)?;
            let target = beneath::open_dir(parent, place.name()?)?;
            match kind {
                MemoryFs::Tmpfs { size } => this.tmpfs(size, &target),
                MemoryFs::Hugetlbfs { page_size } => {
                    mount_new("hugetlbfs", &[("pagesize", Some(page_size.to_string()))], &target)
                }
            }
        })
        .await
    }

    async fn give_to_group(&self, place: &VolumePlace, group: u32) -> Result<(), FileError> {
        self.run("change the group of", place, move |this, place| {
            let parent = this.parent(place, VOLUMES)?.ok_or(Errno::NOENT)?;
            tree::give_to_group(parent, place.name()?, group, GroupMay::Write).map_err(|err| err.source)
        })
        .await
    }

    async fn mark_ready(&self, place: &VolumePlace) -> Result<(), FileError> {
        self.run("mark as ready", place, |this, place| {
            let parent = this.make_parent(place, PLUGINS)?;
            let dir = beneath::ensure_dir(parent, place.name()?, PRIVATE_DIR)?;
            beneath::open_file(dir, READY, OFlags::WRONLY | OFlags::CREATE).map(drop)
        })
        .await
    }

    async fn remove(&self, place: &VolumePlace) -> Result<(), FileError> {
        let (this, place) = (self.clone(), Place::from(place));
        let uid = place.uid.clone();
        POD_FILES.run(uid.as_str(), move || remove_volume(&this, &place)).await
    }
}

/// The ready marker is removed first: after a crash in between, the volume does not count as complete.
/// upstream: empty_dir.go TearDownAt (v1.36); it no longer renames the directory before removing it.
fn remove_volume(this: &RootVolumes, place: &Place) -> Result<(), FileError> {
    let path = place.path(&this.root);
    let name = place.name().map_err(failed("remove", &path))?;
    for (kind, may_unmount) in [(PLUGINS, false), (VOLUMES, true)] {
        let parent_path = this.root.join(PODS).join(place.uid.as_str()).join(kind).join(&place.plugin);
        let Some(parent) = this.parent(place, kind).map_err(failed("open", &parent_path))? else { continue };
        if may_unmount {
            unmount_memory(&parent, name).map_err(failed("unmount", &path))?;
        }
        tree::remove(&parent, name, Remove::Everything)
            .map_err(|err| failed("remove", parent_path.join(err.path))(err.source))?;
    }
    Ok(())
}

/// Undoes tmpfs and hugetlbfs mounts, which the plugins made. Any other mount is left to its owner, and prevents the
/// removal.
fn unmount_memory(parent: &OwnedFd, name: &str) -> io::Result<()> {
    for _ in 0..MAX_STACKED {
        let dir = match none_if_gone(beneath::open_dir(parent, name)) {
            Ok(Some(dir)) => dir,
            Ok(None) => return Ok(()),
            // A file or link in the directory's place is no mount.
            Err(err) if matches!(Errno::from_io_error(&err), Some(Errno::NOTDIR | Errno::LOOP)) => return Ok(()),
            Err(err) => return Err(err),
        };
        match mounted_fs(&dir)? {
            Some(MountedFs::Tmpfs | MountedFs::Hugetlbfs { .. }) => {}
            Some(MountedFs::Other) | None => return Ok(()),
        }
        // Our own descriptor would keep the mount busy.
        drop(dir);
        unmount_at(parent, name)?;
    }
    Ok(())
}

fn mounted_fs(dir: &OwnedFd) -> io::Result<Option<MountedFs>> {
    if !is_mount_root(dir)? {
        return Ok(None);
    }
    let fs = rustix::fs::fstatfs(dir)?;
    Ok(Some(match u64::try_from(fs.f_type) {
        Ok(TMPFS_MAGIC) => MountedFs::Tmpfs,
        Ok(HUGETLBFS_MAGIC) => MountedFs::Hugetlbfs { page_size: u64::try_from(fs.f_bsize).unwrap_or_default() },
        _ => MountedFs::Other,
    }))
}

#[cfg(test)]
mod tests;
