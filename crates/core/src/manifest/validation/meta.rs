//! Names, labels and the other metadata.
//!
//! upstream: apimachinery/pkg/api/validation/objectmeta.go ValidateObjectMeta (v1.36)

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use super::faults::Faults;
use super::{names, text};
use crate::manifest::field::Path;

const ANNOTATIONS_SIZE: usize = 256 * 1024;
const MANAGER_LENGTH: usize = 128;
const SUBRESOURCE_LENGTH: usize = 256;

pub(super) fn validate(meta: &ObjectMeta, at: &Path, faults: &mut Faults) {
    if let Some(prefix) = &meta.generate_name {
        faults.rule(&at.child("generateName"), prefix, names::dns_subdomain_prefix(prefix));
    }
    faults.required_rule(&at.child("name"), text(meta.name.as_ref()), names::dns_subdomain);
    faults.required_rule(&at.child("namespace"), text(meta.namespace.as_ref()), names::dns_label);
    faults.not_negative(&at.child("generation"), meta.generation.unwrap_or_default());
    labels(meta.labels.as_ref(), &at.child("labels"), faults);
    annotations(meta.annotations.as_ref(), &at.child("annotations"), faults);
    owners(meta.owner_references.iter().flatten(), &at.child("ownerReferences"), faults);
    finalizers(meta.finalizers.iter().flatten(), &at.child("finalizers"), faults);
    for (index, entry) in meta.managed_fields.iter().flatten().enumerate() {
        managed(entry, &at.child("managedFields").index(index), faults);
    }
}

pub(super) fn labels(labels: Option<&BTreeMap<String, String>>, at: &Path, faults: &mut Faults) {
    for (key, value) in labels.into_iter().flatten() {
        faults.rule(&at.key(key), key, names::qualified_name(key));
        faults.rule(&at.key(key), value, names::label_value(value));
    }
}

fn annotations(annotations: Option<&BTreeMap<String, String>>, at: &Path, faults: &mut Faults) {
    let size: usize = annotations.into_iter().flatten().map(|(key, value)| key.len() + value.len()).sum();
    for key in annotations.into_iter().flat_map(BTreeMap::keys) {
        faults.rule(&at.key(key), key, names::qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_SIZE {
        faults.too_long(at, ANNOTATIONS_SIZE);
    }
}

fn owners<'a>(owners: impl Iterator<Item = &'a OwnerReference>, at: &Path, faults: &mut Faults) {
    let mut controllers = 0;
    for (index, owner) in owners.enumerate() {
        let at = at.index(index);
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        let mut not_empty = |field: &str, value: &str| {
            if value.is_empty() {
                faults.invalid(&at.child(field), value, "must not be empty");
            }
        };
        not_empty("apiVersion", version);
        not_empty("kind", &owner.kind);
        not_empty("name", &owner.name);
        not_empty("uid", &owner.uid);
        if owner.api_version == "v1" && owner.kind == "Event" {
            faults.invalid(&at, "v1 Event", "an event cannot own anything");
        }
        controllers += usize::from(owner.controller == Some(true));
        if owner.controller == Some(true) && controllers > 1 {
            faults.invalid(&at, &owner.name, "only one owner can be the controller");
        }
    }
}

fn finalizers<'a>(finalizers: impl Iterator<Item = &'a String>, at: &Path, faults: &mut Faults) {
    let (mut orphan, mut foreground) = (false, false);
    for (index, name) in finalizers.enumerate() {
        let at = at.index(index);
        faults.rule(&at, name, names::qualified_name(name));
        orphan |= name == "orphan";
        foreground |= name == "foregroundDeletion";
        let standard = matches!(name.as_str(), "kubernetes" | "orphan" | "foregroundDeletion");
        if !name.contains('/') && !standard {
            faults.invalid(&at, name, "must be a standard finalizer or have a domain and '/' before it");
        }
    }
    if orphan && foreground {
        faults.invalid(at, "orphan, foregroundDeletion", "cannot both be set");
    }
}

fn managed(entry: &ManagedFieldsEntry, at: &Path, faults: &mut Faults) {
    let operation = text(entry.operation.as_ref());
    if !matches!(operation, "Apply" | "Update") {
        faults.invalid(&at.child("operation"), operation, "must be Apply or Update");
    }
    if entry.fields_type.as_ref().is_some_and(|kind| kind != "FieldsV1") {
        faults.invalid(&at.child("fieldsType"), text(entry.fields_type.as_ref()), "must be FieldsV1");
    }
    let manager = text(entry.manager.as_ref());
    if manager.len() > MANAGER_LENGTH {
        faults.too_long(&at.child("manager"), MANAGER_LENGTH);
    }
    if manager.chars().any(char::is_control) {
        faults.invalid(&at.child("manager"), manager, "must be printable");
    }
    if text(entry.subresource.as_ref()).len() > SUBRESOURCE_LENGTH {
        faults.too_long(&at.child("subresource"), SUBRESOURCE_LENGTH);
    }
}
