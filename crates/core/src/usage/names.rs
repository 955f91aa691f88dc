//! Gives the cgroups, networks and directories of a look the names of pods and containers.
//!
//! The runtime's list says which containers run, and under which ids; the kubelet's pods say what they are called in their
//! specs. Without a list, because the runtime does not answer, the statuses of the pods take its place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, Volume};

use super::{
    CgroupKind, ContainerUsage, DiskUsage, FsStats, LayerUsage, NetworkUsage, PodUsage, Sample, SandboxUsage,
    VolumeUsage,
};
use crate::id::{ContainerId, PodRef, PodUid, SandboxId};
use crate::observe::{ContainerStateKind, PodSummary, SandboxState};
use crate::pod::{PodExt, container_named};
use crate::volumes::used;

/// A pod as the kubelet knows it.
#[derive(Clone, Debug)]
pub struct NamedPod {
    /// Namespace, name and UID.
    pub reference: PodRef,
    /// Its spec.
    pub pod: Arc<Pod>,
    /// Its newest status.
    pub status: Arc<PodStatus>,
}

/// Which cgroup is whose.
#[derive(Clone, Debug, Default)]
pub struct CgroupIndex<'a> {
    pods: BTreeMap<&'a PodUid, &'a str>,
    containers: BTreeMap<&'a str, &'a str>,
}

impl<'a> CgroupIndex<'a> {
    /// The cgroups of pods and containers of a sample.
    pub fn of(sample: &'a Sample) -> Self {
        let mut index = Self::default();
        for (path, cgroup) in &sample.cgroups {
            match &cgroup.kind {
                CgroupKind::Pod(uid) => drop(index.pods.insert(uid, path)),
                CgroupKind::Container { id, .. } => drop(index.containers.insert(id.as_str(), path)),
                CgroupKind::Root
                | CgroupKind::AllPods
                | CgroupKind::PodsOfClass
                | CgroupKind::System(_)
                | CgroupKind::Other => {}
            }
        }
        index
    }

    fn pod(&self, uid: &PodUid) -> Option<String> {
        self.pods.get(uid).map(|path| (*path).to_owned())
    }

    fn container(&self, id: &str) -> Option<String> {
        self.containers.get(id).map(|path| (*path).to_owned())
    }

    /// Every cgroup of a container belongs to a container or sandbox of the list: nothing was started since it was read.
    pub fn is_explained_by(&self, list: &[PodSummary]) -> bool {
        let known: std::collections::BTreeSet<&str> = list
            .iter()
            .flat_map(|pod| {
                pod.sandboxes.keys().map(SandboxId::as_str).chain(pod.containers.keys().map(ContainerId::as_str))
            })
            .collect();
        self.containers.keys().all(|id| known.contains(id))
    }

    /// Besides, everything that runs by the list has a cgroup: nothing has ended either, so that the list is as good as new.
    /// A runtime whose containers have no cgroups on the node has no such lists.
    pub fn is_shown_by(&self, list: &[PodSummary]) -> bool {
        let has = |id: &str| self.containers.contains_key(id);
        let sandboxes = list.iter().flat_map(|pod| &pod.sandboxes);
        let containers = list.iter().flat_map(|pod| &pod.containers);
        sandboxes.filter(|(_, sandbox)| sandbox.state == SandboxState::Ready).all(|(id, _)| has(id.as_str()))
            && containers.filter(|(_, one)| one.state == ContainerStateKind::Running).all(|(id, _)| has(id.as_str()))
            && self.is_explained_by(list)
    }
}

/// The pods that have a sandbox or a container that runs, by namespace and name, with their cgroups. Networks and disks are
/// yet to be filled in.
pub fn name_pods(
    index: &CgroupIndex<'_>,
    known: &BTreeMap<PodUid, NamedPod>,
    list: Option<&[PodSummary]>,
) -> Vec<PodUsage> {
    let mut pods: Vec<PodUsage> = match list {
        Some(list) => {
            let running = list.iter().filter(|summary| summary.is_running());
            running.map(|summary| listed(index, summary, known.get(&summary.pod.uid))).collect()
        }
        None => known.values().filter_map(|pod| unlisted(index, pod)).collect(),
    };
    pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name, &a.pod.uid).cmp(&(&b.pod.namespace, &b.pod.name, &b.pod.uid)));
    pods
}

