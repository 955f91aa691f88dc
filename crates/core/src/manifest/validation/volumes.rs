//! Volumes: their names, and that each has exactly one sound source.
//!
//! upstream: core/validation/validation.go ValidateVolumes, validateVolumeSource (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::faults::Faults;
use super::{containers, disks, names, projected, text};
use crate::manifest::field::Path;
use crate::manifest::quantity::Quantity;

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const MAX_MODE: i64 = 0o777;

/// Checks all volumes and returns the sound ones by name.
pub(super) fn validate<'a>(
    spec: &'a PodSpec,
    meta: &ObjectMeta,
    at: &Path,
    faults: &mut Faults,
) -> BTreeMap<&'a str, &'a Volume> {
    let pod = text(meta.name.as_ref());
    let volumes = || spec.volumes.iter().flatten();
    let created: Vec<String> =
        volumes().filter(|volume| volume.ephemeral.is_some()).map(|volume| format!("{pod}-{}", volume.name)).collect();
    let mut sound = BTreeMap::new();
    for (index, volume) in volumes().enumerate() {
        let at = at.index(index);
        let before = faults.count();
        source(volume, pod, &at, faults);
        faults.required_rule(&at.child("name"), &volume.name, names::dns_label);
        if sound.contains_key(volume.name.as_str()) {
            faults.duplicate(&at.child("name"), &volume.name);
        }
        if faults.none_since(before) {
            sound.insert(volume.name.as_str(), volume);
        }
        if let Some(claim) = volume.persistent_volume_claim.as_ref().filter(|c| created.contains(&c.claim_name)) {
            let at = at.child("persistentVolumeClaim").child("claimName");
            faults.invalid(&at, &claim.claim_name, "is the claim of an ephemeral volume");
        }
        if spec.service_account_name.is_none() {
            tokens_without_account(volume, &at, faults);
        }
    }
    sound
}

fn tokens_without_account(volume: &Volume, at: &Path, faults: &mut Faults) {
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    for (index, source) in sources.enumerate() {
        if source.service_account_token.is_some() {
            let at = at.child("projected").child("sources").index(index).child("serviceAccountToken");
            faults.forbidden(&at, "needs a serviceAccountName");
        }
    }
}

/// The kinds of volume in the order of upstream's rules, the first one being the volume's source.
fn kinds(volume: &Volume) -> [(bool, &'static str); 30] {
    [
        (volume.empty_dir.is_some(), "emptyDir"),
        (volume.host_path.is_some(), "hostPath"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (volume.secret.is_some(), "secret"),
        (volume.nfs.is_some(), "nfs"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.flocker.is_some(), "flocker"),
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.rbd.is_some(), "rbd"),
        (volume.cinder.is_some(), "cinder"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.downward_api.is_some(), "downwardAPI"),
        (volume.fc.is_some(), "fc"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.config_map.is_some(), "configMap"),
        (volume.azure_file.is_some(), "azureFile"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.storageos.is_some(), "storageos"),
        (volume.projected.is_some(), "projected"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.csi.is_some(), "csi"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.image.is_some(), "image"),
    ]
}

fn source(volume: &Volume, pod: &str, at: &Path, faults: &mut Faults) {
    let kinds = kinds(volume);
    let mut given = kinds.iter().filter_map(|(is_set, name)| is_set.then_some(*name));
    let Some(kind) = given.next() else {
        return faults.required(at, "must say what kind of volume it is");
    };
    for other in given {
        faults.forbidden(&at.child(other), "a volume has only one kind");
    }
    let place = at.child(kind);
    match kind {
        "emptyDir" => empty_dir(volume, &place, faults),
        "hostPath" => host_path(volume, &place, faults),
        "secret" | "configMap" | "downwardAPI" | "projected" => projected::validate(volume, kind, &place, faults),
        "image" => {
            let policy = volume.image.as_ref().and_then(|image| image.pull_policy.as_ref());
            containers::pull_policy(text(policy), &place.child("pullPolicy"), faults);
        }
        "ephemeral" => ephemeral(volume, pod, at, faults),
        _ => disks::validate(volume, kind, &place, faults),
    }
    if let Some(iscsi) = &volume.iscsi
        && iscsi.initiator_name.is_some()
        && volume.name.len() + 1 + iscsi.target_portal.len() > 64
    {
        faults.invalid(&at.child("name"), &volume.name, "with the target portal it must be under 64 characters");
    }
}

fn empty_dir(volume: &Volume, at: &Path, faults: &mut Faults) {
    let limit = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref());
    if limit.and_then(|limit| limit.0.parse::<Quantity>().ok()).is_some_and(|limit| limit.sign() < 0) {
        faults.forbidden(&at.child("sizeLimit"), "must not be negative");
    }
}

fn host_path(volume: &Volume, at: &Path, faults: &mut Faults) {
    let Some(source) = &volume.host_path else { return };
    if source.path.is_empty() {
        return faults.required(&at.child("path"), "");
    }
    faults.rule(&at.child("path"), &source.path, names::no_backsteps(&source.path));
    faults.one_of(&at.child("type"), text(source.type_.as_ref()), &HOST_PATH_TYPES);
}

fn ephemeral(volume: &Volume, pod: &str, at: &Path, faults: &mut Faults) {
    if volume.ephemeral.as_ref().is_some_and(|source| source.volume_claim_template.is_none()) {
        faults.required(&at.child("ephemeral").child("volumeClaimTemplate"), "");
    }
    let claim = format!("{pod}-{}", volume.name);
    if !volume.name.is_empty() && names::dns_subdomain(&claim).is_err() {
        faults.invalid(&at.child("name"), &volume.name, format!("{claim:?} is not a valid name for its claim"));
    }
}

pub(super) fn mode(mode: Option<i32>, at: &Path, faults: &mut Faults) {
    if let Some(mode) = mode.filter(|mode| !(0..=MAX_MODE).contains(&i64::from(*mode))) {
        faults.invalid(at, format!("{mode:#o}"), "must be between 0 and 0o777 (511)");
    }
}

pub(super) fn key_to_path(item: &KeyToPath, at: &Path, faults: &mut Faults) {
    faults.required_text(&at.child("key"), &item.key);
    faults.required_rule(&at.child("path"), &item.path, names::volume_file_path);
    mode(item.mode, &at.child("mode"), faults);
}
