//! What is mounted into a container (section 7.11).
//!
//! The engine mounts volumes and makes sub-paths ready; here it is decided which of them a container sees, where, and
//! how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};

use crate::env::{NoRoom, Room, expand};
use crate::launch::{ContainerInputs, Device, HandlerFeatures, ImageSpec, LaunchContext, Mount, MountPropagation};
use crate::pod::PodExt;

#[cfg(test)]
mod tests;

/// Where the hosts file is in a container.
pub const HOSTS_PATH: &str = "/etc/hosts";
/// The longest path that the kernel takes. upstream has no limit here, and the kernel refuses the path later.
const PATH_MAX: usize = 4096;

/// A mount that cannot be made. The text is what people see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// MNT-01: the volume is not mounted, or not in the spec.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// MNT-06: the block volume is not there, or not in the spec.
    #[error("cannot find volume {volume:?} to pass into container {container:?}")]
    NoDevice {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// MNT-06: the device would be nowhere.
    #[error("error DevicePath `{0}` must be an absolute path")]
    DevicePathNotAbsolute(String),
    /// MNT-02: the sub-path would leave the volume.
    #[error("error SubPath `{0}` must not be an absolute path")]
    SubPathAbsolute(String),
    /// MNT-02: the sub-path would leave the volume.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    SubPathBacksteps(String),
    /// MNT-02: variables of `subPathExpr` without a value.
    #[error("missing value for {0}")]
    SubPathUnresolved(String),
    /// MNT-02: no path is that long.
    #[error("subPathExpr of volumeMount {0:?} expands to more than {PATH_MAX} bytes")]
    SubPathTooLong(String),
    /// MNT-02: the engine could not prepare the sub-path. The reason is only in the log, because it may show host paths.
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")]
    SubPathNotReady {
        /// Name of the volume.
        volume: String,
        /// Name of the container.
        container: String,
    },
    /// MNT-03: not one of the API's words.
    #[error("invalid MountPropagation mode: {0:?}")]
    PropagationUnknown(String),
    /// MNT-03: read-only all the way down, but writable.
    #[error(
        "failed to resolve recursive read-only mode: volume {0:?} requested recursive read-only mode, but it is not read-only"
    )]
    RecursiveNotReadOnly(String),
    /// MNT-03: read-only all the way down, but mounts propagate.
    #[error(
        "failed to resolve recursive read-only mode: volume {volume:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
    )]
    RecursiveWithPropagation {
        /// Name of the volume.
        volume: String,
        /// How mounts propagate.
        propagation: String,
    },
    /// MNT-03: the runtime cannot.
    #[error(
        "failed to resolve recursive read-only mode: volume {0:?} requested recursive read-only mode, but it is not supported by the runtime"
    )]
    RecursiveUnsupported(String),
    /// MNT-03: not one of the API's words.
    #[error("failed to resolve recursive read-only mode: unknown recursive read-only mode {0:?}")]
    RecursiveUnknown(String),
}

/// A sub-path that has to be made ready before its container is made (MNT-02).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPath {
    /// Index of the mount in the container's list: part of the place where it is made ready.
    pub index: usize,
    /// Name of the volume.
    pub volume: String,
    /// Path below the volume: neither absolute nor with `..`.
    pub path: String,
}

/// The sub-paths that a container asks for, with variables replaced, in order of its mounts. Those of image volumes are
/// not among them: the runtime sees to them.
pub fn subpaths(pod: &Pod, container: &Container, envs: &[(String, String)]) -> Result<Vec<SubPath>, MountError> {
    let mut paths = Vec::new();
    let values = Values::of(container, envs);
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = subpath(mount, &values)?;
        let of_image = volume(pod, &mount.name).is_some_and(|volume| volume.image.is_some());
        if !path.is_empty() && !of_image {
            paths.push(SubPath { index, volume: mount.name.clone(), path });
        }
    }
    Ok(paths)
}

/// The mounts of a container: its volumes, the hosts file, the termination message (MNT-01 … MNT-05, MNT-07).
///
/// upstream: kubelet_pods.go makeMounts, kuberuntime_container.go makeMounts (v1.36)
pub(crate) fn container_mounts(
    ctx: &LaunchContext,
    pod: &Pod,
    inputs: &ContainerInputs<'_>,
) -> Result<Vec<Mount>, MountError> {
    let container = inputs.container;
    let mut mounts = inputs.extra.mounts.clone();
    for mount in &mut mounts {
        mount.selinux_relabel &= ctx.selinux;
    }
    let values = Values::of(container, inputs.envs);
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let subpath = subpath(mount, &values)?;
        mounts.push(volume_mount(ctx, pod, inputs, index, mount, subpath)?);
    }
    // Before the pod has an address there is nothing to write into the file.
    let hosts_wanted = (!inputs.pod_ips.is_empty() || pod.host_network())
        && !container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS_PATH);
    if let Some(path) = inputs.hosts_file.filter(|_| hosts_wanted) {
        mounts.push(file_mount(ctx, path, HOSTS_PATH.to_owned()));
    }
    let message_path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    if let (Some(path), Some(inside)) = (inputs.termination_file, message_path) {
        mounts.push(file_mount(ctx, path, absolute(inside)));
    }
    if let Some(ids) = inputs.user_namespace {
        for mount in &mut mounts {
            mount.uid_mappings.clone_from(&ids.uids);
            mount.gid_mappings.clone_from(&ids.gids);
        }
    }
    Ok(mounts)
}

