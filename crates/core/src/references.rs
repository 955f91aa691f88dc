//! Which config maps and secrets a pod uses: all that it is given of them, and all that is watched for it (SEC-01).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{LocalObjectReference, Pod, Volume};

use crate::env::references;
use crate::pod::PodExt;

/// How many objects of a kind are watched for one pod. Each has a watch of its own, and API servers carry 250 on one
/// connection; a pod that names more is refused at admission, and one that gains more afterwards, by way of ephemeral
/// containers, has the rest fetched when they are needed.
pub const MAX_OBJECTS: usize = 500;

/// Names of objects in a pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectNames {
    /// Config maps.
    pub config_maps: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
}

/// The objects that are watched for `pod`: those that it refers to, up to [`MAX_OBJECTS`] of each kind.
pub fn objects_of(pod: &Pod) -> ObjectNames {
    let mut names = all_objects_of(pod);
    for names in [&mut names.config_maps, &mut names.secrets] {
        while names.len() > MAX_OBJECTS {
            names.pop_last();
        }
    }
    names
}

/// The objects that `pod` refers to: in environments, volumes, and to pull images.
///
/// upstream: pkg/api/v1/pod/util.go VisitPodSecretNames, VisitPodConfigmapNames (v1.36)
#[doc(alias = "VisitPodSecretNames")]
#[doc(alias = "VisitPodConfigmapNames")]
pub fn all_objects_of(pod: &Pod) -> ObjectNames {
    let mut names = ObjectNames::default();
    let Some(spec) = pod.pod_spec() else { return names };
    names.secrets.extend(spec.image_pull_secrets.iter().flatten().map(|r| r.name.clone()));
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(crate::launch::as_container);
    let ephemeral: Vec<_> = ephemeral.collect();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers).chain(&ephemeral) {
        let used = references(container);
        names.config_maps.extend(used.config_maps);
        names.secrets.extend(used.secrets);
    }
    let mounted = mounted_by(pod);
    names.config_maps.extend(mounted.config_maps);
    names.secrets.extend(mounted.secrets);
    names.config_maps.remove("");
    names.secrets.remove("");
    names
}

/// Those of them that are mounted: a change shows in the running pod, where an environment is read at its start alone.
pub fn mounted_by(pod: &Pod) -> ObjectNames {
    let mut names = ObjectNames::default();
    for volume in pod.pod_spec().iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        of_volume(volume, &mut names);
    }
    names.config_maps.remove("");
    names.secrets.remove("");
    names
}

fn of_volume(volume: &Volume, names: &mut ObjectNames) {
    let local = |r: &Option<LocalObjectReference>| r.as_ref().map(|r| r.name.clone());
    let secrets = &mut names.secrets;
    secrets.extend(volume.secret.as_ref().and_then(|s| s.secret_name.clone()));
    secrets.extend(volume.azure_file.as_ref().map(|v| v.secret_name.clone()));
    secrets.extend(volume.cephfs.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.cinder.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.flex_volume.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.rbd.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.scale_io.as_ref().map(|v| v.secret_ref.name.clone()));
    secrets.extend(volume.iscsi.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.storageos.as_ref().and_then(|v| local(&v.secret_ref)));
    secrets.extend(volume.csi.as_ref().and_then(|v| local(&v.node_publish_secret_ref)));
    names.config_maps.extend(volume.config_map.as_ref().map(|m| m.name.clone()));
    for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
        names.secrets.extend(source.secret.as_ref().map(|s| s.name.clone()));
        names.config_maps.extend(source.config_map.as_ref().map(|m| m.name.clone()));
    }
}
