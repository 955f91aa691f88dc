//! Volumes made of API data: secrets, config maps, the pod's own fields, and projections of several.
//!
//! Static pods can use the downward API alone; the others are checked for nodes that allow references.
//! upstream: core/validation/validation.go validateProjectionSources, validateDownwardAPIVolumeFile (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};

use super::env::{FILE_FIELDS, field_ref, resource_ref};
use super::faults::Faults;
use super::volumes::{key_to_path, mode};
use super::{names, text};
use crate::manifest::field::Path;

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

pub(super) fn validate(volume: &Volume, kind: &str, at: &Path, faults: &mut Faults) {
    match kind {
        "secret" => {
            let Some(source) = &volume.secret else { return };
            faults.required_text(&at.child("secretName"), text(source.secret_name.as_ref()));
            mode(source.default_mode, &at.child("defaultMode"), faults);
            keys(source.items.as_deref(), at, faults);
        }
        "configMap" => {
            let Some(source) = &volume.config_map else { return };
            faults.required_text(&at.child("name"), &source.name);
            mode(source.default_mode, &at.child("defaultMode"), faults);
            keys(source.items.as_deref(), at, faults);
        }
        "downwardAPI" => {
            let Some(source) = &volume.downward_api else { return };
            mode(source.default_mode, &at.child("defaultMode"), faults);
            files(source.items.as_deref(), at, faults);
        }
        _ => {
            let Some(source) = &volume.projected else { return };
            mode(source.default_mode, &at.child("defaultMode"), faults);
            let mut paths = BTreeSet::new();
            for (index, part) in source.sources.iter().flatten().enumerate() {
                let conflicts = projection(part, &mut paths, &at.child("sources").index(index), faults);
                for name in conflicts {
                    faults.invalid(at, name, "another file has the same path");
                }
            }
        }
    }
}

fn keys(items: Option<&[KeyToPath]>, at: &Path, faults: &mut Faults) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        key_to_path(item, &at.child("items").index(index), faults);
    }
}

fn files(items: Option<&[DownwardAPIVolumeFile]>, at: &Path, faults: &mut Faults) {
    for (index, file) in items.unwrap_or_default().iter().enumerate() {
        downward_file(file, &at.child("items").index(index), faults);
    }
}

fn downward_file(file: &DownwardAPIVolumeFile, at: &Path, faults: &mut Faults) {
    faults.required_rule(&at.child("path"), &file.path, names::volume_file_path);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(field), other) => {
            field_ref(field, &FILE_FIELDS, &at.child("fieldRef"), faults);
            if other.is_some() {
                faults.invalid(at, &file.path, "must not have both fieldRef and resourceFieldRef");
            }
        }
        (None, Some(resource)) => resource_ref(resource, true, &at.child("resourceFieldRef"), faults),
        (None, None) => faults.required(at, "needs fieldRef or resourceFieldRef"),
    }
    mode(file.mode, &at.child("mode"), faults);
}

/// Checks one source of a projected volume. Answers whose files have the path of an earlier file: the source's
/// name, or the path where the source has no name. That fault is the volume's.
fn projection<'a>(
    part: &'a VolumeProjection,
    paths: &mut BTreeSet<&'a str>,
    at: &Path,
    faults: &mut Faults,
) -> Vec<&'a str> {
    one_kind(part, at, faults);
    let mut conflicts = Vec::new();
    let maps = [
        part.secret.as_ref().map(|source| ("secret", &source.name, &source.items)),
        part.config_map.as_ref().map(|source| ("configMap", &source.name, &source.items)),
    ];
    for (kind, name, items) in maps.into_iter().flatten() {
        let at = at.child(kind);
        faults.required_text(&at.child("name"), name);
        keys(items.as_deref(), &at, faults);
        let taken = items.iter().flatten().filter(|item| !item.path.is_empty() && !paths.insert(&item.path));
        conflicts.extend(taken.map(|_| name.as_str()));
    }
    if let Some(source) = &part.downward_api {
        files(source.items.as_deref(), &at.child("downwardAPI"), faults);
        let written = source.items.iter().flatten().map(|file| file.path.as_str());
        conflicts.extend(written.filter(|path| !path.is_empty() && !paths.insert(path)));
    }
    if let Some(token) = &part.service_account_token {
        let at = at.child("serviceAccountToken");
        let seconds = token.expiration_seconds.unwrap_or_default();
        faults.range(&at.child("expirationSeconds"), seconds, MIN_TOKEN_SECONDS, MAX_TOKEN_SECONDS);
        faults.required_rule(&at.child("path"), &token.path, names::volume_file_path);
    }
    conflicts
}

fn one_kind(part: &VolumeProjection, at: &Path, faults: &mut Faults) {
    let kinds = [
        part.secret.is_some(),
        part.config_map.is_some(),
        part.downward_api.is_some(),
        part.service_account_token.is_some(),
        part.cluster_trust_bundle.is_some(),
        part.pod_certificate.is_some(),
    ];
    // A source of no kind at all is valid in upstream, and makes no file.
    if kinds.iter().filter(|is_set| **is_set).count() > 1 {
        faults.forbidden(at, "a source has only one kind");
    }
}
