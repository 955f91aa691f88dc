//! Volumes of a pod: each is served by the plugin of its kind (section 22). Attaching, block devices and CSI are missing.
//!
//! There is no task and no timer here. A pod's sync job sets its volumes up, and every later one sets those up again whose
//! content may change, such as a config map's (VOL-06). A changed object leads to a sync job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use rubelet_core::id::PodUid;
use rubelet_core::pod::PodExt;
use rubelet_core::volumes::{kind, used};

use crate::chain::Chain;
use crate::metrics::VolumeOperation;
use crate::node::Node;
use crate::ports::{ReadyVolume, VolumePlugin, VolumeRequest};

/// Volumes that are set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// Where they are, by name.
    pub(crate) paths: BTreeMap<String, PathBuf>,
    /// When the first of them has to be set up again.
    pub(crate) renew_at: Option<Timestamp>,
}

impl Mounted {
    fn add(&mut self, name: String, ready: ReadyVolume) {
        self.paths.insert(name, ready.path);
        self.renew_at = [self.renew_at, ready.renew_at].into_iter().flatten().min();
    }
}

/// Volumes that could not be mounted, with upstream's message (SYNC-10).
#[derive(Debug, thiserror::Error)]
#[error(
    "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[]: {}",
    .unmounted.join(" "), .problems.join("; ")
)]
pub(crate) struct MountAllError {
    /// Names of the volumes that are not mounted.
    pub(crate) unmounted: Vec<String>,
    /// What went wrong with each.
    pub(crate) problems: Vec<String>,
}

/// Sets up all volumes that a container uses, concurrently. A failure of one does not hold up the others.
#[doc(alias = "WaitForAttachAndMount")]
pub(crate) async fn mount_all(node: &Node, pod: &Arc<Pod>) -> Result<Mounted, MountAllError> {
    let used = used(pod);
    let results = join_all(used.iter().map(|volume| set_up(node, pod, volume))).await;
    let (mut mounted, mut unmounted, mut problems) = (Mounted::default(), Vec::new(), Vec::new());
    for (volume, result) in used.iter().zip(results) {
        match result {
            Ok(ready) => mounted.add(volume.name.clone(), ready),
            Err(problem) => {
                unmounted.push(volume.name.clone());
                problems.push(problem);
            }
        }
    }
    if problems.is_empty() { Ok(mounted) } else { Err(MountAllError { unmounted, problems }) }
}

/// Every volume that a container uses is among these.
pub(crate) fn has_all(pod: &Pod, mounted: &BTreeMap<String, PathBuf>) -> bool {
    used(pod).iter().all(|volume| mounted.contains_key(&volume.name))
}

/// The result of bringing a pod's volumes up to date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refreshed {
    /// When the first of them has to be set up again.
    pub(crate) renew_at: Option<Timestamp>,
    /// The failures. Such a volume keeps its old content.
    pub(crate) problems: Vec<String>,
}

/// Brings those volumes up to date whose content may change; `None` if the pod has none.
#[doc(alias = "MarkRemountRequired")]
pub(crate) async fn refresh(node: &Node, pod: &Arc<Pod>) -> Option<Refreshed> {
    let mut used = used(pod);
    used.retain(|volume| plugin_of(node, volume).is_some_and(|plugin| plugin.follows_changes()));
    if used.is_empty() {
        return None;
    }
    let mut refreshed = Refreshed::default();
    for result in join_all(used.iter().map(|volume| set_up(node, pod, volume))).await {
        match result {
            Ok(ready) => {
                refreshed.renew_at = [refreshed.renew_at, ready.renew_at].into_iter().flatten().min();
            }
            Err(problem) => refreshed.problems.push(problem),
        }
    }
    Some(refreshed)
}

pub(crate) fn plugin_of<'a>(node: &'a Node, volume: &Volume) -> Option<&'a Arc<dyn VolumePlugin>> {
    node.ports.volumes.iter().find(|plugin| plugin.serves(volume))
}

async fn set_up(node: &Node, pod: &Arc<Pod>, volume: &Volume) -> Result<ReadyVolume, String> {
    let name = &volume.name;
    let Some(plugin) = plugin_of(node, volume) else {
        let why = unserved(node, volume);
        return Err(format!("MountVolume.FindPluginBySpec failed for volume \"{name}\" : {why}"));
    };
    let context = pod.pod_spec().and_then(|spec| spec.security_context.as_ref());
    let fs_group = context.and_then(|context| context.fs_group);
    let request = VolumeRequest { pod: Arc::clone(pod), volume: volume.clone(), fs_group };
    let began = node.clock.mono();
    let result = plugin.set_up(&request).await;
    let took = node.clock.mono().since(began);
    node.metrics.volumes.done(plugin.name(), VolumeOperation::Mount, result.is_ok(), took);
    result.map_err(|err| format!("MountVolume.SetUp failed for volume \"{name}\" : {}", Chain(&err)))
}

/// The message for a volume that no plugin serves.
fn unserved(node: &Node, volume: &Volume) -> String {
    let kind = kind(volume);
    let of_api = volume.config_map.is_some() || volume.secret.is_some() || volume.projected.is_some();
    if node.ports.cluster.is_none() && of_api {
        return format!("{kind} volumes need an API server, and this node has none");
    }
    format!("{kind} volumes are not supported on this node yet")
}

/// Tears down every volume of the pod and returns the failures. The plugins find the volumes on disk, so no spec is
/// needed: of an orphan only the UID may be known.
pub(crate) async fn unmount_all(node: &Node, uid: &PodUid) -> Vec<String> {
    let mut problems = Vec::new();
    if let Err(err) = node.ports.subpaths.unbind_all(uid).await {
        problems.push(Chain(&err).to_string());
    }
    for plugin in &node.ports.volumes {
        let found = match plugin.volumes_of(uid).await {
            Ok(found) => found,
            Err(err) => {
                problems.push(Chain(&err).to_string());
                continue;
            }
        };
        for volume in found {
            let began = node.clock.mono();
            let result = plugin.tear_down(uid, &volume).await;
            let took = node.clock.mono().since(began);
            node.metrics.volumes.done(plugin.name(), VolumeOperation::Unmount, result.is_ok(), took);
            if let Err(err) = result {
                problems.push(format!("UnmountVolume.TearDown failed for volume \"{volume}\": {}", Chain(&err)));
            }
        }
    }
    problems
}
