//! Which volumes of a pod are set up, and when setting up one that failed is tried again (section 22).

mod memory;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Volume, VolumeDevice, VolumeMount};

pub use memory::{MountEvents, VolumeMemory};

use crate::pod::PodExt;

/// Volumes that a container mounts or has as a device; others are not set up (VOL-04).
/// upstream: pkg/volume/util/util.go GetPodVolumeNames (v1.36)
#[doc(alias = "getExpectedVolumes")]
pub fn used<'a>(pod: &'a Pod) -> Vec<&'a Volume> {
    let Some(spec) = pod.pod_spec() else { return Vec::new() };
    let mut names = BTreeSet::new();
    let mut add = |mounts: &'a Option<Vec<VolumeMount>>, devices: &'a Option<Vec<VolumeDevice>>| {
        names.extend(mounts.iter().flatten().map(|mount| mount.name.as_str()));
        names.extend(devices.iter().flatten().map(|device| device.name.as_str()));
    };
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        add(&container.volume_mounts, &container.volume_devices);
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        add(&container.volume_mounts, &container.volume_devices);
    }
    spec.volumes.iter().flatten().filter(|volume| names.contains(volume.name.as_str())).collect()
}

/// What a volume is, as its spec calls it: the one field besides the name.
pub fn kind(volume: &Volume) -> String {
    let fields = serde_json::to_value(volume).ok();
    let fields = fields.as_ref().and_then(serde_json::Value::as_object);
    let kind = fields.into_iter().flat_map(|fields| fields.keys()).find(|key| *key != "name");
    kind.cloned().unwrap_or_else(|| "emptyDir".to_owned())
}

#[cfg(test)]
mod tests;
