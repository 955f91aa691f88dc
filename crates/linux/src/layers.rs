//! Writable layers, measured here and now where the kernel shows where they are.
//!
//! A runtime reports what it measured last: containerd measures every ten seconds, and a container may write a gigabyte
//! meanwhile. That is good enough for pages of metrics, and not for choosing which pod ends because a disk is full. The mount
//! table names the directory of each overlay's writable layer, and the mount point the container, as containerd lays it out.
//! For other layouts the runtime's figures stand.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rubelet_core::id::ContainerId;
use rubelet_core::usage::LayerUsage;
use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::{Disks, RuntimeStats, Unmeasured, Walked};
use tracing::debug;

use crate::kernel_mounts::{MountLine, mount_table};

/// How often a large layer is gone on with. What is not measured by then stays as the runtime reports it.
const TURNS: usize = 500;

/// The runtime's figures, and better ones on request.
pub struct OverlayLayers {
    runtime: Arc<dyn RuntimeStats>,
    disks: Arc<dyn Disks>,
    proc: PathBuf,
}

impl OverlayLayers {
    /// Layers that `runtime` reports, or that `disks` measures.
    pub fn new(runtime: Arc<dyn RuntimeStats>, disks: Arc<dyn Disks>, proc: &Path) -> Self {
        Self { runtime, disks, proc: proc.to_owned() }
    }

    async fn measure(&self, places: &BTreeMap<ContainerId, PathBuf>, known: &mut BTreeMap<ContainerId, LayerUsage>) {
        let mut left: Vec<PathBuf> = places.values().cloned().collect();
        let mut measured = BTreeMap::new();
        for _turn in 0..TURNS {
            if left.is_empty() {
                break;
            }
            let answers = self.disks.usage(&left).await;
            left.retain(|path| matches!(answers.get(path), Some(Walked::Unfinished)));
            measured.extend(answers.into_iter().filter_map(|(path, walked)| match walked {
                Walked::Whole(used) => Some((path, used)),
                Walked::Unfinished => None,
            }));
        }
        for (id, path) in places {
            if let Some(used) = measured.get(path) {
                let at = known.get(id).and_then(|layer| layer.at);
                let layer = LayerUsage { at, bytes: Some(used.bytes), inodes: Some(used.inodes) };
                known.insert(id.clone(), layer);
            }
        }
    }
}

#[async_trait]
impl RuntimeStats for OverlayLayers {
    async fn layers(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
        self.runtime.layers().await
    }

    async fn layers_now(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
        let mut known = self.runtime.layers_now().await?;
        let proc = self.proc.clone();
        match HOST.run("layers", move || mount_table(&proc)).await {
            Ok(table) => self.measure(&writable_layers(&table), &mut known).await,
            Err(err) => debug!(%err, "The mount table cannot be read: writable layers are as the runtime reports them"),
        }
        Ok(known)
    }
}

/// The directory of each container's writable layer.
fn writable_layers(table: &[MountLine]) -> BTreeMap<ContainerId, PathBuf> {
    table.iter().filter_map(writable_layer).collect()
}

fn writable_layer(mount: &MountLine) -> Option<(ContainerId, PathBuf)> {
    if mount.fs_type != "overlay" {
        return None;
    }
    let mut parts = mount.point.components().rev();
    let (Component::Normal(last), Component::Normal(id)) = (parts.next()?, parts.next()?) else { return None };
    let upper = mount.super_options.iter().find_map(|option| option.strip_prefix("upperdir="))?;
    let upper = Path::new(upper);
    let id = id.to_str().filter(|_| last == "rootfs" && upper.is_absolute())?;
    Some((ContainerId::from(id.to_owned()), upper.to_owned()))
}

#[cfg(test)]
mod tests {
    use rubelet_core::usage::DiskUsage;

    use super::*;
    use crate::testing::temp_dir;

    const TABLE: &str = "\
36 35 98:0 / /var rw,noatime shared:1 - ext4 /dev/root rw
40 36 0:50 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/rootfs rw,relatime shared:5 - overlay overlay rw,lowerdir=1/fs,upperdir=/snapshots/7/fs,workdir=/snapshots/7/work
41 36 0:51 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/ro/rootfs ro - overlay overlay ro,lowerdir=1/fs:2/fs
42 36 0:52 / /var/lib/containers/storage/overlay/def/merged rw - overlay overlay rw,upperdir=/storage/def/diff
";

    struct Runtime;

    #[async_trait]
    impl RuntimeStats for Runtime {
        async fn layers(&self) -> Result<BTreeMap<ContainerId, LayerUsage>, Unmeasured> {
            let old = |bytes| LayerUsage { at: None, bytes: Some(bytes), inodes: Some(1) };
            Ok(BTreeMap::from([("abc".into(), old(4096)), ("def".into(), old(5))]))
        }
    }

    struct Walks;

    #[async_trait]
    impl Disks for Walks {
        async fn file_system(&self, _path: &Path) -> Result<rubelet_core::usage::FsStats, Unmeasured> {
            Err(Unmeasured("not asked".into()))
        }

        async fn usage(&self, dirs: &[PathBuf]) -> BTreeMap<PathBuf, Walked> {
            let used = DiskUsage { bytes: 1 << 30, inodes: 9 };
            dirs.iter().map(|dir| (dir.clone(), Walked::Whole(used))).collect()
        }
    }

    #[tokio::test]
    async fn ev_11_a_layer_is_measured_anew_only_on_request_and_where_its_place_is_known() {
        let proc = temp_dir();
        std::fs::create_dir_all(proc.path().join("self")).unwrap();
        std::fs::write(proc.path().join("self/mountinfo"), TABLE).unwrap();
        let layers = OverlayLayers::new(Arc::new(Runtime), Arc::new(Walks), proc.path());
        let bytes = |all: &BTreeMap<ContainerId, LayerUsage>, id: &str| {
            all.get(&ContainerId::from(id.to_owned())).and_then(|layer| layer.bytes)
        };
        let reported = layers.layers().await.unwrap();
        assert_eq!((bytes(&reported, "abc"), bytes(&reported, "def")), (Some(4096), Some(5)));
        let now = layers.layers_now().await.unwrap();
        assert_eq!((bytes(&now, "abc"), bytes(&now, "def"), bytes(&now, "ro")), (Some(1 << 30), Some(5), None));
    }
}
