//! Volumes that lie somewhere else: network file systems, disks of clouds, claims and drivers.
//!
//! upstream: core/validation/validation.go, the functions named after each volume source (v1.36)

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, FCVolumeSource, ISCSIVolumeSource, QuobyteVolumeSource, Volume,
};

use super::faults::Faults;
use super::{names, text};
use crate::manifest::field::Path;

const DRIVER_LENGTH: usize = 63;
const TENANT_LENGTH: usize = 64;

pub(super) fn validate(volume: &Volume, kind: &str, at: &Path, faults: &mut Faults) {
    for (name, value) in required(volume, kind) {
        faults.required_text(&at.child(name), value);
    }
    match kind {
        "gitRepo" => {
            let directory = text(volume.git_repo.as_ref().and_then(|source| source.directory.as_ref()));
            faults.rule(&at.child("directory"), directory, names::descending_path(directory));
        }
        "gcePersistentDisk" => {
            partition(volume.gce_persistent_disk.as_ref().and_then(|source| source.partition), at, faults);
        }
        "awsElasticBlockStore" => {
            partition(volume.aws_elastic_block_store.as_ref().and_then(|source| source.partition), at, faults);
        }
        "nfs" => {
            let path = volume.nfs.as_ref().map(|source| source.path.as_str()).unwrap_or_default();
            if !path.starts_with('/') {
                faults.invalid(&at.child("path"), path, "must be an absolute path");
            }
        }
        "iscsi" => volume.iscsi.iter().for_each(|source| iscsi(source, at, faults)),
        "fc" => volume.fc.iter().for_each(|source| fibre_channel(source, at, faults)),
        "quobyte" => volume.quobyte.iter().for_each(|source| quobyte(source, at, faults)),
        "azureDisk" => volume.azure_disk.iter().for_each(|source| azure_disk(source, at, faults)),
        "flocker" => flocker(volume, at, faults),
        "rbd" | "cephfs" => monitors(volume, at, faults),
        "flexVolume" => flex_options(volume, at, faults),
        "cinder" => {
            let secret = volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref());
            secret_name(secret.map(|secret| &secret.name), at, faults);
        }
        "storageos" => storage_os(volume, at, faults),
        "csi" => csi(volume, at, faults),
        _ => {}
    }
}

/// The texts that each kind cannot do without.
fn required<'a>(volume: &'a Volume, kind: &str) -> Vec<(&'static str, &'a str)> {
    let fields = match kind {
        "gitRepo" => volume.git_repo.as_ref().map(|source| vec![("repository", source.repository.as_str())]),
        "gcePersistentDisk" => {
            volume.gce_persistent_disk.as_ref().map(|source| vec![("pdName", source.pd_name.as_str())])
        }
        "awsElasticBlockStore" => {
            volume.aws_elastic_block_store.as_ref().map(|source| vec![("volumeID", source.volume_id.as_str())])
        }
        "nfs" => volume.nfs.as_ref().map(|source| vec![("server", source.server.as_str()), ("path", &source.path)]),
        "iscsi" => volume
            .iscsi
            .as_ref()
            .map(|source| vec![("targetPortal", source.target_portal.as_str()), ("iqn", &source.iqn)]),
        "glusterfs" => volume
            .glusterfs
            .as_ref()
            .map(|source| vec![("endpoints", source.endpoints.as_str()), ("path", &source.path)]),
        "persistentVolumeClaim" => {
            volume.persistent_volume_claim.as_ref().map(|source| vec![("claimName", source.claim_name.as_str())])
        }
        "rbd" => volume.rbd.as_ref().map(|source| vec![("image", source.image.as_str())]),
        "cinder" => volume.cinder.as_ref().map(|source| vec![("volumeID", source.volume_id.as_str())]),
        "quobyte" => volume
            .quobyte
            .as_ref()
            .map(|source| vec![("registry", source.registry.as_str()), ("volume", &source.volume)]),
        "flexVolume" => volume.flex_volume.as_ref().map(|source| vec![("driver", source.driver.as_str())]),
        "azureFile" => volume
            .azure_file
            .as_ref()
            .map(|source| vec![("secretName", source.secret_name.as_str()), ("shareName", &source.share_name)]),
        "azureDisk" => volume
            .azure_disk
            .as_ref()
            .map(|source| vec![("diskName", source.disk_name.as_str()), ("diskURI", &source.disk_uri)]),
        "vsphereVolume" => {
            volume.vsphere_volume.as_ref().map(|source| vec![("volumePath", source.volume_path.as_str())])
        }
        "photonPersistentDisk" => {
            volume.photon_persistent_disk.as_ref().map(|source| vec![("pdID", source.pd_id.as_str())])
        }
        "portworxVolume" => volume.portworx_volume.as_ref().map(|source| vec![("volumeID", source.volume_id.as_str())]),
        "scaleIO" => volume.scale_io.as_ref().map(|source| {
            let name = text(source.volume_name.as_ref());
            vec![("gateway", source.gateway.as_str()), ("system", &source.system), ("volumeName", name)]
        }),
        "csi" => volume.csi.as_ref().map(|source| vec![("driver", source.driver.as_str())]),
        "storageos" => volume.storageos.as_ref().map(|source| vec![("volumeName", text(source.volume_name.as_ref()))]),
        _ => None,
    };
    fields.unwrap_or_default()
}

