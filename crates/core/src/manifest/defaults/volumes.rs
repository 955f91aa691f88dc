//! Defaults of one volume.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Volume};

use crate::image::PullPolicy;

/// Mode of files made from secrets, config maps, the downward API and projections.
const FILE_MODE: i32 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn apply(volume: &mut Volume) {
    if has_no_source(volume) {
        volume.empty_dir.get_or_insert_default();
    }
    if let Some(source) = &mut volume.image {
        let reference = source.reference.as_deref().unwrap_or_default();
        source.pull_policy.get_or_insert_with(|| PullPolicy::by_default(reference).as_str().to_owned());
    }
    if let Some(source) = &mut volume.host_path {
        source.type_.get_or_insert_default();
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(FILE_MODE);
        source.items.iter_mut().flatten().for_each(downward_file);
    }
    if let Some(source) = &mut volume.projected {
        source.default_mode.get_or_insert(FILE_MODE);
        for part in source.sources.iter_mut().flatten() {
            let files = part.downward_api.iter_mut().flat_map(|files| files.items.iter_mut().flatten());
            files.for_each(downward_file);
            if let Some(token) = &mut part.service_account_token {
                token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
            }
        }
    }
    network_disks(volume);
    let claim = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut());
    if let Some(claim) = claim {
        claim.spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    }
}

fn downward_file(file: &mut DownwardAPIVolumeFile) {
    if let Some(field) = &mut file.field_ref {
        field.api_version.get_or_insert_with(|| "v1".to_owned());
    }
}

fn network_disks(volume: &mut Volume) {
    if let Some(source) = &mut volume.iscsi {
        source.iscsi_interface.get_or_insert_with(|| "default".to_owned());
    }
    if let Some(source) = &mut volume.rbd {
        source.pool.get_or_insert_with(|| "rbd".to_owned());
        source.user.get_or_insert_with(|| "admin".to_owned());
        source.keyring.get_or_insert_with(|| "/etc/ceph/keyring".to_owned());
    }
    if let Some(source) = &mut volume.azure_disk {
        source.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
        source.fs_type.get_or_insert_with(|| "ext4".to_owned());
        source.read_only.get_or_insert(false);
        source.kind.get_or_insert_with(|| "Shared".to_owned());
    }
    if let Some(source) = &mut volume.scale_io {
        source.storage_mode.get_or_insert_with(|| "ThinProvisioned".to_owned());
        source.fs_type.get_or_insert_with(|| "xfs".to_owned());
    }
}

/// A volume that says only its name is an emptyDir.
fn has_no_source(volume: &Volume) -> bool {
    let bare = Volume { name: volume.name.clone(), ..Volume::default() };
    *volume == bare
}
