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

/// What a pod waits for while its directories and volumes are set up, in words. Volumes that need something from elsewhere
/// are named with it: these are the ones that may take long.
pub fn setting_up(pod: &Pod) -> String {
    let needs: Vec<String> =
        used(pod).into_iter().filter_map(|volume| Some((volume, needs(volume)?))).map(of).collect();
    match needs.len() {
        0 => "its cgroup, directories and volumes".to_owned(),
        _ => format!("its cgroup, directories and volumes: {}", needs.join(", ")),
    }
}

fn of((volume, needs): (&Volume, Vec<String>)) -> String {
    format!("{} ({})", volume.name, needs.join(", "))
}

/// The objects that the content of a volume comes from; `None` for a volume of the node itself.
fn needs(volume: &Volume) -> Option<Vec<String>> {
    let named = |kind: &str, name: Option<&str>| format!("{kind} {}", name.unwrap_or_default());
    if let Some(secret) = &volume.secret {
        return Some(vec![named("secret", secret.secret_name.as_deref())]);
    }
    if let Some(map) = &volume.config_map {
        return Some(vec![named("config map", Some(&map.name))]);
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(vec![named("claim", Some(&claim.claim_name))]);
    }
    if let Some(csi) = &volume.csi {
        return Some(vec![named("driver", Some(&csi.driver))]);
    }
    let sources = volume.projected.as_ref()?.sources.iter().flatten();
    let needs: Vec<String> = sources
        .filter_map(|source| {
            let secret = source.secret.as_ref().map(|secret| named("secret", Some(&secret.name)));
            let map = source.config_map.as_ref().map(|map| named("config map", Some(&map.name)));
            let token = source.service_account_token.as_ref().map(|_| "service account token".to_owned());
            secret.or(map).or(token)
        })
        .collect();
    (!needs.is_empty()).then_some(needs)
}

#[cfg(test)]
mod tests;
