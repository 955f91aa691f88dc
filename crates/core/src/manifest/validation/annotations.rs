//! Annotations that mean something to a pod, old ways of saying what fields say now among them.
//!
//! upstream: core/validation/validation.go ValidatePodSpecificAnnotations, validateSeccompAnnotationsAndFields,
//! validateAppArmorAnnotationsAndFieldsMatchOnCreate (v1.36)

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod, PodSpec, SeccompProfile, Toleration};

use super::faults::Faults;
use super::{all_containers, names, scheduling};
use crate::manifest::field::Path;
use crate::manifest::gates::{Gate, Gates};

const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn validate(pod: &Pod, spec: &PodSpec, gates: &Gates, faults: &mut Faults) {
    let Some(annotations) = &pod.metadata.annotations else { return };
    let at = Path::new("metadata.annotations");
    for (key, value) in annotations {
        let place = at.key(key);
        match key.as_str() {
            TOLERATIONS if !value.is_empty() => match serde_json::from_str::<Vec<Toleration>>(value) {
                Ok(tolerations) => scheduling::tolerations(&tolerations, gates, &place, faults),
                Err(_) => faults.invalid(&place, value, "must be a JSON list of tolerations"),
            },
            DELETION_COST if gates.on(Gate::PodDeletionCost) && !is_plain_i32(value) => {
                faults.invalid(&place, value, "must be a whole number of 32 bits");
            }
            SECCOMP_POD => faults.rule(&place, value, old_seccomp(value)),
            key if key.starts_with(SECCOMP_CONTAINER) => faults.rule(&place, value, old_seccomp(value)),
            _ => {}
        }
        if let Some(name) = key.strip_prefix(APPARMOR_CONTAINER) {
            if !all_containers(spec, &Path::default()).iter().any(|(container, _)| container.name == name) {
                faults.invalid(&place, name, "no container has this name");
            }
            let known = matches!(value.as_str(), "" | "runtime/default" | "unconfined");
            if !known && !value.starts_with("localhost/") {
                faults.invalid(&place, value, "must be runtime/default, unconfined or localhost/<profile>");
            }
        }
    }
    agreement(pod, spec, faults);
}

/// No plus sign and no leading zeros, so that every reader sees the same number.
fn is_plain_i32(value: &str) -> bool {
    let plain = value == "0" || value.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    plain && value.parse::<i32>().is_ok()
}

fn old_seccomp(value: &str) -> Result<(), &'static str> {
    match value.strip_prefix("localhost/") {
        Some(path) => names::descending_path(path),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => Ok(()),
        None => Err("must be runtime/default, unconfined or localhost/<profile>"),
    }
}

/// Where both the old annotation and the field speak, they must say the same.
fn agreement(pod: &Pod, spec: &PodSpec, faults: &mut Faults) {
    let annotation = |key: &str| pod.metadata.annotations.as_ref()?.get(key);
    let at = Path::new("spec");
    let own = spec.security_context.as_ref();
    if let (Some(old), Some(profile)) = (annotation(SECCOMP_POD), own.and_then(|own| own.seccomp_profile.as_ref())) {
        seccomp_agrees(old, profile, &at.child("securityContext").child("seccompProfile"), faults);
    }
    let is_windows = spec.os.as_ref().is_some_and(|os| os.name == "windows");
    for (container, at) in all_containers(spec, &at) {
        let at = at.child("securityContext");
        let context = container.security_context.as_ref();
        let old = annotation(&format!("{SECCOMP_CONTAINER}{}", container.name));
        if let (Some(old), Some(profile)) = (old, context.and_then(|context| context.seccomp_profile.as_ref())) {
            seccomp_agrees(old, profile, &at.child("seccompProfile"), faults);
        }
        let profile = context.and_then(|context| context.app_armor_profile.as_ref());
        let profile = profile.or_else(|| own.and_then(|own| own.app_armor_profile.as_ref()));
        let old = annotation(&format!("{APPARMOR_CONTAINER}{}", container.name));
        if let (false, Some(old), Some(profile)) = (is_windows, old, profile) {
            apparmor_agrees(old, profile, &at.child("appArmorProfile"), faults);
        }
    }
}

fn seccomp_agrees(old: &str, profile: &SeccompProfile, at: &Path, faults: &mut Faults) {
    let runtime_default = matches!(old, "runtime/default" | "docker/default");
    agrees(old, &profile.type_, profile.localhost_profile.as_deref(), runtime_default, at, faults);
}

fn apparmor_agrees(old: &str, profile: &AppArmorProfile, at: &Path, faults: &mut Faults) {
    let runtime_default = old == "runtime/default";
    agrees(old, &profile.type_, profile.localhost_profile.as_deref(), runtime_default, at, faults);
}

fn agrees(old: &str, kind: &str, file: Option<&str>, runtime_default: bool, at: &Path, faults: &mut Faults) {
    let same_kind = match kind {
        "Unconfined" => old == "unconfined",
        "RuntimeDefault" => runtime_default,
        "Localhost" => old.starts_with("localhost/"),
        _ => return,
    };
    if !same_kind {
        faults.forbidden(&at.child("type"), "the annotation for this container says something else");
    } else if kind == "Localhost" && old.strip_prefix("localhost/") != file {
        faults.forbidden(&at.child("localhostProfile"), "the annotation for this container names another profile");
    }
}