/// The device nodes of a container's block volumes (MNT-06).
///
/// upstream: kubelet_pods.go makeBlockVolumes (v1.36)
pub(crate) fn block_devices(inputs: &ContainerInputs<'_>) -> Result<Vec<Device>, MountError> {
    let mut devices = Vec::new();
    for device in inputs.container.volume_devices.iter().flatten() {
        if !device.device_path.starts_with('/') {
            return Err(MountError::DevicePathNotAbsolute(device.device_path.clone()));
        }
        let Some(node) = inputs.block_devices.get(&device.name) else {
            return Err(MountError::NoDevice { volume: device.name.clone(), container: inputs.container.name.clone() });
        };
        devices.push(Device {
            container_path: device.device_path.clone(),
            host_path: node.host_path.to_string_lossy().into_owned(),
            permissions: if node.readonly { "r" } else { "mrw" }.to_owned(),
        });
    }
    Ok(devices)
}

fn volume_mount(
    ctx: &LaunchContext,
    pod: &Pod,
    inputs: &ContainerInputs<'_>,
    index: usize,
    mount: &VolumeMount,
    subpath: String,
) -> Result<Mount, MountError> {
    let place = |path: &Path| path.to_string_lossy().into_owned();
    let source = volume(pod, &mount.name);
    let image: Option<ImageSpec> = inputs.image_volumes.get(&mount.name).cloned();
    let mut made = Mount {
        container_path: absolute_if_not(&mount.mount_path),
        readonly: mount.read_only.unwrap_or_default() || image.is_some() || source.is_some_and(is_readonly),
        recursive_read_only: recursive_read_only(inputs.features, mount)?,
        selinux_relabel: ctx.selinux && source.is_some_and(is_relabelled),
        propagation: propagation(mount.mount_propagation.as_deref())?,
        ..Mount::default()
    };
    if image.is_some() {
        made.image = image;
        made.image_sub_path = subpath;
        return Ok(made);
    }
    let Some(root) = inputs.volumes.get(&mount.name) else {
        return Err(MountError::NoVolume { volume: mount.name.clone(), container: inputs.container.name.clone() });
    };
    made.host_path = match inputs.subpaths.get(&index) {
        _ if subpath.is_empty() => place(root),
        Some(ready) => place(ready),
        None => {
            let (volume, container) = (mount.name.clone(), inputs.container.name.clone());
            return Err(MountError::SubPathNotReady { volume, container });
        }
    };
    Ok(made)
}

fn file_mount(ctx: &LaunchContext, host: &Path, inside: String) -> Mount {
    Mount {
        container_path: inside,
        host_path: host.to_string_lossy().into_owned(),
        selinux_relabel: ctx.selinux,
        ..Mount::default()
    }
}

fn volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    pod.pod_spec()?.volumes.iter().flatten().find(|volume| volume.name == name)
}

/// Volumes whose content the kubelet writes are never writable from inside; others say so themselves.
fn is_readonly(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
        || volume.image.is_some()
        || volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.read_only.unwrap_or_default())
        || volume.csi.as_ref().is_some_and(|csi| csi.read_only.unwrap_or_default())
}

/// Volumes that are the kubelet's own get the pod's SELinux labels.
fn is_relabelled(volume: &Volume) -> bool {
    volume.empty_dir.is_some()
        || volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// What the variables of a container stand for in its `subPathExpr`s.
struct Values<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Values<'a> {
    /// Nothing is looked up for the many containers without such an expression.
    fn of(container: &Container, envs: &'a [(String, String)]) -> Self {
        let mut mounts = container.volume_mounts.iter().flatten();
        let asked = mounts.any(|mount| mount.sub_path_expr.as_deref().is_some_and(|text| !text.is_empty()));
        let envs = if asked { envs } else { &[] };
        Self(envs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
    }
}

fn subpath(mount: &VolumeMount, values: &Values<'_>) -> Result<String, MountError> {
    let expression = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty());
    let path = match expression {
        None => mount.sub_path.clone().unwrap_or_default(),
        Some(expression) => {
            let mut missing = BTreeSet::new();
            let path = expand(expression, &mut Room::new(PATH_MAX), &mut |name| {
                let value = values.0.get(name).copied().unwrap_or_default();
                if value.is_empty() {
                    missing.insert(name.to_owned());
                }
                Some(value)
            });
            if !missing.is_empty() {
                return Err(MountError::SubPathUnresolved(missing.into_iter().collect::<Vec<_>>().join(", ")));
            }
            path.map_err(|NoRoom| MountError::SubPathTooLong(mount.name.clone()))?
        }
    };
    if path.starts_with('/') {
        return Err(MountError::SubPathAbsolute(path));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(MountError::SubPathBacksteps(path));
    }
    Ok(path)
}

fn propagation(mode: Option<&str>) -> Result<MountPropagation, MountError> {
    match mode {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(MountError::PropagationUnknown(other.to_owned())),
    }
}

/// upstream: kubelet_pods.go resolveRecursiveReadOnly (v1.36)
fn recursive_read_only(handler: HandlerFeatures, mount: &VolumeMount) -> Result<bool, MountError> {
    let Some(mode) = mount.recursive_read_only.as_deref().filter(|mode| *mode != "Disabled") else {
        return Ok(false);
    };
    if !mount.read_only.unwrap_or_default() {
        return Err(MountError::RecursiveNotReadOnly(mount.name.clone()));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return Err(MountError::RecursiveWithPropagation {
            volume: mount.name.clone(),
            propagation: propagation.to_owned(),
        });
    }
    let supported = handler.recursive_read_only_mounts;
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => Err(MountError::RecursiveUnsupported(mount.name.clone())),
        other => Err(MountError::RecursiveUnknown(other.to_owned())),
    }
}

fn absolute_if_not(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { absolute(path) }
}

/// The path from the root on, without empty and dotted parts.
fn absolute(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