fn listed(index: &CgroupIndex<'_>, summary: &PodSummary, known: Option<&NamedPod>) -> PodUsage {
    let newest = summary
        .sandboxes
        .iter()
        .max_by_key(|(_, sandbox)| (sandbox.state == SandboxState::Ready, sandbox.attempt, sandbox.created_at));
    let sandbox = newest.map(|(id, sandbox)| SandboxUsage {
        id: id.clone(),
        image: String::new(),
        created_at: sandbox.created_at,
        cgroup: index.container(id.as_str()),
    });
    // Of two instances of one name that run, the newer one counts.
    let mut containers: BTreeMap<&str, (Timestamp, ContainerUsage)> = BTreeMap::new();
    for (id, container) in &summary.containers {
        let newer = containers.get(container.name.as_str()).is_none_or(|(created, _)| *created < container.created_at);
        if container.state != ContainerStateKind::Running || !newer {
            continue;
        }
        let spec = known.and_then(|known| container_named(&known.pod, &container.name));
        let started = known.and_then(|known| started_at(&known.status, id));
        let usage = ContainerUsage {
            name: container.name.clone(),
            id: id.clone(),
            image: spec.and_then(|spec| spec.image.clone()).unwrap_or_else(|| container.image_id.clone()),
            started_at: started.unwrap_or(container.created_at),
            cgroup: index.container(id.as_str()),
            layer: None,
            logs: None,
        };
        containers.insert(&container.name, (container.created_at, usage));
    }
    PodUsage {
        sandbox,
        containers: containers.into_values().map(|(_, container)| container).collect(),
        ..nameless(index, known.map_or_else(|| summary.pod.clone(), |known| known.reference.clone()), known)
    }
}

/// The pod as its status shows it: the sandbox is unknown.
fn unlisted(index: &CgroupIndex<'_>, known: &NamedPod) -> Option<PodUsage> {
    let container = |status: &ContainerStatus| {
        let started_at = status.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0)?;
        let id = id_of(status)?;
        Some(ContainerUsage {
            name: status.name.clone(),
            image: container_named(&known.pod, &status.name).and_then(|spec| spec.image.clone()).unwrap_or_default(),
            started_at,
            cgroup: index.container(id),
            id: ContainerId::from(id),
            layer: None,
            logs: None,
        })
    };
    let mut containers: Vec<_> = statuses(&known.status).filter_map(container).collect();
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    let usage = PodUsage { containers, ..nameless(index, known.reference.clone(), Some(known)) };
    (!usage.containers.is_empty() || usage.cgroup.is_some()).then_some(usage)
}

fn nameless(index: &CgroupIndex<'_>, pod: PodRef, known: Option<&NamedPod>) -> PodUsage {
    PodUsage {
        cgroup: index.pod(&pod.uid),
        started_at: known.and_then(|known| known.status.start_time.as_ref()).map(|time| time.0),
        host_network: known.is_some_and(|known| known.pod.host_network()),
        pod,
        sandbox: None,
        containers: Vec::new(),
        network: None,
        volumes: Vec::new(),
        own_files: None,
    }
}

fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    all.into_iter().flatten().flatten()
}

/// The runtime's id, which the API shows as `containerd://ID`.
fn id_of(status: &ContainerStatus) -> Option<&str> {
    status.container_id.as_deref()?.rsplit_once("://").map(|(_, id)| id)
}

fn started_at(status: &PodStatus, id: &ContainerId) -> Option<Timestamp> {
    let status = statuses(status).find(|status| id_of(status) == Some(id.as_str()))?;
    status.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0)
}

impl PodUsage {
    /// The cgroups through which the network of the pod can be read: that of its sandbox, else of a container. None on the
    /// node's own network (STS-04).
    pub fn network_cgroup(&self) -> Option<&String> {
        if self.host_network {
            return None;
        }
        let sandbox = self.sandbox.as_ref().and_then(|sandbox| sandbox.cgroup.as_ref());
        sandbox.or_else(|| self.containers.iter().find_map(|container| container.cgroup.as_ref()))
    }

    /// Fills in the network.
    pub fn set_network(&mut self, networks: &BTreeMap<String, NetworkUsage>) {
        self.network = self.network_cgroup().and_then(|cgroup| networks.get(cgroup)).cloned();
    }
}

/// Where the files of pods are.
#[derive(Clone, Debug)]
pub struct PodPlaces {
    /// The kubelet's root directory.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub logs: PathBuf,
}

/// A directory or file that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What it takes.
    pub used: DiskUsage,
    /// The file system that it is on, if it is not that of the root directory.
    pub on: Option<FsStats>,
    /// When that was known.
    pub at: Timestamp,
}

/// A volume of a pod, and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDir {
    /// Name in the pod's spec.
    pub name: String,
    /// The claim that it comes from.
    pub claim: Option<String>,
    /// Its bytes are memory: see [`VolumeUsage::elsewhere`].
    pub elsewhere: bool,
    /// Its directory.
    pub path: PathBuf,
}

