//! One look: every part with a deadline of its own, side by side.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::PodUid;
use rubelet_core::observe::PodSummary;
use rubelet_core::time::Instant;
use rubelet_core::usage::{
    CgroupIndex, DiskUsage, FsStats, NamedPod, NetworkUsage, NodeDisks, NodeUsage, PodUsage, ProcessCount, Sample,
    name_pods,
};

use super::World;
use crate::ports::{Detail, FsUsage, Unmeasured};
use crate::sync_loop::KnownPod;

/// Deadline of the cgroups, without which there is no look.
const CGROUPS_WITHIN: Duration = Duration::from_secs(10);
/// Deadline of every other part.
const PART_WITHIN: Duration = Duration::from_secs(2);
/// How old a list of the runtime may become even though no cgroup has appeared since: some runtimes show none.
const LIST_AGE: Duration = Duration::from_secs(30);
/// The same of a list that has exactly what has a cgroup: it would be the same today.
const EXACT_LIST_AGE: Duration = Duration::from_secs(600);

/// What a look has to bring. A look that brings more serves as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) detail: Detail,
    pub(super) networks: bool,
    pub(super) disks: bool,
    /// Directories and layers are measured anew, due or not.
    pub(super) anew: bool,
}

impl Need {
    pub(super) fn covers(self, other: Self) -> bool {
        self.detail >= other.detail
            && self.networks >= other.networks
            && self.disks >= other.disks
            && self.anew >= other.anew
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            detail: self.detail.max(other.detail),
            networks: self.networks || other.networks,
            disks: self.disks || other.disks,
            anew: self.anew || other.anew,
        }
    }
}

/// What the runtime last listed.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) pods: Arc<Vec<PodSummary>>,
    pub(super) at: Instant,
}

/// The result of a look.
pub(super) struct Seen {
    pub(super) need: Need,
    pub(super) began: Instant,
    pub(super) sample: Arc<Sample>,
    pub(super) known: BTreeMap<PodUid, NamedPod>,
    pub(super) listed: Option<Listed>,
    pub(super) pods: Vec<PodUsage>,
    pub(super) network: Option<NetworkUsage>,
    pub(super) disks: NodeDisks,
    pub(super) processes: Option<ProcessCount>,
}

/// Looks once.
pub(super) async fn look(world: Arc<World>, need: Need, listed: Option<Listed>) -> Result<Seen, Unmeasured> {
    let began = world.clock.mono();
    let (sample, known, processes, disks) = tokio::join!(
        tokio::time::timeout(CGROUPS_WITHIN, world.parts.stats.sample(need.detail)),
        known_pods(&world),
        within(world.parts.stats.processes()),
        async { if need.disks { file_systems(&world).await } else { NodeDisks::default() } },
    );
    let sample = sample.unwrap_or_else(|_| Err(Unmeasured("the cgroups could not be read in time".to_owned())))?;
    let sample = Arc::new(sample);
    let index = CgroupIndex::of(&sample);
    let fresh = |listed: &Listed| {
        let age = began.since(listed.at);
        (age < LIST_AGE && index.is_explained_by(&listed.pods))
            || (age < EXACT_LIST_AGE && index.is_shown_by(&listed.pods))
    };
    let listed = match listed {
        Some(listed) if fresh(&listed) => Some(listed),
        older => {
            let at = world.clock.mono();
            let list = within(world.runtime.list()).await.and_then(Result::ok);
            // A list of before is better than none: ids of containers never change.
            list.map(|pods| Listed { pods: Arc::new(pods), at }).or(older)
        }
    };
    let mut pods = name_pods(&index, &known, listed.as_ref().map(|listed| listed.pods.as_slice()));
    let mut network = None;
    if need.networks {
        let mut cgroups: Vec<String> = pods.iter().filter_map(|pod| pod.network_cgroup().cloned()).collect();
        cgroups.push("/".to_owned());
        let networks = within(world.parts.stats.networks(&cgroups)).await.unwrap_or_default();
        pods.iter_mut().for_each(|pod| pod.set_network(&networks));
        network = networks.get("/").cloned();
    }
    let processes = processes.and_then(Result::ok);
    Ok(Seen { need, began, sample, known, listed, pods, network, disks, processes })
}

/// The node and all pods together: nothing of it is kept, so that eviction watches at no cost to the pages.
pub(super) async fn node(world: &World) -> Result<NodeUsage, Unmeasured> {
    let (sample, processes) = tokio::join!(
        tokio::time::timeout(CGROUPS_WITHIN, world.parts.stats.sample(Detail::Node)),
        within(world.parts.stats.processes()),
    );
    let sample = sample.unwrap_or_else(|_| Err(Unmeasured("the cgroups could not be read in time".to_owned())))?;
    Ok(NodeUsage {
        sample: Arc::new(sample),
        cpu_rates: BTreeMap::new(),
        pods: Vec::new(),
        network: None,
        disks: NodeDisks::default(),
        processes: processes.and_then(Result::ok),
    })
}

async fn known_pods(world: &World) -> BTreeMap<PodUid, NamedPod> {
    let pods = within(world.sync_loop.pods()).await.flatten().unwrap_or_default();
    let named = |KnownPod { reference, pod, status }| (reference.uid.clone(), NamedPod { reference, pod, status });
    pods.into_iter().map(named).collect()
}

/// The node's file systems. Only the runtime knows where images are.
pub(super) async fn file_systems(world: &World) -> NodeDisks {
    let (nodefs, runtime) =
        tokio::join!(file_system(world, &world.parts.places.root), within(world.images.file_systems()));
    let places = runtime.and_then(Result::ok).unwrap_or_default();
    let images = places.images.first();
    let layers = places.layers.first().or(images);
    let at = |place: Option<&FsUsage>| place.map(|place| PathBuf::from(&place.mountpoint));
    let (of_images, of_layers) = (at(images), at(layers));
    let imagefs = of_path(world, of_images.as_deref()).await;
    let containerfs = if of_layers == of_images { imagefs } else { of_path(world, of_layers.as_deref()).await };
    let used = |place: &FsUsage| DiskUsage { bytes: place.used_bytes, inodes: place.inodes_used };
    NodeDisks { nodefs, imagefs, containerfs, images: images.map(used), layers: places.layers.first().map(used) }
}

async fn of_path(world: &World, path: Option<&Path>) -> Option<FsStats> {
    match path.filter(|path| path.is_absolute()) {
        Some(path) => file_system(world, path).await,
        None => None,
    }
}

pub(super) async fn file_system(world: &World, path: &Path) -> Option<FsStats> {
    within(world.parts.disks.file_system(path)).await?.ok()
}

async fn within<T>(part: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PART_WITHIN, part).await.ok()
}

/// What was measured in the background, by its path.
pub(super) type MeasuredDirs = BTreeMap<OsString, rubelet_core::usage::Measured>;
