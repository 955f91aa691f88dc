//! Volume mounts and block devices of a container.
//!
//! upstream: core/validation/validation.go ValidateVolumeMounts, ValidateVolumeDevices (v1.36)

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::faults::Faults;
use super::{Context, names, text};
use crate::manifest::field::Path;

pub(super) fn validate(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    let mut paths = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let at = at.child("volumeMounts").index(index);
        self::mount(context, container, mount, &at, faults);
        if !paths.insert(mount.mount_path.as_str()) {
            faults.invalid(&at.child("mountPath"), &mount.mount_path, "is mounted twice");
        }
    }
    let (mut seen, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let at = at.child("volumeDevices").index(index);
        self::device(context, container, device, &at, faults);
        if !seen.insert(device.name.as_str()) && !device.name.is_empty() {
            faults.invalid(&at.child("name"), &device.name, "is used twice");
        }
        if !paths.insert(device.device_path.as_str()) {
            faults.invalid(&at.child("devicePath"), &device.device_path, "is used twice");
        }
    }
}

fn mount(context: &Context<'_>, container: &Container, mount: &VolumeMount, at: &Path, faults: &mut Faults) {
    faults.required_text(&at.child("name"), &mount.name);
    if !context.volumes.contains_key(mount.name.as_str()) {
        faults.not_found(&at.child("name"), &mount.name);
    }
    faults.required_text(&at.child("mountPath"), &mount.mount_path);
    // The last device of a name counts.
    let devices = container.volume_devices.iter().flatten();
    let devices: BTreeMap<&str, &str> = devices.map(|device| (&*device.name, &*device.device_path)).collect();
    if devices.contains_key(&*mount.name) {
        faults.invalid(&at.child("name"), &mount.name, "is in volumeDevices already");
    }
    if devices.values().any(|path| *path == mount.mount_path) {
        faults.invalid(&at.child("mountPath"), &mount.mount_path, "is the path of a device");
    }
    let (sub_path, expression) = (text(mount.sub_path.as_ref()), text(mount.sub_path_expr.as_ref()));
    faults.rule(&at.child("subPath"), sub_path, names::descending_path(sub_path));
    faults.rule(&at.child("subPathExpr"), expression, names::descending_path(expression));
    if !sub_path.is_empty() && !expression.is_empty() {
        faults.invalid(&at.child("subPathExpr"), expression, "must not be set together with subPath");
    }
    if let Some(propagation) = &mount.mount_propagation {
        let at = at.child("mountPropagation");
        faults.one_of(&at, propagation, &["Bidirectional", "HostToContainer", "None"]);
        let privileged = container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
        if propagation == "Bidirectional" && !privileged {
            faults.forbidden(&at, "only privileged containers may have Bidirectional");
        }
    }
    recursive_read_only(mount, &at.child("recursiveReadOnly"), faults);
}

fn recursive_read_only(mount: &VolumeMount, at: &Path, faults: &mut Faults) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                faults.forbidden(at, "needs readOnly: true");
            }
            if mount.mount_propagation.as_ref().is_some_and(|propagation| propagation != "None") {
                faults.forbidden(at, "needs mountPropagation: None");
            }
        }
        Some(other) => faults.unsupported(at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn device(context: &Context<'_>, container: &Container, device: &VolumeDevice, at: &Path, faults: &mut Faults) {
    faults.required_text(&at.child("name"), &device.name);
    match context.volumes.get(device.name.as_str()) {
        Some(volume) if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() => {}
        Some(_) => faults.invalid(&at.child("name"), &device.name, "only claims and ephemeral volumes can be devices"),
        None => faults.not_found(&at.child("name"), &device.name),
    }
    faults.required_text(&at.child("devicePath"), &device.device_path);
    faults.rule(&at.child("devicePath"), &device.device_path, names::no_backsteps(&device.device_path));
    // The last mount of a name counts.
    let mounts = container.volume_mounts.iter().flatten();
    let mounts: BTreeMap<&str, &str> = mounts.map(|mount| (&*mount.name, &*mount.mount_path)).collect();
    if mounts.contains_key(&*device.name) {
        faults.invalid(&at.child("name"), &device.name, "is in volumeMounts already");
    }
    if mounts.values().any(|path| *path == device.device_path) {
        faults.invalid(&at.child("devicePath"), &device.device_path, "is the path of a mount");
    }
}
