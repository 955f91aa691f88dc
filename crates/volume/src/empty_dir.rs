//! emptyDir: a directory that lives as long as its pod, on disk or in memory (22.2).

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::qos::{PodCgroupPolicy, pod_values};
use rubelet_core::resources::{Amount, HUGEPAGES_PREFIX, has_pod_level_resources, hugepage_size};
use rubelet_engine::ports::{
    MemoryFs, MountedFs, ReadyVolume, VolumeDirs, VolumeError, VolumePlace, VolumePlugin, VolumeRequest, VolumeState,
};

pub(crate) const NAME: &str = "kubernetes.io/empty-dir";

/// Every user of the pod may write. upstream: empty_dir.go perm (v1.36)
pub(crate) const MODE: u32 = 0o777;

const HUGE_PAGES: &str = "HugePages";

/// The plugin.
#[doc(alias = "emptyDirPlugin")]
pub struct EmptyDir {
    dirs: Arc<dyn VolumeDirs>,
    node_memory: u64,
}

impl EmptyDir {
    /// Volumes in `dirs`. `node_memory` is what the node has to give to pods, in bytes: no volume in memory is larger.
    pub fn new(dirs: Arc<dyn VolumeDirs>, node_memory: u64) -> Self {
        Self { dirs, node_memory }
    }
}

/// Where the volume's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Medium {
    Disk,
    Memory {
        size: Option<u64>,
    },
    HugePages {
        /// The size that the medium names, if it does.
        named: Option<u64>,
    },
}

#[async_trait]
impl VolumePlugin for EmptyDir {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, volume: &Volume) -> bool {
        volume.empty_dir.is_some()
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let source = request.volume.empty_dir.clone().unwrap_or_default();
        let medium = self.medium(&source, &request.pod)?;
        let group = group(request)?;
        let place = place(&PodRef::of(&request.pod).uid, &request.volume.name);
        let now = self.dirs.look(&place).await?;
        if is_done(&medium, &now) {
            return Ok(now.path.into());
        }
        let path = self.make(&place, &medium, &now, &request.pod).await?;
        if let Some(group) = group
            // A file that cannot be given away is no reason to keep the pod from starting.
            // upstream: empty_dir.go SetUpAt ignores the error (v1.36)
            && let Err(err) = self.dirs.give_to_group(&place, group).await
        {
            tracing::warn!(volume = place.volume, group, err = %err, "Volume cannot be given to its group in full");
        }
        self.dirs.mark_ready(&place).await?;
        Ok(path.into())
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        Ok(self.dirs.list(uid, NAME).await?)
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        Ok(self.dirs.remove(&place(uid, volume)).await?)
    }
}

impl EmptyDir {
    fn medium(&self, source: &EmptyDirVolumeSource, pod: &Pod) -> Result<Medium, VolumeError> {
        match source.medium.as_deref().unwrap_or_default() {
            "" => Ok(Medium::Disk),
            "Memory" => Ok(Medium::Memory { size: tmpfs_size(self.node_memory, source.size_limit.as_ref(), pod) }),
            HUGE_PAGES => Ok(Medium::HugePages { named: None }),
            other => {
                let size = other.strip_prefix("HugePages-").and_then(|size| Amount::parse(size).ok());
                match size.and_then(|size| u64::try_from(size.value()).ok()).filter(|size| *size > 0) {
                    Some(size) => Ok(Medium::HugePages { named: Some(size) }),
                    None => Err(VolumeError::Refused(format!("unknown storage medium {other:?}"))),
                }
            }
        }
    }