fn partition(number: Option<i32>, at: &Path, faults: &mut Faults) {
    faults.range(&at.child("partition"), i64::from(number.unwrap_or_default()), 0, 255);
}

fn secret_name(name: Option<&String>, at: &Path, faults: &mut Faults) {
    if let Some(name) = name {
        faults.required_text(&at.child("secretRef").child("name"), name);
    }
}

fn iscsi(source: &ISCSIVolumeSource, at: &Path, faults: &mut Faults) {
    if !source.iqn.is_empty() {
        faults.rule(&at.child("iqn"), &source.iqn, initiator(&source.iqn));
    }
    faults.range(&at.child("lun"), i64::from(source.lun), 0, 255);
    let authenticates = source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true);
    if authenticates && source.secret_ref.is_none() {
        faults.required(&at.child("secretRef"), "CHAP authentication needs it");
    }
    if let Some(name) = &source.initiator_name {
        faults.rule(&at.child("initiatorName"), name, initiator(name));
    }
}

/// A name in one of the three forms that iSCSI has: by domain, by EUI-64, by NAA.
fn initiator(name: &str) -> Result<(), &'static str> {
    let rest = name.get(3..).unwrap_or_default();
    let hex = |length: usize| {
        let mut chars = rest.chars();
        chars.next().is_some_and(|c| c != '\n') && {
            let digits = chars.as_str();
            digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    };
    let sound = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => hex(16),
        Some("naa") => hex(32),
        Some(_) | None => return Err("must begin with iqn, eui or naa"),
    };
    if sound { Ok(()) } else { Err("must be a complete name, such as iqn.2026-01.com.example:disk") }
}

/// `iqn.<year>-<month>.<domain>:<name>`, anywhere up to the end of the text as upstream's pattern has it.
fn is_iqn(name: &str) -> bool {
    let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    name.match_indices("iqn.").filter_map(|(at, _)| name.get(at + 4..)).any(|rest| {
        let (Some(date), Some(rest)) = (rest.get(..7), rest.get(7..)) else { return false };
        let dated = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
        let Some((domain, tail)) = rest.strip_prefix('.').and_then(|rest| rest.split_once(':')) else { return false };
        let in_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let in_tail = |c: char| !matches!(c, ',' | ';' | '*' | '&' | '$' | '|' | ' ' | '\t' | '\n' | '\r' | '\x0c');
        dated && !domain.is_empty() && domain.bytes().all(in_domain) && !tail.is_empty() && tail.chars().all(in_tail)
    })
}

