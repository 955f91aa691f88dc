//! The configuration in `CreateContainer` (sections 7.6 to 7.11).

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};

use super::linux::container_resources;
use super::sandbox::{CONTAINER_NAME_LABEL, pod_labels};
use super::security::container_security;
use super::{ContainerConfig, ContainerInputs, ImageSpec, LaunchContext, LaunchError};
use crate::container_mounts::{block_devices, container_mounts};
use crate::env::{MAX_EXPANDED, NoRoom, Room, TooLarge, expand};
use crate::plan::StartContainer;
use crate::pod::{PodExt, Role};

/// The configuration of a container.
///
/// upstream: kuberuntime_container.go generateContainerConfig (v1.36)
#[doc(alias = "generateContainerConfig")]
pub fn container_config(
    ctx: &LaunchContext,
    pod: &Pod,
    inputs: &ContainerInputs<'_>,
) -> Result<ContainerConfig, LaunchError> {
    let container = inputs.container;
    let mut devices = inputs.extra.devices.clone();
    devices.extend(block_devices(inputs)?);
    let mut envs = inputs.extra.envs.clone();
    envs.extend(inputs.envs.iter().cloned());
    let mounts = container_mounts(ctx, pod, inputs)?;
    let security = container_security(ctx, pod, inputs)?;
    let mut labels = pod_labels(pod);
    labels.insert(CONTAINER_NAME_LABEL.to_owned(), container.name.clone());
    let (command, args) = command_line(container, &envs).map_err(|NoRoom| TooLarge::of(&container.name))?;
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt: inputs.restart_count,
        image: ImageSpec {
            image: inputs.image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..ImageSpec::default()
        },
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs,
        mounts,
        devices,
        cdi_devices: inputs.extra.cdi_devices.clone(),
        labels,
        annotations: annotations(pod, inputs),
        log_path: format!("{}/{}.log", container.name, inputs.restart_count),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        resources: container_resources(ctx, pod, container, inputs.exclusive_cpus),
        security,
        stop_signal: stop_signal(ctx, container),
    })
}

/// Command and arguments, which share their room with the environment (ENV-06).
fn command_line(container: &Container, envs: &[(String, String)]) -> Result<(Vec<String>, Vec<String>), NoRoom> {
    let mut room = Room::new(MAX_EXPANDED);
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in envs {
        room.take(value.len())?;
        room.variable(name)?;
        values.insert(name, value);
    }
    let mut expanded = |words: &Option<Vec<String>>| -> Result<Vec<String>, NoRoom> {
        let word = |word: &String| {
            room.string()?;
            expand(word, &mut room, &mut |name| values.get(name).copied())
        };
        words.iter().flatten().map(word).collect()
    };
    Ok((expanded(&container.command)?, expanded(&container.args)?))
}

/// The common part of an ephemeral container, as a container.
#[doc(alias = "EphemeralContainerCommon")]
pub fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let EphemeralContainer {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        target_container_name: _,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = ephemeral.clone();
    Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    }
}

/// The container of a plan, of any role; `None` if the pod has no such container.
pub fn container_of<'a>(pod: &'a Pod, start: &StartContainer) -> Option<Cow<'a, Container>> {
    match start.role {
        Role::Init | Role::Sidecar => pod.init().get(start.index).map(Cow::Borrowed),
        Role::Regular => pod.regular().get(start.index).map(Cow::Borrowed),
        Role::Ephemeral => pod.ephemeral().get(start.index).map(|ephemeral| Cow::Owned(as_container(ephemeral))),
    }
}

/// The annotations that a kubelet reads back after a restart (section 7.8).
///
/// upstream: kuberuntime/labels.go newContainerAnnotations (v1.36)
fn annotations(pod: &Pod, inputs: &ContainerInputs<'_>) -> BTreeMap<String, String> {
    let container = inputs.container;
    let mut annotations = inputs.extra.annotations.clone();
    let mut set = |key: &str, value: String| annotations.insert(format!("io.kubernetes.{key}"), value);
    set("container.hash", format!("{:x}", inputs.hash));
    set("container.restartCount", inputs.restart_count.to_string());
    set("container.terminationMessagePath", container.termination_message_path.clone().unwrap_or_default());
    set("container.terminationMessagePolicy", container.termination_message_policy.clone().unwrap_or_default());
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        set("pod.deletionGracePeriod", seconds.to_string());
    }
    if let Some(seconds) = pod.pod_spec().and_then(|spec| spec.termination_grace_period_seconds) {
        set("pod.terminationGracePeriod", seconds.to_string());
    }
    let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    if let Some(json) = pre_stop.and_then(|hook| serde_json::to_string(hook).ok()) {
        set("container.preStopHandler", json);
    }
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    if let Some(json) = ports.and_then(|ports| serde_json::to_string(ports).ok()) {
        set("container.ports", json);
    }
    annotations
}

/// RT-99.
fn stop_signal(ctx: &LaunchContext, container: &Container) -> Option<String> {
    container.lifecycle.as_ref().filter(|_| ctx.gates.stop_signals)?.stop_signal.clone()
}