    async fn make(
        &self,
        place: &VolumePlace,
        medium: &Medium,
        now: &VolumeState,
        pod: &Pod,
    ) -> Result<PathBuf, VolumeError> {
        let kind = match medium {
            Medium::Disk => return Ok(self.dirs.make(place, MODE).await?),
            Medium::Memory { .. } if now.mounted == Some(MountedFs::Tmpfs) => return Ok(now.path.clone()),
            Medium::Memory { size } => MemoryFs::Tmpfs { size: *size },
            Medium::HugePages { named } => match (now.mounted, named) {
                (Some(MountedFs::Hugetlbfs { page_size }), Some(named)) if page_size != *named => {
                    return Err(VolumeError::Refused(format!(
                        "pod {}: mounted dir {} pagesize '{}' and requested medium size '{}' differ",
                        place.uid,
                        now.path.display(),
                        in_words(page_size),
                        in_words(*named)
                    )));
                }
                (Some(MountedFs::Hugetlbfs { .. }), _) => return Ok(now.path.clone()),
                _ => MemoryFs::Hugetlbfs { page_size: page_size(*named, pod)? },
            },
        };
        let path = self.dirs.make(place, MODE).await?;
        self.dirs.mount(place, &kind).await?;
        Ok(path)
    }
}

/// The group that the volume has to be given to.
pub(crate) fn group(request: &VolumeRequest) -> Result<Option<u32>, VolumeError> {
    let Some(group) = request.fs_group else { return Ok(None) };
    let out_of_range = |_| VolumeError::Refused(format!("fsGroup {group} is out of range"));
    u32::try_from(group).map(Some).map_err(out_of_range)
}

/// The least of what the node has, what the pod may use and what the volume asks for.
/// upstream: empty_dir.go calculateEmptyDirMemorySize (v1.36)
pub(crate) fn tmpfs_size(node_memory: u64, size_limit: Option<&Quantity>, pod: &Pod) -> Option<u64> {
    let pod_limit = pod_values(pod, &PodCgroupPolicy::default()).memory_limit;
    let volume_limit = size_limit.map(|size| Amount::of(size).value());
    let limits = [pod_limit, volume_limit].into_iter().flatten();
    let limits = limits.filter_map(|limit| u64::try_from(limit).ok());
    limits.chain([node_memory]).filter(|limit| *limit > 0).min()
}

fn place(uid: &PodUid, volume: &str) -> VolumePlace {
    VolumePlace { uid: uid.clone(), plugin: NAME, volume: volume.to_owned() }
}

/// The marker alone is not enough: someone may have removed the directory, or a reboot the mount.
fn is_done(medium: &Medium, now: &VolumeState) -> bool {
    now.ready
        && match medium {
            Medium::Disk => now.exists,
            Medium::Memory { .. } => now.mounted.is_some(),
            Medium::HugePages { .. } => false,
        }
}

/// The page size that the pod asks for: the medium's if it names one, else the only one that containers request.
/// upstream: empty_dir.go getPageSizeMountOption (v1.36)
fn page_size(named: Option<u64>, pod: &Pod) -> Result<u64, VolumeError> {
    let spec = pod.spec.as_ref();
    let containers =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let of_pod = spec.and_then(|spec| spec.resources.as_ref()).filter(|_| has_pod_level_resources(pod));
    let lists = of_pod.into_iter().chain(containers.filter_map(|container| container.resources.as_ref()));
    let names = lists.filter_map(|resources| resources.requests.as_ref()).flat_map(|requests| requests.keys());
    let mut found = None;
    for name in names.filter(|name| name.starts_with(HUGEPAGES_PREFIX)) {
        let size = hugepage_size(name)
            .ok_or_else(|| VolumeError::Refused(format!("{name:?} does not name a size of huge pages")))?;
        match (named, found) {
            (Some(named), _) if size != named => {}
            (None, Some(other)) if size != other => {
                return Err(VolumeError::Refused(format!(
                    "medium: {HUGE_PAGES} can't be used if container requests multiple huge page sizes"
                )));
            }
            _ => found = Some(size),
        }
    }
    found.ok_or_else(|| {
        let medium = named.map_or_else(|| HUGE_PAGES.to_owned(), |size| format!("{HUGE_PAGES}-{}", in_words(size)));
        let why = "hugePages storage requested, but there is no resource request for huge pages";
        VolumeError::Refused(format!("medium {medium}: {why}"))
    })
}

/// A page size as the API writes it: `2Mi`.
fn in_words(bytes: u64) -> String {
    let mut value = bytes;
    let mut unit = "";
    for next in ["Ki", "Mi", "Gi", "Ti"] {
        if value == 0 || !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        unit = next;
    }
    format!("{value}{unit}")
}

#[cfg(test)]
mod tests;