impl PodPlaces {
    /// The volumes of a pod that have a directory of their own, of those that a container uses. hostPath has none.
    pub fn volumes(&self, pod: &Pod) -> Vec<VolumeDir> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let dir = |volume: &&Volume| {
            let (plugin, elsewhere) = plugin_of(volume)?;
            let path = self.pod(uid).join("volumes").join(plugin).join(&volume.name);
            Some(VolumeDir { name: volume.name.clone(), claim: None, elsewhere, path })
        };
        used(pod).iter().filter_map(dir).collect()
    }

    /// Files of a pod that are neither volumes nor logs: its hosts file and termination messages.
    pub fn own_files(&self, uid: &PodUid) -> [PathBuf; 2] {
        let pod = self.pod(uid.as_str());
        [pod.join("etc-hosts"), pod.join("containers")]
    }

    /// Directory of a container's logs.
    pub fn container_logs(&self, pod: &PodRef, container: &str) -> PathBuf {
        let PodRef { namespace, name, uid } = pod;
        self.logs.join(format!("{namespace}_{name}_{uid}")).join(container)
    }

    fn pod(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// All that is measured of a pod, each with whether it may be a file system of its own.
    pub fn of(&self, usage: &PodUsage, known: Option<&NamedPod>) -> Vec<(PathBuf, OwnFileSystem)> {
        let mut all: Vec<_> =
            self.own_files(&usage.pod.uid).into_iter().map(|path| (path, OwnFileSystem::No)).collect();
        all.extend(
            usage
                .containers
                .iter()
                .map(|container| (self.container_logs(&usage.pod, &container.name), OwnFileSystem::No)),
        );
        for volume in known.map(|known| self.volumes(&known.pod)).unwrap_or_default() {
            all.push((volume.path, if volume.elsewhere { OwnFileSystem::Maybe } else { OwnFileSystem::No }));
        }
        all
    }

    /// Fills in what was measured.
    pub fn fill(
        &self,
        usage: &mut PodUsage,
        known: Option<&NamedPod>,
        measured: &BTreeMap<OsString, Measured>,
        disks: (Option<FsStats>, &BTreeMap<ContainerId, LayerUsage>),
    ) {
        let (nodefs, layers) = disks;
        let used = |path: &Path| measured.get(path.as_os_str()).map(|measured| measured.used);
        for container in &mut usage.containers {
            container.layer = layers.get(&container.id).copied();
            container.logs = used(&self.container_logs(&usage.pod, &container.name));
        }
        let own: Vec<DiskUsage> = self.own_files(&usage.pod.uid).iter().filter_map(|path| used(path)).collect();
        usage.own_files = (!own.is_empty()).then(|| DiskUsage {
            bytes: own.iter().map(|one| one.bytes).sum(),
            inodes: own.iter().map(|one| one.inodes).sum(),
        });
        let volumes = known.map(|known| self.volumes(&known.pod)).unwrap_or_default();
        let volume = |volume: VolumeDir| {
            let found = measured.get(volume.path.as_os_str())?;
            let VolumeDir { name, claim, elsewhere, .. } = volume;
            Some(VolumeUsage { name, claim, elsewhere, used: found.used, on: found.on.or(nodefs), at: found.at })
        };
        usage.volumes = volumes.into_iter().filter_map(volume).collect();
    }
}

/// Whether a directory may have a file system of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnFileSystem {
    /// It is on that of the root directory.
    No,
    /// Memory may be mounted on it.
    Maybe,
}

/// The directory of the volumes of a plugin, and whether their bytes are memory.
/// upstream: volume/util/util.go IsLocalEphemeralVolume (v1.36); the other kinds are in memory
fn plugin_of(volume: &Volume) -> Option<(&'static str, bool)> {
    let in_memory = |medium: &str| !medium.is_empty();
    if let Some(empty) = &volume.empty_dir {
        return Some(("kubernetes.io~empty-dir", in_memory(empty.medium.as_deref().unwrap_or_default())));
    }
    let kinds = [
        (volume.config_map.is_some(), "kubernetes.io~configmap", false),
        (volume.secret.is_some(), "kubernetes.io~secret", true),
        (volume.projected.is_some(), "kubernetes.io~projected", true),
        (volume.downward_api.is_some(), "kubernetes.io~downward-api", true),
    ];
    kinds.into_iter().find(|(is, _, _)| *is).map(|(_, plugin, elsewhere)| (plugin, elsewhere))
}

#[cfg(test)]
mod tests;