fn fibre_channel(source: &FCVolumeSource, at: &Path, faults: &mut Faults) {
    let given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let (targets, ids) = (given(&source.target_wwns), given(&source.wwids));
    match (targets, ids) {
        (false, false) => faults.required(&at.child("targetWWNs"), "or wwids"),
        (true, true) => faults.invalid(&at.child("targetWWNs"), "", "must not be set together with wwids"),
        (true, false) | (false, true) => {}
    }
    match source.lun {
        None if targets => faults.required(&at.child("lun"), "targetWWNs need it"),
        Some(lun) if targets => faults.range(&at.child("lun"), i64::from(lun), 0, 255),
        Some(_) | None => {}
    }
}

fn quobyte(source: &QuobyteVolumeSource, at: &Path, faults: &mut Faults) {
    if source.registry.is_empty() {
        return;
    }
    if text(source.tenant.as_ref()).len() > TENANT_LENGTH {
        return faults.required(&at.child("tenant"), "must be a UUID of at most 64 characters");
    }
    let is_pair =
        |pair: &str| pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    if !source.registry.split(',').all(is_pair) {
        faults.invalid(&at.child("registry"), &source.registry, "must be host:port, or several separated by commas");
    }
}

fn azure_disk(source: &AzureDiskVolumeSource, at: &Path, faults: &mut Faults) {
    if let Some(mode) = &source.caching_mode {
        faults.one_of(&at.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    if let Some(kind) = &source.kind {
        faults.one_of(&at.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
        let prefix = if kind == "Managed" { "/subscriptions/" } else { "https://" };
        if !source.disk_uri.starts_with(prefix) {
            faults.unsupported(&at.child("diskURI"), &source.disk_uri, &[prefix]);
        }
    }
}

fn flocker(volume: &Volume, at: &Path, faults: &mut Faults) {
    let Some(source) = &volume.flocker else { return };
    let (name, uuid) = (text(source.dataset_name.as_ref()), text(source.dataset_uuid.as_ref()));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => faults.required(at, "needs datasetName or datasetUUID"),
        (false, false) => faults.invalid(at, name, "must not have both datasetName and datasetUUID"),
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        faults.invalid(&at.child("datasetName"), name, "must not contain '/'");
    }
}

fn monitors(volume: &Volume, at: &Path, faults: &mut Faults) {
    let rbd = volume.rbd.as_ref().map(|source| &source.monitors);
    if rbd.or(volume.cephfs.as_ref().map(|source| &source.monitors)).is_some_and(Vec::is_empty) {
        faults.required(&at.child("monitors"), "");
    }
}

fn flex_options(volume: &Volume, at: &Path, faults: &mut Faults) {
    let options = volume.flex_volume.as_ref().and_then(|source| source.options.as_ref());
    for key in options.into_iter().flatten().map(|(key, _)| key) {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            faults.invalid(&at.child("options").key(key), key, "kubernetes.io and k8s.io are reserved");
        }
    }
}

fn storage_os(volume: &Volume, at: &Path, faults: &mut Faults) {
    let Some(source) = &volume.storageos else { return };
    for (field, name) in [("volumeName", &source.volume_name), ("volumeNamespace", &source.volume_namespace)] {
        if let Some(name) = name {
            faults.rule(&at.child(field), name, names::dns_label(name));
        }
    }
    secret_name(source.secret_ref.as_ref().map(|secret| &secret.name), at, faults);
}

fn csi(volume: &Volume, at: &Path, faults: &mut Faults) {
    let Some(source) = &volume.csi else { return };
    if source.driver.len() > DRIVER_LENGTH {
        faults.too_long(&at.child("driver"), DRIVER_LENGTH);
    }
    if !source.driver.is_empty() {
        faults.rule(&at.child("driver"), &source.driver, names::dns_subdomain(&source.driver.to_lowercase()));
    }
    if let Some(secret) = &source.node_publish_secret_ref {
        faults.required_rule(&at.child("nodePublishSecretRef").child("name"), &secret.name, names::dns_subdomain);
    }
}
