//! What a pod uses, as eviction weighs it.

use k8s_openapi::api::core::v1::{Pod, Volume};

use crate::id::PodUid;
use crate::pod::PodExt;
use crate::resources::{
    Amount, amounts, has_pod_level_resources, is_pod_level_resource, pod_requests_without_overhead,
};
use crate::usage::{CgroupKind, ContainerUsage, DiskUsage, LayerUsage, NodeUsage, PodUsage};

/// What one pod uses. A part that could not be measured is `None`, and weighs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodStats {
    /// The working set.
    pub memory: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
    /// Its containers that run.
    pub containers: Vec<ContainerStats>,
    /// Its volumes, by name.
    pub volumes: Vec<(String, FsUse)>,
    /// Bytes of all that counts against its limit on ephemeral storage.
    #[doc(alias = "EphemeralStorage")]
    pub ephemeral: Option<u64>,
}

/// What one container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStats {
    /// Its name.
    pub name: String,
    /// The working set.
    pub memory: Option<u64>,
    /// The writable layer.
    pub layer: Option<FsUse>,
    /// Logs.
    pub logs: Option<FsUse>,
}

/// Bytes and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsUse {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

impl From<DiskUsage> for FsUse {
    fn from(used: DiskUsage) -> Self {
        Self { bytes: Some(used.bytes), inodes: Some(used.inodes) }
    }
}

impl From<LayerUsage> for FsUse {
    fn from(used: LayerUsage) -> Self {
        Self { bytes: used.bytes, inodes: used.inodes }
    }
}

/// What `pod` uses; `None` if nothing of it runs.
///
/// Upstream also ranks pods of which nothing runs, and puts them first. Their end frees nothing, so they are no candidates
/// here.
pub fn pod_stats(pod: &Pod, usage: &NodeUsage) -> Option<PodStats> {
    let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
    let known = usage.pods.iter().find(|one| one.pod.uid == uid);
    let path = known.and_then(|known| known.cgroup.as_deref());
    let cgroup = path.and_then(|path| usage.sample.cgroups.get(path));
    // A runtime that does not list a pod hides nothing: its cgroup is there.
    let cgroup = cgroup.or_else(|| usage.sample.find(&CgroupKind::Pod(uid)));
    if known.is_none() && cgroup.is_none() {
        return None;
    }
    let memory = cgroup.and_then(|cgroup| cgroup.usage.memory.as_ref()).map(|memory| memory.working_set());
    let processes = cgroup.and_then(|cgroup| cgroup.usage.tasks).map(|tasks| tasks.threads);
    let Some(known) = known else { return Some(PodStats { memory, processes, ..PodStats::default() }) };
    Some(PodStats {
        memory,
        processes,
        containers: known.containers.iter().map(|container| container_stats(container, usage)).collect(),
        volumes: known.volumes.iter().map(|volume| (volume.name.clone(), volume.used.into())).collect(),
        ephemeral: ephemeral(pod, known),
    })
}

fn container_stats(container: &ContainerUsage, usage: &NodeUsage) -> ContainerStats {
    let cgroup = container.cgroup.as_deref().and_then(|path| usage.sample.cgroups.get(path));
    ContainerStats {
        name: container.name.clone(),
        memory: cgroup.and_then(|cgroup| cgroup.usage.memory.as_ref()).map(|memory| memory.working_set()),
        layer: container.layer.map(FsUse::from),
        logs: container.logs.map(FsUse::from),
    }
}

/// Layers, logs, local volumes and files of the pod itself; `None` if none of them was measured.
/// upstream: stats/helper.go calcEphemeralStorage (v1.36)
fn ephemeral(pod: &Pod, usage: &PodUsage) -> Option<u64> {
    let layers = usage.containers.iter().filter_map(|one| one.layer.and_then(|layer| layer.bytes));
    let logs = usage.containers.iter().filter_map(|one| one.logs).map(|logs| logs.bytes);
    let volumes = usage.volumes.iter().filter(|volume| is_local_ephemeral(pod, &volume.name));
    let volumes = volumes.map(|volume| volume.used.bytes);
    let own = usage.own_files.map(|files| files.bytes);
    layers
        .chain(logs)
        .chain(volumes)
        .chain(own)
        .fold(None, |sum, bytes| Some(sum.unwrap_or(0_u64).saturating_add(bytes)))
}

fn volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    pod.pod_spec()?.volumes.as_ref()?.iter().find(|volume| volume.name == name)
}

fn is_local_ephemeral(pod: &Pod, name: &str) -> bool {
    volume(pod, name).is_some_and(is_local_ephemeral_volume)
}

/// upstream: volume/util/util.go IsLocalEphemeralVolume (v1.36)
#[doc(alias = "IsLocalEphemeralVolume")]
fn is_local_ephemeral_volume(volume: &Volume) -> bool {
    let on_disk = volume.empty_dir.as_ref().is_some_and(|dir| dir.medium.as_deref().unwrap_or_default().is_empty());
    volume.git_repo.is_some() || on_disk || volume.config_map.is_some()
}

/// The volumes whose bytes are on the node's disk.
#[doc(alias = "localVolumeNames")]
pub(super) fn local_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let volumes = pod.pod_spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter(|volume| volume.host_path.is_some() || is_local_ephemeral_volume(volume))
}

/// What the pod requests of a resource, as eviction counts it: where the pod has resources of its own, those of its
/// containers do not count, not even for what a pod cannot request as a whole.
/// upstream: api/v1/resource/helpers.go GetResourceRequestQuantity (v1.36)
#[doc(alias = "GetResourceRequestQuantity")]
pub(super) fn request(pod: &Pod, resource: &str) -> Amount {
    let spec = pod.pod_spec();
    let requested = if has_pod_level_resources(pod) {
        let own = amounts(spec.and_then(|spec| spec.resources.as_ref()).and_then(|own| own.requests.as_ref()));
        own.get(resource).copied().filter(|_| is_pod_level_resource(resource)).unwrap_or_default()
    } else {
        pod_requests_without_overhead(pod).get(resource).copied().unwrap_or_default()
    };
    if requested.is_zero() {
        return requested;
    }
    let overhead = amounts(spec.and_then(|spec| spec.overhead.as_ref()));
    requested + overhead.get(resource).copied().unwrap_or_default()
}
