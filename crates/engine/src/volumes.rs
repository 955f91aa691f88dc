//! Volumes of a pod: each is served by the plugin of its kind (section 22; attach, device and CSI come with that wave).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_core::id::PodUid;
use rubelet_core::pod::PodExt;

use crate::chain::Chain;
use crate::node::Node;
use crate::ports::VolumeRequest;

/// Volumes that could not be mounted, told as upstream tells it (SYNC-10).
#[derive(Debug, thiserror::Error)]
#[error(
    "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process volumes=[]: {problem}",
    .unmounted.join(" ")
)]
pub(crate) struct MountAllError {
    /// Names of the volumes that are not there.
    pub(crate) unmounted: Vec<String>,
    /// What went wrong first.
    pub(crate) problem: String,
}

/// Makes every volume of the pod usable and answers with their places. Stops at the first that can't be.
#[doc(alias = "WaitForAttachAndMount")]
pub(crate) async fn mount_all(node: &Node, pod: &Arc<Pod>) -> Result<BTreeMap<String, PathBuf>, MountAllError> {
    let spec = pod.pod_spec();
    let volumes = spec.and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    let fs_group = spec.and_then(|s| s.security_context.as_ref()).and_then(|c| c.fs_group);
    let mut mounted = BTreeMap::new();
    for (done, volume) in volumes.iter().enumerate() {
        let unmounted = || volumes.iter().skip(done).map(|v| v.name.clone()).collect();
        let Some(plugin) = node.ports.volumes.iter().find(|p| p.serves(volume)) else {
            let problem = format!("no volume plugin serves the source of volume \"{}\" yet", volume.name);
            return Err(MountAllError { unmounted: unmounted(), problem });
        };
        let request = VolumeRequest { pod: Arc::clone(pod), volume: volume.clone(), fs_group };
        match plugin.set_up(&request).await {
            Ok(path) => mounted.insert(volume.name.clone(), path),
            Err(err) => {
                let problem = format!("MountVolume.SetUp failed for volume \"{}\" : {}", volume.name, Chain(&err));
                return Err(MountAllError { unmounted: unmounted(), problem });
            }
        };
    }
    Ok(mounted)
}

/// Undoes every volume of the pod and answers with what went wrong. It asks the plugins what they find on disk, so it
/// needs no spec: the pod may be known only by its UID.
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
            if let Err(err) = plugin.tear_down(uid, &volume).await {
                problems.push(format!("UnmountVolume.TearDown failed for volume \"{volume}\": {}", Chain(&err)));
            }
        }
    }
    problems
}
