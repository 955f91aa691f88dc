//! Environment variables and where their values come from.
//!
//! upstream: core/validation/validation.go ValidateEnv, ValidateEnvFrom, validateEnvVarValueFrom (v1.36)

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};

use super::faults::Faults;
use super::{names, text};
use crate::manifest::field::Path;

/// Fields of a pod that an environment variable may take its value from.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that a file may take its content from.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields that exist at all in the downward API, though neither variables nor files can have them.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn validate(container: &Container, at: &Path, faults: &mut Faults) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let at = at.child("env").index(index);
        faults.required_rule(&at.child("name"), &variable.name, names::env_name);
        if let Some(source) = &variable.value_from {
            value_from(variable, source, &at.child("valueFrom"), faults);
        }
    }
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        env_from(source, &at.child("envFrom").index(index), faults);
    }
}

fn env_from(source: &EnvFromSource, at: &Path, faults: &mut Faults) {
    if let Some(prefix) = source.prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
        faults.rule(&at.child("prefix"), prefix, names::env_name(prefix));
    }
    if let Some(map) = &source.config_map_ref {
        faults.required_rule(&at.child("configMapRef").child("name"), &map.name, names::dns_subdomain_prefix);
    }
    if let Some(secret) = &source.secret_ref {
        faults.required_rule(&at.child("secretRef").child("name"), &secret.name, names::dns_subdomain_prefix);
    }
    if source.config_map_ref.is_some() == source.secret_ref.is_some() {
        faults.invalid(at, "", "must have exactly one of configMapRef and secretRef");
    }
}

fn value_from(variable: &EnvVar, source: &EnvVarSource, at: &Path, faults: &mut Faults) {
    let mut sources = 0;
    if let Some(field) = &source.field_ref {
        sources += 1;
        field_ref(field, &ENV_FIELDS, &at.child("fieldRef"), faults);
    }
    if let Some(resource) = &source.resource_field_ref {
        sources += 1;
        resource_ref(resource, false, &at.child("resourceFieldRef"), faults);
    }
    let mut key_ref = |name: &str, object: &str, key: &str| {
        let at = at.child(name);
        faults.rule(&at.child("name"), object, names::dns_subdomain(object));
        faults.required_rule(&at.child("key"), key, names::config_key);
    };
    if let Some(map) = &source.config_map_key_ref {
        sources += 1;
        key_ref("configMapKeyRef", &map.name, &map.key);
    }
    if let Some(secret) = &source.secret_key_ref {
        sources += 1;
        key_ref("secretKeyRef", &secret.name, &secret.key);
    }
    if let Some(file) = &source.file_key_ref {
        sources += 1;
        let at = at.child("fileKeyRef");
        faults.required_rule(&at.child("key"), &file.key, names::env_name);
        faults.required_rule(&at.child("volumeName"), &file.volume_name, names::dns_label);
        faults.required_rule(&at.child("path"), &file.path, names::no_backsteps);
    }
    match sources {
        0 => faults.invalid(at, "", "must say where the value comes from, for example with fieldRef"),
        _ if variable.value.is_some() => faults.invalid(at, "", "must not be set together with value"),
        1 => {}
        _ => faults.invalid(at, "", "must have only one source"),
    }
}

pub(super) fn field_ref(field: &ObjectFieldSelector, allowed: &[&str], at: &Path, faults: &mut Faults) {
    let version = text(field.api_version.as_ref());
    if version.is_empty() {
        return faults.required(&at.child("apiVersion"), "");
    }
    let path = field.field_path.as_str();
    let place = at.child("fieldPath");
    if path.is_empty() {
        return faults.required(&place, "");
    }
    if version != "v1" {
        return faults.invalid(&place, path, "only fields of apiVersion v1 are known");
    }
    match subscript(path) {
        Some(("metadata.annotations", key)) => faults.rule(at, key, names::qualified_name(&key.to_lowercase())),
        Some(("metadata.labels", key)) => faults.rule(at, key, names::qualified_name(key)),
        Some(_) => faults.invalid(&place, path, "only labels and annotations have keys"),
        None if allowed.contains(&path) || (path == "spec.host" && allowed.contains(&"spec.nodeName")) => {}
        None if ENV_FIELDS.contains(&path) || FILE_FIELDS.contains(&path) || OTHER_FIELDS.contains(&path) => {
            faults.unsupported(&place, path, allowed);
        }
        None if path == "spec.host" => faults.unsupported(&place, path, allowed),
        None => faults.invalid(&place, path, format!("must be one of {}", allowed.join(", "))),
    }
}

/// `metadata.labels['app']` as its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}

/// In a file the container must be named, as the file belongs to none.
pub(super) fn resource_ref(resource: &ResourceFieldSelector, in_file: bool, at: &Path, faults: &mut Faults) {
    let name = resource.resource.as_str();
    let huge_pages = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if in_file && text(resource.container_name.as_ref()).is_empty() {
        faults.required(&at.child("containerName"), "");
    } else if name.is_empty() {
        faults.required(&at.child("resource"), "");
    } else if !RESOURCES.contains(&name) && !huge_pages {
        faults.unsupported(&at.child("resource"), name, &RESOURCES);
    }
    let divisor = resource.divisor.as_ref().map_or("0", |divisor| divisor.0.as_str());
    let allowed: &[&str] = match name {
        "limits.cpu" | "requests.cpu" => &["1m", "1"],
        name if huge_pages || RESOURCES.contains(&name) => &SIZES,
        _ => return,
    };
    if divisor != "0" && !allowed.contains(&divisor) {
        faults.invalid(&at.child("divisor"), divisor, format!("must be one of {}", allowed.join(", ")));
    }
}
